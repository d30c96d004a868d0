"""Tokens of ids whose text is not known: of a tensor, a chat, a generation, or another tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, groupby
from typing import Any, TypeGuard, cast

import numpy as np
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from mha_viz.core.record.fields import Token
from mha_viz.errors import MhaVizError, TextError
from mha_viz.text.cleaning import visible
from mha_viz.text.encoding import (
    Reader,
    Texts,
    check_known,
    continuing,
    decoder_text,
    encode_texts,
    label_of,
)
from mha_viz.text.tokens import Encoded, encode, special_ids, tokenizer_errors

TokenIds = Sequence[int] | Tensor | np.ndarray
ChatMessages = Sequence[Mapping[str, Any]]


def encode_input(
    reader: Reader, text: str | TokenIds | ChatMessages, text_pair: str | None = None
) -> Texts:
    """Encode a text, its ids, or the messages of a chat, as `encode_texts` does a text.

    Raises:
        TextError: as `encode_texts`; ids that the model does not know, no chat template, or a
            second text beside ids.
    """
    if isinstance(text, str) or text is None:
        return encode_texts(reader, text, text_pair)
    if text_pair is not None and not reader.two_texts:
        raise TextError("Ids and chats have no second text: their own tokens separate their parts.")
    tokenizer = reader.tokenizer
    ids = chat_ids(tokenizer, text) if is_chat(text) else plain_ids(cast(TokenIds, text))
    check_known(reader, ids)
    encoded = encode_ids(tokenizer, ids[: reader.n_ctx])
    encoded = replace(encoded, n_truncated=len(ids) - len(encoded.input_ids))
    return encoded, decoder_text(reader, text_pair) if reader.two_texts else None


def is_chat(text: TokenIds | ChatMessages) -> TypeGuard[ChatMessages]:
    """Return whether it is a list of messages, as a chat template takes them."""
    return (
        isinstance(text, Sequence)
        and len(text) > 0
        and all(isinstance(message, Mapping) for message in text)
    )


def chat_ids(tokenizer: PreTrainedTokenizerBase, messages: ChatMessages) -> list[int]:
    """Return the ids of a chat by the tokenizer's own template.

    Raises:
        TextError: the tokenizer has no template, or the template refuses the messages.
    """
    if not tokenizer.chat_template:
        raise TextError(
            "This model's tokenizer has no chat template: give the chat as one text, in the form "
            "that the model was trained on."
        )
    with tokenizer_errors("these messages"):
        ids = tokenizer.apply_chat_template(list(messages), tokenize=True, return_dict=False)
    return list(ids)


def plain_ids(token_ids: TokenIds, name: str = "text") -> list[int]:
    """Return ids as a list, of a list, tensor or array with one axis, or with a batch of one.

    Raises:
        TextError: no ids, a batch of several, or numbers that are no ids.
    """
    if not isinstance(token_ids, Sequence):
        numbers = token_ids.detach().cpu().numpy() if isinstance(token_ids, Tensor) else token_ids
        if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in "iu":
            raise TextError(f"The {name} must be a string or whole numbers, got {token_ids!r:.40}.")
        if numbers.ndim == 2 and len(numbers) == 1:
            numbers = numbers[0]
        if numbers.ndim != 1:
            raise TextError(
                f"Ids of one {name} have one axis, or a batch of one; got shape {numbers.shape}."
            )
        token_ids = numbers.tolist()
    ids = [_id(number, name) for number in token_ids]
    if not ids:
        raise TextError(f"The {name} has no ids. Give at least one.")
    return ids


def _id(number: Any, name: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise TextError(f"Ids of the {name} are whole numbers from 0, got {number!r:.40}.")
    return int(number)


def encode_ids(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[int],
    text: str = "",
    text_pair: str | None = None,
) -> Encoded:
    """Label ids as in a text, with words and offsets where the tokenizer makes them of it.

    Where it makes other ids of the text (a cut or padded text, a chat, ids that a model generated),
    each run between special tokens is read by itself; where even that gives other ids, each id
    carries its piece, without offsets. The result's `text` is what its offsets count in: `text`
    where the ids are those of it, else what they decode to.

    Args:
        tokenizer: its tokenizer.
        ids: at least one.
        text: the text that they may come from; what they decode to if not given.
        text_pair: the second segment that they may come from.
    """
    ids = list(ids)
    special = special_ids(tokenizer)
    runs = [(is_special, list(run)) for is_special, run in groupby(ids, special.__contains__)]
    spellings = [_decoded(tokenizer, run) for is_special, run in runs if not is_special]
    for texts in _candidates(text, text_pair, spellings):
        for add_special_tokens in (True, False):
            with suppress(MhaVizError):
                read = encode(
                    tokenizer,
                    *texts,
                    max_length=len(ids) + 8,
                    add_special_tokens=add_special_tokens,
                )
                if read.input_ids == ids:
                    return read
    return _read_runs(tokenizer, runs)


def _candidates(
    text: str, text_pair: str | None, spellings: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """Yield the texts, and pairs of texts, that ids may come from."""
    if text:
        yield (text,) if text_pair is None else (text, text_pair)
    elif len(spellings) in (1, 2):
        yield tuple(spellings)


def _decoded(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    with tokenizer_errors("its own tokens"):
        return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def _read_runs(
    tokenizer: PreTrainedTokenizerBase, runs: Sequence[tuple[bool, list[int]]]
) -> Encoded:
    """Read each run between special tokens by itself; the runs' texts stand one behind another."""
    tokens: list[Token] = []
    texts: list[str] = []
    start = n_words = 0
    for is_special, ids in runs:
        if is_special:
            names = (visible(str(tokenizer.convert_ids_to_tokens(number))) for number in ids)
            tokens += [
                Token(name, number, is_special=True)
                for name, number in zip(names, ids, strict=True)
            ]
            continue
        spelling = _decoded(tokenizer, ids)
        run = _read_run(tokenizer, ids, spelling)
        for token in run:
            token = replace(token, word=n_words + (token.word or 0))
            if token.start is not None and token.end is not None:
                token = replace(token, start=token.start + start, end=token.end + start)
            tokens.append(token)
        n_words = 1 + max(token.word or 0 for token in tokens[-len(run) :])
        texts.append(spelling)
        start += len(spelling) + 1
    ids = list(chain.from_iterable(ids for _, ids in runs))
    return Encoded(ids, None, tuple(tokens), text=" ".join(texts))


def _read_run(tokenizer: PreTrainedTokenizerBase, ids: list[int], text: str) -> list[Token]:
    """Label ids of plain text, by their offsets in it where the tokenizer makes them of it."""
    with suppress(MhaVizError):
        read = encode(tokenizer, text, max_length=len(ids) + 8, add_special_tokens=False)
        if read.input_ids == ids and not any(token.is_special for token in read.tokens):
            return list(read.tokens)
    words, word = [], -1
    for continues in continuing(tokenizer, ids):
        word += not continues or word < 0
        words.append(word)
    return [
        Token(label_of(tokenizer, number), number, word=word)
        for number, word in zip(ids, words, strict=True)
    ]
