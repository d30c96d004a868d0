"""The [MASK] of masked models, and the losses of a text's own tokens."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.prediction.logits import check_predicts
from mha_viz.text.tokens import Encoded, encode

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
    """Replace a typed [MASK] by the model's own spelling (RoBERTa's is <mask>)."""
    return text.replace("[MASK]", mask_token(model)) if isinstance(text, str) else text


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
