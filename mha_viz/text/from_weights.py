"""A record of attention weights that another tool computed: one line from tensors and strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mha_viz.core.record.fields import Token
from mha_viz.core.record.record import AttentionRecord
from mha_viz.errors import RecordError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_EXPECTED = (
    "a tensor or array for each layer, (1, head, query, key) or (head, query, key), or one of all "
    "layers, (layer, head, query, key)"
)


def record(
    attentions: Any,
    tokens: Iterable[str | int | Token],
    key_tokens: Iterable[str | int | Token] = (),
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    special: Iterable[str] = (),
    model: str = "",
    text: str = "",
    part: str | None = None,
    causal: bool | None = None,
) -> AttentionRecord:
    """Build a record of the attention weights of any tool, to draw, measure and save.

    Args:
        attentions: a tensor or array for each layer, (1, head, query, key), as transformers gives
            them with `output_attentions=True`, or (head, query, key); or all layers in one, (layer,
            head, query, key). Torch or numpy, of any floating point type.
        tokens: of the query axis: strings, or `Token` where more is known of them. Equal strings
            count as the same token. With a `tokenizer` also its ids, or its pieces ("Ġcat").
        key_tokens: of the key axis, where that is another text (cross attention).
        tokenizer: the transformers tokenizer that the tokens are from: labels then read as in the
            text, and sub-words know their words (`record.merge_words`).
        special: which of the strings the tokenizer added
            (`tokenizer.all_special_tokens`).
        model: name of the model that the weights come from, for captions.
        text: the text that they come from, for captions.
        part: "self", "encoder", "decoder" or "cross"; if not given, "cross" where there are
            `key_tokens`, and else "self".
        causal: whether the future was hidden; if not given, whether every weight on it is 0.

    Returns:
        AttentionRecord with float32 pattern (layer, head, query, key).

    Raises:
        RecordError: not attention weights of that shape, layers that differ in shape, a batch of
            several texts, tokens that do not fit, or that the tokenizer does not make of `text`
            (if not given, of what it decodes them to).

    >>> weights = tuple(torch.full((1, 2, 3, 3), 1 / 3) for layer in range(4))
    >>> record(weights, ["the", "cat", "sat"]).pattern.shape
    torch.Size([4, 2, 3, 3])
    """
    known = frozenset(special)
    if tokenizer is not None:
        tokens, text = _read_again("tokens", list(tokens), tokenizer, text)
        key_tokens, _ = _read_again("key_tokens", list(key_tokens), tokenizer, "")
    queries, keys = _tokens("tokens", tokens, known), _tokens("key_tokens", key_tokens, known)
    pattern = _pattern(attentions)
    if causal is None:
        heads = pattern.flatten(0, 1) if pattern.numel() else ()  # mostly the first one tells
        causal = not keys and not any(bool(head.triu(1).amax() > 0) for head in heads)
    return AttentionRecord(
        pattern=pattern,
        tokens=queries,
        key_tokens=keys,
        model=model,
        text=text,
        part=part if part is not None else "cross" if keys else "self",
        causal=causal,
    )


def _read_again(
    name: str, given: list[str | int | Token], tokenizer: PreTrainedTokenizerBase, text: str
) -> tuple[list[str | int | Token], str]:
    """Return tokens with the labels, words and places that their tokenizer gives in the text."""
    if not given or isinstance(given[0], Token):
        return given, text
    from mha_viz.text.tokens import encode

    ids = [one if isinstance(one, int) else tokenizer.convert_tokens_to_ids(one) for one in given]
    text = text or tokenizer.decode(ids, skip_special_tokens=True)
    for add_special_tokens in (True, False):
        read = encode(
            tokenizer, text, max_length=len(ids) + 8, add_special_tokens=add_special_tokens
        )
        if read.input_ids == ids:
            return list(read.tokens), read.text
    raise RecordError(
        f"{name} are not what this tokenizer makes of {text!r:.60}: expected "
        f"{tokenizer.convert_ids_to_tokens(read.input_ids)!r:.80}, got {given!r:.80}. Give "
        "the text that they come from, or leave the tokenizer out."
    )


def _pattern(attentions: Any) -> Tensor:
    """Return all layers as one float32 tensor of its own (layer, head, query, key)."""
    if hasattr(attentions, "shape"):
        whole = _numbers(attentions)
        if whole.ndim != 4:
            raise RecordError(f"attentions must be {_EXPECTED}; got shape {tuple(whole.shape)}.")
        return whole.float().clone()
    if isinstance(attentions, str | bytes) or not isinstance(attentions, Sequence):
        raise RecordError(f"attentions must be {_EXPECTED}; got {type(attentions).__name__}.")
    layers = [_layer(number, layer) for number, layer in enumerate(attentions)]
    if not layers:
        raise RecordError(f"attentions must be {_EXPECTED}; got none: ask for output_attentions.")
    for number, layer in enumerate(layers):
        if layer.shape != layers[0].shape:
            raise RecordError(
                f"All layers must have one shape (head, query, key): layer 0 has "
                f"{tuple(layers[0].shape)}, layer {number} has {tuple(layer.shape)}."
            )
    return torch.stack(layers)


def _layer(number: int, given: Any) -> Tensor:
    """Return one layer as float32 (head, query, key)."""
    if given is None:
        raise RecordError(
            f"Layer {number} holds no weights: transformers gives them only where the model was "
            'loaded with attn_implementation="eager" and called with output_attentions=True.'
        )
    layer = _numbers(given)
    if layer.ndim == 4 and len(layer) > 1:
        raise RecordError(
            f"A record is of one text, but layer {number} holds a batch of {len(layer)}: pass "
            "[layer[i] for layer in attentions] for text i."
        )
    layer = layer[0] if layer.ndim == 4 and len(layer) == 1 else layer
    if layer.ndim != 3:
        raise RecordError(f"attentions must be {_EXPECTED}; got shape {tuple(layer.shape)}.")
    return layer.float()


def _numbers(given: Any) -> Tensor:
    """Return a tensor on the CPU without its history, of a tensor or an array."""
    try:
        found = torch.as_tensor(given).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise RecordError(f"attentions must be {_EXPECTED}; got {given!r:.60}.") from error
    if not found.is_floating_point():
        raise RecordError(f"attentions must be floating point, got {found.dtype}.")
    return found


def _tokens(
    name: str, given: Iterable[str | int | Token], special: frozenset[str]
) -> tuple[Token, ...]:
    """Turn strings into tokens, each a word of its own; equal strings have one id."""
    if isinstance(given, str):
        raise RecordError(
            f"{name} must be a sequence with a string for each token, got one string."
        )
    ids: dict[str, int] = {}
    found = []
    for place, label in enumerate(given):
        if isinstance(label, Token):
            found.append(label)
            continue
        if not isinstance(label, str):
            raise RecordError(
                f"{name} must hold strings or tokens, got {type(label).__name__} at place {place}: "
                "tokenizer.convert_ids_to_tokens makes strings of ids."
            )
        if not label.isprintable() and any("\ud800" <= char <= "\udfff" for char in label):
            raise RecordError(f"{name} hold half a character at place {place}: {label!a:.40}.")
        own = label in special
        number = ids.setdefault(label, len(ids))
        found.append(Token(label, number, word=None if own else place, is_special=own))
    return tuple(found)
