"""Continuation of a text by a causal model, with every head as it is or with some changed."""

from dataclasses import dataclass, replace

import torch
from transformers import GenerationConfig

from mha_viz.core.record.record import AttentionRecord, Token
from mha_viz.engine.attention_function import probing_a_library
from mha_viz.engine.head_changes import Gates, head_edits
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.prediction import written_text
from mha_viz.text.tokens import Encoded

MAX_BEAMS = 16


@dataclass(frozen=True, eq=False)
class Generated:
    """A text and its continuation by a model.

    Args:
        text: both, as one text.
        tokens: all of its tokens, the typed ones first.
        n_prompt: how many of them were typed.
        finished: the model ended the text itself, by its end token, which is not in `tokens`.
        record: the attention of all tokens, under the same gates; the notes of the run with it.
    """

    text: str
    tokens: tuple[Token, ...]
    n_prompt: int
    finished: bool
    record: AttentionRecord

    @property
    def new_tokens(self) -> tuple[Token, ...]:
        """The tokens that the model wrote."""
        return self.tokens[self.n_prompt :]

    def __repr__(self) -> str:
        return f"Generated({self.text!r}, {len(self.new_tokens)} new tokens)"


@torch.no_grad()
def generate(
    model: AttentionModel,
    text: str,
    gates: Gates | None = None,
    intervention: Intervention | None = None,
    max_new_tokens: int = 20,
    num_beams: int = 1,
) -> Generated:
    """Continue a text with a causal model: the likeliest token each time, or the likeliest beam.

    transformers' own `generate`, without sampling, with its key-value cache.

    Args:
        model: a causal language model.
        text: what comes before.
        gates: factors (layer, head) on each head's z, in every step.
        intervention: what else happens to some heads in every step. Not "mean" over the text
            itself nor a patch: both need the whole text, which is still to be written.
        max_new_tokens: 1 or more; fewer where the model's n_ctx ends before.
        num_beams: 1 (greedy) to 16.

    Returns:
        Generated, whose record traces the whole text under the same gates.

    Raises:
        ArgumentError: numbers out of range, no room for a token, such heads; no causal model.
        AttentionUnavailableError: no prediction head, or heads that cannot be changed.
        TextError: text that cannot be used.

    >>> import mha_viz as mv
    >>> generate(mv.load("tiny-gpt2"), "Once upon a", max_new_tokens=1).text
    'Once upon a time'
    """
    written_text.check_whole_number("max_new_tokens", max_new_tokens, 1, model.n_ctx)
    written_text.check_whole_number("num_beams", num_beams, 1, MAX_BEAMS)
    prompt = written_text.encode_prompt(model, text)
    room = model.n_ctx - len(prompt.input_ids)
    edits = head_edits(model, gates, intervention)
    with probing_a_library(Probe((), n_layers=model.n_layers, edits=edits)):
        ids = _new_ids(model, prompt, min(max_new_tokens, room), num_beams)
    ends = written_text.end_token_ids(model)
    finished = bool(ids) and ids[-1] in ends
    whole = written_text.extend_prompt(model, prompt, ids[:-1] if finished else ids)
    record = model.trace_encoded(whole, edits=edits)["self"]
    if not finished and len(ids) < max_new_tokens:
        note = f"{model.name} takes {model.n_ctx} tokens: the text ends there."
        record = replace(record, notes=(*record.notes, note))
    return Generated(whole.text, whole.tokens, len(prompt.tokens), finished, record)


def _new_ids(model: AttentionModel, prompt: Encoded, n: int, num_beams: int) -> list[int]:
    ids = torch.tensor([prompt.input_ids], device=model.device)
    ends = list(written_text.end_token_ids(model))
    pad = model.tokenizer.pad_token_id
    config = GenerationConfig(
        max_new_tokens=n,
        num_beams=num_beams,
        do_sample=False,
        use_cache=True,
        eos_token_id=ends or None,
        pad_token_id=pad if pad is not None else (ends[0] if ends else 0),
        bos_token_id=model.tokenizer.bos_token_id,
    )
    found = model.network.generate(
        ids, attention_mask=torch.ones_like(ids), generation_config=config
    )
    return found[0, ids.shape[1] :].tolist()
