"""Continuation of a text by a causal model: prompts, tokens that may come next, `generate`."""

from dataclasses import dataclass, replace
from random import Random

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import GenerationConfig, PreTrainedTokenizerBase

from mha_viz.core.arguments import check_whole_number
from mha_viz.core.attention.checks import Number
from mha_viz.core.record.attention_record import AttentionRecord, Token
from mha_viz.engine.attention_function import probing_a_library
from mha_viz.engine.head_changes import Gates, head_edits
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.errors import ArgumentError, MhaVizError
from mha_viz.prediction.logits import check_predicts, logits
from mha_viz.text.encoding import continuing, encode_texts, label_of
from mha_viz.text.tokens import Encoded, encode, tokenizer_errors

N_CANDIDATES = 10
MAX_BEAMS = 16


def encode_prompt(model: AttentionModel, text: str) -> Encoded:
    """Encode a text that a causal model can continue."""
    if check_predicts(model.network) != "causal":
        raise ArgumentError(
            f"{model.name} is a masked model, which fills gaps and writes no text: use predict, or "
            "load a causal model such as tiny-gpt2."
        )
    prompt, _ = encode_texts(model.stored_reader, text)
    if len(prompt.input_ids) >= model.n_stored or prompt.n_truncated:
        raise ArgumentError(
            f"The text fills all {model.n_stored} positions of {model.name}: shorten it, so that "
            "there is room to go on."
        )
    return prompt


def end_token_ids(model: AttentionModel) -> tuple[int, ...]:
    """Return the numbers of the tokens that end a text for transformers' generate."""
    ends = model.network.generation_config.eos_token_id
    ends = model.tokenizer.eos_token_id if ends is None else ends
    return () if ends is None else tuple(ends) if isinstance(ends, list) else (ends,)


def extend_prompt(model: AttentionModel, prompt: Encoded, new: list[int]) -> Encoded:
    """Label the prompt with the new tokens.

    Where the whole text reads back as the same tokens, it is labelled like any other text;
    otherwise each new token is labelled by itself, without offsets.
    """
    ids = [*prompt.input_ids, *new]
    typed = [token.id for token in prompt.tokens if not token.is_special]
    with tokenizer_errors("what it wrote"):
        decoded, before = (
            str(model.tokenizer.decode(part, clean_up_tokenization_spaces=False))
            for part in ([*typed, *new], typed)
        )
    text = prompt.text + decoded[len(before) :] if decoded.startswith(before) else decoded
    try:
        again = encode(model.tokenizer, text, max_length=model.n_ctx)
        if again.input_ids == ids:
            return again
    except MhaVizError:  # a text that cannot be typed, half a character
        pass
    return replace(
        prompt, input_ids=ids, tokens=(*prompt.tokens, *_labelled(model, prompt, new)), text=text
    )


def _labelled(model: AttentionModel, prompt: Encoded, new: list[int]) -> list[Token]:
    special = set(model.tokenizer.all_special_ids)
    word = max((token.word for token in prompt.tokens if token.word is not None), default=-1)
    tokens = []
    for number, continues in zip(new, continuing(model.tokenizer, new), strict=True):
        word += not continues
        word_number = None if number in special else word
        label = label_of(model.tokenizer, number)
        tokens.append(Token(label, number, word=word_number, is_special=number in special))
    return tokens


@dataclass(frozen=True)
class Candidate:
    """A token that may come next.

    >>> import mha_viz as mv
    >>> written = mv.Writing(mv.load("tiny-gpt2"), "Once upon a").step()
    >>> written.candidates[0].text, len(written.candidates)
    ('time', 10)
    """

    text: str  # its label, as in a record
    id: int  # number in the vocabulary
    probability: float  # the model's own, softmax(logits), in [0, 1]
    # the probability with which a step draws it, in [0, 1]: at the temperature, among the `top_k`
    # likeliest. At temperature 0 it is 1 for the likeliest and 0 for the others.
    drawn_with: float
    continues: bool = False  # it continues the word before it


@dataclass(frozen=True)
class GeneratedToken(Candidate):
    """A token that a step wrote, among those that it might have written."""

    position: int = 0  # its index in the text's tokens
    rank: int = 1  # 1 for the likeliest token of the vocabulary
    # the 10 likeliest, likeliest first; the token itself may be one of them.
    candidates: tuple[Candidate, ...] = ()
    branched: bool = False  # it was chosen by `branch`

    @property
    def runners_up(self) -> tuple[Candidate, ...]:
        """The likeliest tokens that were not written."""
        return tuple(candidate for candidate in self.candidates if candidate.id != self.id)

    def __repr__(self) -> str:
        return f"GeneratedToken({self.text!r}, probability={self.probability:.3f})"


