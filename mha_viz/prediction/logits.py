"""Logits of a model, [MASK] of masked models, and the losses of a text's own tokens."""

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.engine.run import padded
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from mha_viz.text.tokens import Encoded, encode

Objective = Literal["causal", "masked", "class"]


def objective(network: PreTrainedModel) -> Objective | None:
    """Return what the network predicts: "causal" (the next token), "masked", "class", or None.

    "class" is one class of several for a whole text; the scores of several labels at once, and a
    single number, are no distribution and give None.
    """
    name, config = type(network).__name__, network.config
    if name.endswith("ForSequenceClassification") and not config.is_encoder_decoder:
        single = getattr(config, "problem_type", None) in (None, "single_label_classification")
        return "class" if single and config.num_labels > 1 else None
    if name.endswith(("ForCausalLM", "LMHeadModel")):
        return "causal"
    if name == "ElectraForPreTraining":
        return None  # it detects replaced tokens
    return "masked" if name.endswith(("ForMaskedLM", "ForPreTraining")) else None


def logits(
    network: PreTrainedModel,
    texts: Sequence[Encoded],
    probe: Probe | None = None,
    *,
    pad: int = 0,
    last: bool = False,
) -> Float[Tensor, "batch position d_vocab"]:
    """Run one whole forward pass; what stands at padded positions has no meaning.

    A classifier gives one position: (batch, 1, class).

    Gradients flow where torch records them (to the gates of `probe.edits`); call it in inference
    mode otherwise. `last` computes the last position alone, where the family can, in less memory.
    """
    kind = check_predicts(network, classes=True)
    if kind == "class":
        network, pad = _padding_of_classifier(network, texts)
    inputs = padded(network, texts, pad)
    known = inspect.signature(network.forward).parameters
    if "use_cache" in known:
        inputs["use_cache"] = False
    if last and "logits_to_keep" in known:
        inputs["logits_to_keep"] = 1
    if probe is not None:
        inputs["mha_probe"] = probe
    output = network(**inputs)
    if probe is not None and not probe.modules:
        raise AttentionUnavailableError(
            f"{type(network).__name__} did not call our attention function: its heads cannot be "
            "changed here."
        )
    found: Tensor | None = getattr(output, "prediction_logits", None)
    if kind == "class":
        return output.logits[:, None]
    return output.logits if found is None else found


def _padding_of_classifier(
    network: PreTrainedModel, texts: Sequence[Encoded]
) -> tuple[PreTrainedModel, int]:
    """Return the network and the token that fills up a batch of texts.

    Decoders read the class at the last token that is not the config's padding. Where the config
    names none, a copy of the network takes for it a token that is in none of the texts.
    """
    config = network.config.get_text_config()
    pad = getattr(config, "pad_token_id", None)
    if pad is not None and 0 <= pad < config.vocab_size:
        return network, int(pad)
    if len(texts) == 1:
        return network, 0  # nothing is filled up
    used = {number for text in texts for number in text.input_ids}
    free = next((number for number in range(config.vocab_size) if number not in used), None)
    if free is None:
        raise ArgumentError(
            "The config of this classifier names no padding token, and these texts use the whole "
            "vocabulary: give one text at a time, or set config.pad_token_id."
        )
    twin = copy.copy(network)
    twin.config = copy.deepcopy(network.config)
    twin.config.get_text_config().pad_token_id = free
    return twin, free


def check_predicts(network: PreTrainedModel, *, classes: bool = False) -> Objective:
    """Return the `objective` of a network that predicts tokens; with `classes` of classifiers too.

    Raises AttentionUnavailableError for every other network.
    """
    found = objective(network)
    name = type(network).__name__
    if found is not None and (classes or found != "class"):
        return found
    if found == "class":
        raise AttentionUnavailableError(
            f"This checkpoint is a {name}: it predicts a class, and this needs predicted tokens. "
            "predict, ablate, head_importance and logit_attribution take classes."
        )
    if name.endswith("ForSequenceClassification") and not network.config.is_encoder_decoder:
        raise AttentionUnavailableError(
            f"This checkpoint is a {name} whose outputs are no distribution over classes (several "
            "labels at once, or one number); predictions are for one class of several. Its "
            "attention can be traced under gates: model.trace(text, gates=...)."
        )
    if network.config.is_encoder_decoder:
        raise AttentionUnavailableError(
            f"This checkpoint is an encoder-decoder ({name}); predictions are for causal and "
            "masked language models. Its attention can be traced under gates: "
            "model.trace(text, text_pair, gates=...)."
        )
    raise AttentionUnavailableError(
        f"This checkpoint is a {name}: it has no head that predicts tokens. Load one saved with "
        "its language-model head (…ForCausalLM, …ForMaskedLM); of this one the attention can be "
        "traced under gates: model.trace(text, gates=...)."
    )


