"""Texts of a model as tokens: one or a pair, an encoder's and its decoder's; its vocabulary."""

import copy
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from mha_viz.core.record.attention_record import Token
from mha_viz.errors import ArgumentError, MhaVizError, TextError
from mha_viz.text.cleaning import clean_text, in_a_row, visible
from mha_viz.text.tokens import Encoded, encode, spelled, tokenizer_errors

MOST_UNKNOWN = 0.2  # of a text's tokens, before a note says so
Text = TypeVar("Text")
Texts = tuple[Encoded, Encoded | None]  # and the decoder's, of an encoder-decoder


@dataclass(frozen=True)
class Reader:
    """The limits that a model's texts must fit."""

    tokenizer: PreTrainedTokenizerBase  # its tokenizer
    name: str  # of the model, for messages
    n_ctx: int  # tokens of the longest text
    d_vocab: int  # tokens that it has vectors for
    two_texts: bool = False  # an encoder-decoder, with a text for each stack
    # the number of the token that a decoder's text begins with; None for the padding
    start: object = None
    target_tokenizer: PreTrainedTokenizerBase | None = None  # the decoder's, if it is another
    # tokens of the longest text that has the same weights beside a longer one, padded, as alone
    pad_limit: float = math.inf


def encode_texts(reader: Reader, text: str, text_pair: str | None = None) -> Texts:
    """Encode a text and its second segment together; for an encoder-decoder, one for each stack."""
    if not reader.two_texts:
        encoded = encode(reader.tokenizer, text, text_pair, max_length=reader.n_ctx)
        target = None
    else:
        encoded = encode(reader.tokenizer, text, max_length=reader.n_ctx)
        target = decoder_text(reader, text_pair)
    for item in (encoded, target):
        if item is not None:
            check_known(reader, item.input_ids)
    return encoded, target


def check_known(reader: Reader, ids: Sequence[int]) -> None:
    """Check that the model has a vector for each id."""
    if max(ids) >= reader.d_vocab:
        raise TextError(
            f"This text has tokens that {reader.name} does not know (number "
            f"{max(ids):,} of {reader.d_vocab:,}): tokenizer and model do not belong together."
        )


def count_positions(reader: Reader, text: str) -> int:
    """Count the positions of a model that a text takes, uncut and with special tokens."""
    with tokenizer_errors():
        return len(reader.tokenizer(text, verbose=False)["input_ids"])


def attending(part: str, source: Text, target: Text | None) -> tuple[Text, Text]:
    """Return the queries' text and the keys' text in a part of a model."""
    decoder = source if target is None else target
    queries = decoder if part in ("decoder", "cross") else source
    return queries, decoder if part == "decoder" else source


def takes_pair(reader: Reader) -> bool:
    """Return whether the model takes a second text: a second segment, or the decoder's text."""
    if reader.two_texts:
        return True
    try:
        encode(reader.tokenizer, "a", "b", max_length=reader.n_ctx)
    except MhaVizError:
        return False
    return True