def sampling_probabilities(
    log_probs: Float[Tensor, " d_vocab"], temperature: Number, top_k: int | None
) -> Float[Tensor, " d_vocab"]:
    """Return the probabilities that a step draws with, float64.

    The temperature is 0 (the likeliest token alone) or more; top_k None draws among all tokens.

    >>> sampling_probabilities(torch.tensor([0.5, 0.3, 0.2]).log(), 1, 2)
    tensor([0.6250, 0.3750, 0.0000], dtype=torch.float64)
    """
    scores = log_probs.double() - log_probs.max().double()
    if temperature == 0:
        top_k, temperature = 1, 1.0
    if top_k is not None and top_k < len(scores):
        top_ids = scores.topk(top_k).indices
        scores = torch.full_like(scores, -torch.inf).index_copy(0, top_ids, scores[top_ids])
    return (scores / temperature).softmax(-1)


def draw(chances: Float[Tensor, " d_vocab"], seed: int, position: int) -> int:
    """Draw the token at a position; for one seed it is always the same one."""
    summed = chances.cumsum(-1)
    point = Random(f"{seed} {position}").random() * float(summed[-1])
    last = int(chances.nonzero()[-1])  # rounding must not lead beyond it
    return min(int(torch.searchsorted(summed, point, right=True)), last)


def describe_token(
    tokenizer: PreTrainedTokenizerBase,
    number: int,
    log_probs: Float[Tensor, " d_vocab"],
    chances: Float[Tensor, " d_vocab"],
    position: int,
    branched: bool = False,
) -> GeneratedToken:
    """Describe a token among the likeliest ones."""
    n = min(N_CANDIDATES, len(log_probs))
    ids = [number, *log_probs.topk(n).indices.tolist()]
    probabilities, drawn_with = (values[ids].tolist() for values in (log_probs.exp(), chances))
    labels = [label_of(tokenizer, i) for i in ids]
    joined = continuing(tokenizer, ids)
    every = list(zip(labels, ids, probabilities, drawn_with, joined, strict=True))
    rank = 1 + int((log_probs > log_probs[number]).sum())
    likeliest = tuple(Candidate(*values) for values in every[1:])
    return GeneratedToken(*every[0], position, rank, likeliest, branched)


@torch.no_grad()
def upcoming(model: AttentionModel, text: str, text_pair: str | None = None) -> GeneratedToken:
    """Return the likeliest token behind a text, and its runners-up: one pass that keeps nothing.

    >>> import mha_viz as mv
    >>> upcoming(mv.load("tiny-gpt2"), "Once upon a")
    GeneratedToken('time', probability=0.305)
    """
    encoded, _ = encode_texts(model.reader, text, text_pair)
    log_probs = logits(model.network, [encoded], last=True)[0, -1].float().log_softmax(-1).cpu()
    chances = sampling_probabilities(log_probs, 0, None)
    return describe_token(
        model.tokenizer, int(chances.argmax()), log_probs, chances, len(encoded.input_ids)
    )


@dataclass(frozen=True, eq=False)
class Generated:
    """A text and its continuation by a model."""

    text: str  # both, as one text
    tokens: tuple[Token, ...]  # all of its tokens, the typed ones first
    n_prompt: int  # how many of them were typed
    finished: bool  # the model ended the text itself, by its end token, which is not in `tokens`
    # the attention of all tokens, under the same gates; the notes of the run with it.
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
    check_whole_number("max_new_tokens", max_new_tokens, 1, model.n_ctx)
    check_whole_number("num_beams", num_beams, 1, MAX_BEAMS)
    prompt = encode_prompt(model, text)
    room = model.n_ctx - len(prompt.input_ids)
    edits = head_edits(model, gates, intervention)
    with probing_a_library(Probe((), n_layers=model.n_layers, edits=edits)):
        ids = _new_ids(model, prompt, min(max_new_tokens, room), num_beams)
    ends = end_token_ids(model)
    finished = bool(ids) and ids[-1] in ends
    extended = extend_prompt(model, prompt, ids[:-1] if finished else ids)
    record = model.trace_encoded(extended, edits=edits)["self"]
    if not finished and len(ids) < max_new_tokens:
        note = f"{model.name} takes {model.n_ctx} tokens: the text ends there."
        record = replace(record, notes=(*record.notes, note))
    return Generated(extended.text, extended.tokens, len(prompt.tokens), finished, record)


def _new_ids(model: AttentionModel, prompt: Encoded, n: int, num_beams: int) -> list[int]:
    ids = torch.tensor([prompt.input_ids], device=model.device)
    ends = list(end_token_ids(model))
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
    sequences = model.network.generate(
        ids, attention_mask=torch.ones_like(ids), generation_config=config
    )
    return sequences[0, ids.shape[1] :].tolist()
