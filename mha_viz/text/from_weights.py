"""A record of attention weights that another tool computed: one line from tensors and strings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.layer_numbers import checked_numbers
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.fields import Token
from mha_viz.errors import RecordError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_EXPECTED = (
    "a tensor or array for each layer, (1, head, query, key) or (head, query, key), or one of all "
    "layers, (layer, head, query, key)"
)

_ASK = (
    'transformers gives weights only where the model was loaded with attn_implementation="eager" '
    "and called with output_attentions=True. mv.wrap(network, tokenizer).trace(text) needs neither."
)
MAX_ON_PADDING = 1e-3  # weight of a query on padding; what a mask leaves is rounding


def record(
    attentions: Any,
    tokens: Iterable[str | int | Token] | Tensor | np.ndarray,
    key_tokens: Iterable[str | int | Token] | Tensor | np.ndarray = (),
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    attention_mask: Sequence[int] | Tensor | np.ndarray | None = None,
    key_attention_mask: Sequence[int] | Tensor | np.ndarray | None = None,
    special: Iterable[str] = (),
    model: str = "",
    text: str = "",
    text_pair: str | None = None,
    part: str | None = None,
    causal: bool | None = None,
    layers: Sequence[int] = (),
) -> AttentionRecord:
    """Build a record of the attention weights of any tool, to draw, measure and save.

    Args:
        attentions: a tensor or array for each layer, (1, head, query, key), as transformers gives
            them with `output_attentions=True`, or (head, query, key); or all layers in one, (layer,
            head, query, key). Torch or numpy, of any floating point type. Also what `generate`
            gives: for each step a tensor for each layer, which are put together.
        tokens: of the query axis: strings, or `Token` where more is known of them. Equal strings
            count as the same token. With a `tokenizer` also its ids (`input_ids`, with a batch of
            one or without), or its pieces ("Ġcat"). After `generate` the last token may be there:
            the model has not read it, and it is left out.
        key_tokens: of the key axis, where that is another text (cross attention).
        tokenizer: the transformers tokenizer that the tokens are from: labels then read as in the
            text, and sub-words know their words (`record.merge_words`).
        attention_mask: 1 for each token that is text and 0 for padding, as the model was given it;
            padding is left out of the record. Of the queries, and of the keys where they are the
            same tokens. A prompt's mask may be shorter than what `generate` made of it.
        key_attention_mask: that of `key_tokens`.
        special: which of the strings the tokenizer added
            (`tokenizer.all_special_tokens`).
        model: name of the model that the weights come from, for captions.
        text: the text that they come from, for captions; in cross attention that of the keys.
        text_pair: its second segment; in cross attention the text of the queries.
        part: "self", "encoder", "decoder" or "cross"; if not given, "cross" where there are
            `key_tokens`, and else "self".
        causal: whether the future was hidden; if not given, whether every weight on it is 0.
        layers: the model's own number of each layer, from 0, where some layers of a hybrid model
            have no attention; 0, 1, 2 ... if not given.

    Returns:
        AttentionRecord with float32 pattern (layer, head, query, key).

    Raises:
        RecordError: not attention weights of that shape, layers that differ in shape, layer
            numbers that do not increase or are not one a layer, a batch of several texts, tokens
            that do not fit, a mask that hides what the model looked at, or a `text` that the tokens
            are not part of.

    >>> weights = tuple(torch.full((1, 2, 3, 3), 1 / 3) for layer in range(4))
    >>> record(weights, ["the", "cat", "sat"]).pattern.shape
    torch.Size([4, 2, 3, 3])
    """
    query_tokens, key_labels = _listed("tokens", tokens), _listed("key_tokens", key_tokens)
    pattern = _pattern(attentions, is_cross=bool(key_labels) or part == "cross")
    if _has_steps(attentions) and len(query_tokens) == pattern.shape[2] + 1:
        query_tokens = query_tokens[:-1]
    queries = _mask("attention_mask", attention_mask, pattern.shape[2])
    keys = _mask("key_attention_mask", key_attention_mask, pattern.shape[3])
    keys = keys if key_labels else queries
    if len(query_tokens) == len(queries):  # else the record says that they do not fit
        query_tokens = [
            token for token, is_text in zip(query_tokens, queries, strict=True) if is_text
        ]
    if len(key_labels) == len(keys):
        key_labels = [token for token, is_text in zip(key_labels, keys, strict=True) if is_text]
    pattern = _without_padding(pattern, queries, keys)
    if tokenizer is not None and key_labels:
        query_tokens, text_pair = _labelled("tokens", query_tokens, tokenizer, text_pair or "")
        # Offsets of the queries count in text_pair.
        query_tokens = [replace(token, segment=1) for token in query_tokens]
        key_labels, text = _labelled("key_tokens", key_labels, tokenizer, text)
    elif tokenizer is not None:
        query_tokens, text = _labelled("tokens", query_tokens, tokenizer, text, text_pair)
    marked = frozenset(special)
    query_axis, key_axis = (
        _tokens(name, axis, marked)
        for name, axis in (("tokens", query_tokens), ("key_tokens", key_labels))
    )
    if causal is None:
        heads = pattern.flatten(0, 1) if pattern.numel() else ()  # mostly the first one tells
        causal = not key_axis and not any(bool(head.triu(1).amax() > 0) for head in heads)
    part = part if part is not None else "cross" if key_axis else "self"
    return AttentionRecord(
        pattern,
        query_axis,
        key_axis,
        model=model,
        text=text,
        text_pair=text_pair,
        part=part,
        causal=causal,
        layer_numbers=checked_numbers(layers, len(pattern)),
    )


def _listed(name: str, tokens: Any) -> list[Any]:
    """Return tokens of any container as a list; ids of a tensor or array without their batch."""
    if isinstance(tokens, str):
        raise RecordError(
            f"{name} must be a sequence with a string for each token, got one string."
        )
    if isinstance(tokens, Tensor):
        tokens = tokens.detach().cpu().numpy()
    if isinstance(tokens, np.ndarray):
        if tokens.ndim == 2 and len(tokens) == 1:
            tokens = tokens[0]
        if tokens.ndim != 1:
            raise RecordError(
                f"{name} of one text have one axis, or a batch of one; got shape {tokens.shape}: "
                "pass row i for text i, with the weights [layer[i] for layer in attentions]."
            )
        return tokens.tolist()
    return [int(token) if isinstance(token, np.integer) else token for token in tokens]


def _mask(name: str, mask: Any, n: int) -> list[bool]:
    """Return for each of n tokens whether it is text; what a mask does not reach is."""
    if mask is None:
        return [True] * n
    values = [bool(value) for value in _listed(name, mask)]
    if len(values) > n or not any(values):
        raise RecordError(
            f"{name} must hold a 1 for each token that is text and a 0 for each that is padding, "
            f"at most {n} of them; got {len(values)}, {sum(values)} of them 1."
        )
    return values + [True] * (n - len(values))


def _without_padding(pattern: Tensor, queries: Sequence[bool], keys: Sequence[bool]) -> Tensor:
    """Return the weights between tokens that are text, (layer, head, query, key)."""
    if all(queries) and all(keys):
        return pattern
    rows, columns = torch.tensor(queries), torch.tensor(keys)
    pattern = pattern[:, :, rows]
    lost = float(pattern[..., ~columns].sum(-1).amax()) if not all(keys) else 0.0
    if lost > MAX_ON_PADDING:
        raise RecordError(
            f"A query of the text puts {lost:.2g} of its attention on padding: the model was not "
            "given this attention_mask."
        )
    return pattern[..., columns]


def _labelled(
    name: str,
    labels: Sequence[Any],
    tokenizer: PreTrainedTokenizerBase,
    text: str = "",
    text_pair: str | None = None,
) -> tuple[list[Token], str]:
    """Return tokens with the labels and words that their tokenizer gives, and their text."""
    if not labels or isinstance(labels[0], Token):
        return list(labels), text
    from mha_viz.text.from_ids import encode_ids

    ids = [
        label if isinstance(label, int) else tokenizer.convert_tokens_to_ids(label)
        for label in labels
    ]
    if any(number is None for number in ids):
        missing = labels[ids.index(None)]
        raise RecordError(f"{name} hold {missing!r:.40}, which this tokenizer does not know.")
    read = encode_ids(tokenizer, ids, text, text_pair)
    spelled, of_text = ("".join(t.split()).casefold() for t in (read.text, text))
    if of_text and spelled not in of_text and tokenizer.unk_token_id not in ids:
        raise RecordError(
            f"{name} are not what this tokenizer makes of {text!r:.60}: they read "
            f"{read.text!r:.80}. Give the text that they come from, or leave it out."
        )
    return list(read.tokens), read.text


def _has_steps(attentions: Any) -> bool:
    """Return whether weights are those of `generate`: a step a token, a tensor a layer in each."""
    return (
        isinstance(attentions, Sequence)
        and not isinstance(attentions, str | bytes)
        and len(attentions) > 0
        and isinstance(attentions[0], tuple | list)
        and all(isinstance(step, tuple | list) for step in attentions)
        and all(hasattr(layer, "ndim") and layer.ndim > 2 for layer in attentions[0])
    )


def joined_steps(
    steps: Sequence[Float[Tensor, "n_heads query key"]], is_cross: bool
) -> Float[Tensor, "n_heads query key"]:
    """Put together one layer's weights of the steps of a generation.

    A step holds the rows of the tokens that it read: all of the prompt, then one by one. Its keys
    are all tokens so far; only the last of them where the cache has a window, and further ones
    without any weight where it has a fixed length.

    Args:
        steps: the layer's weights in each step.
        is_cross: whether the keys are those of another text, and so the same in each step.

    Raises:
        RecordError: keys that do not go on from step to step.
    """
    if is_cross:
        return torch.cat(list(steps), dim=1)
    n = sum(step.shape[1] for step in steps)
    joined = steps[0].new_zeros(steps[0].shape[0], n, n)
    end = 0
    for number, step in enumerate(steps):
        begin, end = end, end + step.shape[1]
        n_keys = step.shape[2]
        if n_keys > end and bool(step[..., end:].any()):
            raise RecordError(
                f"The weights of a generation do not go on: step {number} has {n_keys} keys after "
                f"{end} tokens. Give the weights of one call of generate, without beams."
            )
        visible_part = step[..., :end]
        joined[:, begin:end, end - visible_part.shape[2] : end] = visible_part
    return joined


def _pattern(attentions: Any, is_cross: bool) -> Tensor:
    """Return all layers as one float32 tensor of its own (layer, head, query, key)."""
    if hasattr(attentions, "shape"):
        stacked = _numbers(attentions)
        if stacked.ndim != 4:
            raise RecordError(f"attentions must be {_EXPECTED}; got shape {tuple(stacked.shape)}.")
        return stacked.float().clone()
    if isinstance(attentions, str | bytes) or not isinstance(attentions, Sequence):
        raise RecordError(f"attentions must be {_EXPECTED}; got {type(attentions).__name__}.")
    if _has_steps(attentions):
        steps = [[_layer(i, layer) for i, layer in enumerate(step)] for step in attentions]
        if len({len(step) for step in steps}) > 1:
            raise RecordError("Each step of a generation must have the weights of each layer.")
        layers = [joined_steps(layer, is_cross) for layer in zip(*steps, strict=True)]
    else:
        layers = [_layer(number, layer) for number, layer in enumerate(attentions)]
    if not layers:
        raise RecordError(f"attentions must be {_EXPECTED}; got none. {_ASK}")
    for number, layer in enumerate(layers):
        if layer.shape != layers[0].shape:
            raise RecordError(
                f"All layers must have one shape (head, query, key): layer 0 has "
                f"{tuple(layers[0].shape)}, layer {number} has {tuple(layer.shape)}."
            )
    return torch.stack(layers)


def _layer(number: int, weights: Any) -> Tensor:
    """Return one layer as float32 (head, query, key)."""
    if weights is None:
        raise RecordError(f"Layer {number} holds no weights. {_ASK}")
    layer = _numbers(weights)
    if layer.ndim == 4 and len(layer) > 1:
        raise RecordError(
            f"A record is of one text, but layer {number} holds a batch of {len(layer)}: pass "
            "[layer[i] for layer in attentions] for text i."
        )
    layer = layer[0] if layer.ndim == 4 and len(layer) == 1 else layer
    if layer.ndim != 3:
        raise RecordError(f"attentions must be {_EXPECTED}; got shape {tuple(layer.shape)}.")
    return layer.float()


def _numbers(weights: Any) -> Tensor:
    """Return a tensor on the CPU without its history, of a tensor or an array."""
    try:
        array = torch.as_tensor(weights).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise RecordError(f"attentions must be {_EXPECTED}; got {weights!r:.60}.") from error
    if not array.is_floating_point():
        raise RecordError(f"attentions must be floating point, got {array.dtype}.")
    return array


def _tokens(
    name: str, labels: Iterable[str | int | Token], special: frozenset[str]
) -> tuple[Token, ...]:
    """Turn strings into tokens, each a word of its own; equal strings have one id."""
    ids: dict[str, int] = {}
    read = []
    for position, label in enumerate(labels):
        if isinstance(label, Token):
            read.append(label)
            continue
        if not isinstance(label, str):
            raise RecordError(
                f"{name} must hold strings or tokens, got {type(label).__name__} at place "
                f"{position}: give the tokenizer of ids (tokenizer=...)."
            )
        if not label.isprintable() and any("\ud800" <= char <= "\udfff" for char in label):
            raise RecordError(f"{name} hold half a character at place {position}: {label!a:.40}.")
        is_special = label in special
        number = ids.setdefault(label, len(ids))
        read.append(
            Token(label, number, word=None if is_special else position, is_special=is_special)
        )
    return tuple(read)