def target_tokenizer(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a decoder's texts: the same, or a copy in its target mode.

    Translators read their targets by another vocabulary or with another language code. Where no
    target language is set, it is that of the source.
    """
    if not hasattr(tokenizer, "_switch_to_target_mode"):
        return tokenizer
    with tokenizer_errors("targets"):
        target = copy.deepcopy(tokenizer)
        if getattr(target, "tgt_lang", "") is None:
            target.tgt_lang = target.src_lang
        target._switch_to_target_mode()
        target._in_target_context_manager = True  # else each call would switch it back
        return target


def decoder_text(reader: Reader, text: str | None) -> Encoded:
    """Encode what a decoder reads of its text: the labels of a training, moved one to the right.

    These begin with the start token, and where the tokenizer adds any before a text, with those:
    BART's <s>, a language code. The token that ends the text is not read. Without a text those
    at its beginning are left.
    """
    tokenizer = reader.target_tokenizer or reader.tokenizer
    start = reader.start
    with tokenizer_errors("its own tokens"):
        start = start if isinstance(start, int) else tokenizer.pad_token_id or 0
        label = visible(str(tokenizer.convert_ids_to_tokens(start)))
    labels = encode(tokenizer, "a" if text is None else text, max_length=reader.n_ctx)
    before = len(labels.tokens) if text is not None else 0
    if text is None:
        before = next(i for i, token in enumerate(labels.tokens) if not token.is_special)
        labels = replace(labels, text="")
    elif labels.tokens[-1].is_special:
        before -= 1
    first = Token(label, start, is_special=True, segment=1)
    # It is the second text of the run, which is where its tokens' offsets count.
    tokens = (first, *(replace(token, segment=1) for token in labels.tokens[:before]))
    return replace(
        labels,
        input_ids=[token.id for token in tokens],
        token_type_ids=None,
        tokens=tokens,
        text_pair=labels.text or None,
        n_unknown=labels.n_unknown if text is not None else 0,
    )


def text_notes(name: str, *texts: Encoded | None) -> tuple[str, ...]:
    """Return a note for each text that was cut, or whose tokens are mostly unknown."""
    read = [text for text in texts if text is not None]
    cut = tuple(
        f"The text was cut to {len(text.tokens):,} tokens, the longest that {name} takes "
        f"here: {'about ' * text.truncated_is_estimate}{text.n_truncated:,} tokens were left "
        "out."
        for text in read
        if text.n_truncated
    )
    n_tokens = [sum(not token.is_special for token in text.tokens) for text in read]
    twice = tuple(
        f"The text begins with {first.text} twice, but the model was trained with one: leave "
        "one out of the text."
        for first, second in (text.tokens[:2] for text in read if len(text.tokens) > 1)
        if first.is_special and second.is_special and first.id == second.id
    )
    return (
        cut
        + twice
        + tuple(
            f"The text is largely unknown to {name}: it has no token for {text.n_unknown} of the "
            f"{n} here. What its heads do with those says nothing about the words."
            for text, n in zip(read, n_tokens, strict=True)
            if text.n_unknown > MOST_UNKNOWN * n
        )
    )


_BYTES = {char: byte for byte, char in bytes_to_unicode().items()}
_MARKS = ("Ġ", "▁")  # before a token that begins a word


@tokenizer_errors("its own tokens")
def label_of(tokenizer: PreTrainedTokenizerBase, number: int) -> str:
    """Label a token of the vocabulary as in a record: its piece, without any mark.

    A part of a character is named by its bytes. A number beyond the vocabulary is "⟨number⟩".
    """
    name = tokenizer.convert_ids_to_tokens(number) if number < len(tokenizer) else None
    if not name:
        return f"⟨{number}⟩"
    if number in tokenizer.all_special_ids:
        return visible(name)
    decoded = str(tokenizer.convert_tokens_to_string([name]))
    if "\ufffd" in decoded and all(char in _BYTES for char in name):
        return "".join(f"⟨{_BYTES[char]:02X}⟩" for char in name)
    label = spelled(tokenizer, name)
    return visible(label.lstrip("▁Ġ") or label)


@tokenizer_errors("its own tokens")
def continuing(tokenizer: PreTrainedTokenizerBase, numbers: Sequence[int]) -> tuple[bool, ...]:
    """Return which of these tokens continue the word before them: "ing" after "walk".

    The tokenizer's own marks show it; for one without marks (whole words, characters) none does.
    """
    sample = tokenizer.tokenize("a b c")
    mark = next((m for m in _MARKS if any(name.startswith(m) for name in sample)), None)
    names = [tokenizer.convert_ids_to_tokens(n) if n < len(tokenizer) else None for n in numbers]
    special = set(tokenizer.all_special_ids)

    def continues(number: int, name: str | None) -> bool:
        if not name or number in special:
            return False
        if mark is None:
            return re.match("##.", name) is not None
        return not name.startswith(mark) and label_of(tokenizer, number)[0].isalnum()

    return tuple(continues(n, name) for n, name in zip(numbers, names, strict=True))


@tokenizer_errors("the target")
def id_of(tokenizer: PreTrainedTokenizerBase, target: str | int, spaced: bool = True) -> int:
    """Return the one token that a typed target is.

    A word is read as it would stand in the text, with a space before it where `spaced`; a sign is
    read as it is typed, and so is what begins with a space, or with "##" for the end of a word.
    Raises ArgumentError: no such token, or several; names the pieces.
    """
    if not isinstance(target, str):
        if isinstance(target, bool) or not 0 <= target < len(tokenizer):
            raise ArgumentError(
                f"A target is a word or a number in 0..{len(tokenizer) - 1}, got {target!r}."
            )
        return int(target)
    text = clean_text(target, "target")
    spellings = [" " + text, text] if spaced and text[0].isalnum() else [text]
    readings = [
        tokenizer(spelling, add_special_tokens=False)["input_ids"] for spelling in spellings
    ]
    for i, ids in enumerate(readings):
        is_one_token = len(ids) == 1 and ids[0] != tokenizer.unk_token_id
        # "▁cat" is a word's first token, GPT-2's "cat" is not.
        if is_one_token and (i == 0 or not continuing(tokenizer, ids)[0]):
            return int(ids[0])
    named = tokenizer.convert_tokens_to_ids(text)
    if text.startswith("##") and isinstance(named, int) and named != tokenizer.unk_token_id:
        return named
    pieces = [label_of(tokenizer, n) for n in min(readings, key=len)]
    if len(pieces) < 2:
        raise ArgumentError(
            f"“{visible(target)}” is not in this model's vocabulary: choose another word."
        )
    raise ArgumentError(
        f"“{visible(target)}” is {len(pieces)} tokens for this model: {in_a_row(pieces)}. "
        f"Choose a word that is one token, or the first piece, “{pieces[0]}”."
    )
