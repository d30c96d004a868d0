"""Encoding of a model's texts: one or a pair, or an encoder's and its decoder's."""

from dataclasses import dataclass, replace
from typing import TypeVar

from transformers import PreTrainedTokenizerBase

from mha_viz.core.record.record import Token
from mha_viz.errors import MhaVizError, TextError
from mha_viz.text.tokens import Encoded, encode, tokenizer_errors

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


def encode_texts(reader: Reader, text: str, text_pair: str | None = None) -> Texts:
    """Encode a text and its second segment together; for an encoder-decoder, one for each stack."""
    if not reader.two_texts:
        encoded = encode(reader.tokenizer, text, text_pair, max_length=reader.n_ctx)
        target = None
    else:
        encoded = encode(reader.tokenizer, text, max_length=reader.n_ctx)
        target = decoder_text(reader, text_pair)
    for item in (encoded, target):
        if item is not None and max(item.input_ids) >= reader.d_vocab:
            raise TextError(
                f"This text has tokens that {reader.name} does not know (number "
                f"{max(item.input_ids):,} of {reader.d_vocab:,}): tokenizer and model do not "
                "belong together."
            )
    return encoded, target


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


def decoder_text(reader: Reader, text: str | None) -> Encoded:
    """Encode the decoder's text behind its start token."""
    start = reader.start
    with tokenizer_errors("its own tokens"):
        start = start if isinstance(start, int) else reader.tokenizer.pad_token_id or 0
        label = str(reader.tokenizer.convert_ids_to_tokens(start))
    first = Token(label, start, is_special=True, segment=1)
    if text is None:
        return Encoded(input_ids=[start], token_type_ids=None, tokens=(first,))
    rest = encode(reader.tokenizer, text, max_length=reader.n_ctx - 1, add_special_tokens=False)
    # It is the second text of the run, which is where its tokens' offsets count.
    return replace(
        rest,
        input_ids=[start, *rest.input_ids],
        token_type_ids=None,
        tokens=(first, *(replace(token, segment=1) for token in rest.tokens)),
        text_pair=rest.text,
    )


def text_notes(name: str, *texts: Encoded | None) -> tuple[str, ...]:
    """Return a note for each text of which something was left out, or much is unknown."""
    read = [text for text in texts if text is not None]
    cut = tuple(
        f"The text was cut to {len(text.tokens):,} tokens, the longest that {name} takes "
        f"here: {'about ' * text.truncated_is_estimate}{text.n_truncated:,} tokens were left "
        "out."
        for text in read
        if text.n_truncated
    )
    own = [sum(not token.is_special for token in text.tokens) for text in read]
    return cut + tuple(
        f"The text is largely unknown to {name}: it has no token for {text.n_unknown} of the "
        f"{n} here. What its heads do with those says nothing about the words."
        for text, n in zip(read, own, strict=True)
        if text.n_unknown > MOST_UNKNOWN * n
    )