Forward = Callable[[Sequence[Encoded]], Tensor]
_NUMBERS_AT_ONCE = 2**24  # logits of a batch of masked texts, and of a piece of a long text


def mask_word_at(model: AttentionModel, text: str, word: int) -> str:
    """Replace one word by the model's [MASK], however many tokens it had.

    Raises ArgumentError: no such word; a tokenizer without offsets or without a mask.

    >>> import mha_viz as mv
    >>> mask_word_at(mv.load("tiny-bert"), "The cat sat", 1)
    'The [MASK] sat'
    """
    mask = mask_token(model)
    encoded = encode(model.tokenizer, text, max_length=model.n_ctx)
    parts = [token for token in encoded.tokens if token.word == word]
    if not parts:
        n = 1 + max(token.word for token in encoded.tokens if token.word is not None)
        raise ArgumentError(f"word must lie in 0..{n - 1}, got {word}.")
    start, end = parts[0].start, parts[-1].end
    if start is None or end is None:
        raise ArgumentError(
            f"The tokenizer of {model.name} does not tell where its tokens stand: mask a token by "
            "predict(..., position=)."
        )
    return encoded.text[:start] + mask + encoded.text[end:]


def mask_token(model: AttentionModel) -> str:
    """Return the spelling of [MASK] in the model's tokenizer; ArgumentError where there is none."""
    mask = model.tokenizer.mask_token
    if mask is None or check_predicts(model.network) != "masked":
        raise ArgumentError(f"{model.name} has no [MASK]: it predicts what follows a token.")
    return str(mask)


def replace_mask(model: AttentionModel, text: str) -> str:
    """Spell a typed [MASK] as a masked model does (RoBERTa: <mask>); a causal one has none."""
    masked = objective(model.network) == "masked" and isinstance(text, str)
    return text.replace("[MASK]", mask_token(model)) if masked else text


def mask_token_at(model: AttentionModel, encoded: Encoded, position: int) -> Encoded:
    """Mask one of a text's encoded tokens; the text stays as it was typed."""
    ids, tokens = list(encoded.input_ids), list(encoded.tokens)
    number = model.tokenizer.mask_token_id
    ids[position] = number
    tokens[position] = replace(tokens[position], text="[MASK]", id=number)
    return replace(encoded, input_ids=ids, tokens=tuple(tokens))


def causal_losses(
    found: Float[Tensor, "position d_vocab"], encoded: Encoded
) -> tuple[float | None, ...]:
    """Return -ln p of each token given those before it, nats; None for the first."""
    if len(encoded.input_ids) == 1:
        return (None,)
    ids = torch.tensor(encoded.input_ids[1:], device=found.device)
    return (None, *_losses(found[:-1], ids).tolist())


def masked_losses(
    model: AttentionModel, encoded: Encoded, forward: Forward
) -> tuple[float | None, ...]:
    """Return -ln p of each token with it alone masked, nats; None for special tokens and masks."""
    mask, n = model.tokenizer.mask_token_id, len(encoded.tokens)
    positions = [
        i
        for i, token in enumerate(encoded.tokens)
        if not token.is_special and encoded.input_ids[i] != mask
    ]
    size = min(32, max(1, _NUMBERS_AT_ONCE // (n * model.d_vocab)))
    losses: list[float | None] = [None] * n
    for start in range(0, len(positions), size):
        batch = positions[start : start + size]
        found = forward([mask_token_at(model, encoded, i) for i in batch])
        rows = torch.arange(len(batch), device=found.device)
        at = torch.tensor(batch, device=found.device)
        ids = torch.tensor([encoded.input_ids[i] for i in batch], device=found.device)
        for i, loss in zip(batch, _losses(found[rows, at], ids).tolist(), strict=True):
            losses[i] = loss
    return tuple(losses)


def _losses(found: Float[Tensor, "row d_vocab"], ids: Int[Tensor, " row"]) -> Float[Tensor, " row"]:
    """Return -ln softmax(found)[ids] row by row; never two copies of a long text's logits."""
    rows = max(1, _NUMBERS_AT_ONCE // found.shape[-1])
    pieces = zip(found.split(rows), ids.split(rows), strict=True)
    return torch.cat(
        [torch.nn.functional.cross_entropy(f.float(), i, reduction="none") for f, i in pieces]
    )
