"""Text to tokens, over small tokenizers of every kind: what always holds, pairs and truncation."""

import unicodedata
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from mha_viz.errors import ArgumentError, TextError
from mha_viz.text import tokens
from mha_viz.text.cleaning import MAX_LABEL, clean_text
from mha_viz.text.tokens import Encoded, encode
from tests.making.small_tokenizers import BUILD, FAST, PAIRS, make, wordpiece

# --- what always holds ------------------------------------------------------------------------


def check(tokenizer: Any, encoded: Encoded) -> None:
    tokens = encoded.tokens
    assert len(tokens) == len(encoded.input_ids)
    assert [token.id for token in tokens] == encoded.input_ids
    assert encoded.token_type_ids is None or len(encoded.token_type_ids) == len(tokens)
    for token in tokens:
        text = (encoded.text, encoded.text_pair)[token.segment] or ""
        assert token.text
        assert len(token.text) <= MAX_LABEL + 30
        if not token.is_special:
            for mark in ("Ġ", "Ċ", "▁", "##"):
                assert mark not in token.text or mark in text
        hidden = [c for c in token.text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]
        assert set(hidden) <= set("\u200c\u200d")
    found = [token.word for token in tokens if not token.is_special]
    assert found[:1] in ([0], [])
    assert all(b - a in (0, 1) for a, b in pairwise(found))
    assert all(token.word is None for token in tokens if token.is_special)
    for segment, text in enumerate((encoded.text, encoded.text_pair or "")):
        spans = [
            (token.start, token.end)
            for token in tokens
            if token.segment == segment and not token.is_special
        ]
        if not tokenizer.is_fast:
            assert set(spans) <= {(None, None)}
            continue
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        assert spans == sorted(spans)
        ends = [end for _, end in spans]
        assert ends == sorted(ends)


def read(name: str, text: str) -> None:
    """Encode and check; nothing to read is the one error allowed, and only where it is true."""
    tokenizer = make(name)
    text = clean_text(text)
    plain = tokenizer(text, add_special_tokens=False)["input_ids"]
    if not plain:
        with pytest.raises(TextError, match="nothing that this model can read"):
            encode(tokenizer, text, max_length=10_000)
        return
    encoded = encode(tokenizer, text, max_length=10_000)
    assert encoded.text == text
    if name != "byt5" or plain[-1] != tokenizer.eos_token_id:  # ByT5 takes a typed end for its own
        assert encoded.input_ids == tokenizer(text)["input_ids"]
    assert (encoded.n_truncated, encoded.truncated_is_estimate) == (0, False)
    check(tokenizer, encoded)


NASTY = {
    "family": "👩‍👩‍👧‍👦 and 👍🏽 and 🇩🇪🇫🇷 ❤️‍🔥 1️⃣",
    "arabic": "مرحبا بالعالم، كيف حالك؟",
    "hebrew": "שָׁלוֹם עולם",
    "devanagari": "हिन्दी में लिखा क्षत्रिय",
    "thai": "สวัสดีชาวโลก น้ำ",
    "chinese": "我喜欢猫。你呢?",
    "japanese": "ねこが マットの上に座った",
    "korean": "고양이가 앉았다",
    "combining": "e\u0301a\u0308\u0323 Z\u0351\u0352\u0353algo \u0301alone",
    "html": "<script>alert(1)</script></div> &amp; \"'",
    "spaces": " \t two  \n\n\n three   \t\t",
    "crlf": "one\r\ntwo\rthree\x85four\x0bfive",
    "nul": "a\x00b\x07 \x1b[31mred \x7f\x9b",
    "invisible": "a\u200bb\u200dc\u2060\ufeffd\u00ade\u3164\u2800",
    "direction": "a\u202eb\u202c \u2066c\u2069 \u200ed\u200f",
    "spaces of the world": "a\u00a0b\u3000c\u2003d\u2028e",
    "mask": "the [MASK] sat <mask> on <extra_id_0> it",
    "special": "one [SEP] two </s> three <|endoftext|>four<s> [CLS] [UNK] <unk> <pad>",
    "marks": "Ġthe ▁cat ##sat ▁ ## Ċ @@ x</w> <0x0A>",
    "ligature": "ﬁt ½ … Ⅷ ㍿ ﷺ",
    "private": "\ue000 \U0010fffd \uffff \ufffd \U0001f3f4\U000e0067\U000e0062\U000e007f",
    "long": "x" * 3000,
    "apostrophes": "don't l’eau 'tis dogs' rock'n'roll ''",
    "selector": "☃\ufe0f \ufe0f a\ufe0f",
}


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY.keys())
@pytest.mark.parametrize("name", BUILD)
def test_nasty_text(name: str, text: str) -> None:
    read(name, text)


PIECES = "the cat ▁ Ġ ## [SEP] </s> é e\u0301 ☃ 😀 \u200d \ufe0f ' ... 中 ﬁ \u0e33 한".split()
MIXED = (
    st.lists(st.sampled_from([*PIECES, " ", "  ", "\n"]), min_size=1, max_size=12)
    .map("".join)
    .filter(lambda text: bool(text.strip()))
)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILD)
@given(text=MIXED)
@limits(max_examples=60, deadline=None)
def test_any_mixture_of_what_tokenizers_treat_specially(name: str, text: str) -> None:
    read(name, text)


@pytest.mark.parametrize("name", [name for name in PAIRS if name in FAST])
@given(text=MIXED, other=MIXED, max_length=st.integers(8, 30))
@limits(max_examples=40, deadline=None)
def test_any_pair_cut_anywhere(name: str, text: str, other: str, max_length: int) -> None:
    tokenizer = make(name)
    try:
        encoded = encode(tokenizer, text, other, max_length=max_length)
    except TextError:
        return
    check(tokenizer, encoded)
    whole = tokenizer(encoded.text, encoded.text_pair)["input_ids"]
    assert len(encoded.input_ids) == min(len(whole), max_length)
    assert encoded.n_truncated == len(whole) - len(encoded.input_ids)


# --- texts that cannot be read ----------------------------------------------------------------


def test_an_error_names_the_text_that_is_meant() -> None:
    with pytest.raises(TextError, match="The second text is empty"):
        encode(make("wordpiece"), "the", "", max_length=20)


@pytest.mark.parametrize("text", ["\u200b", "\ufffd", "\u2060\ufeff"])
def test_a_text_that_normalises_to_nothing(text: str) -> None:
    with pytest.raises(TextError, match="nothing that this model can read"):
        encode(make("wordpiece"), text, max_length=20)
    with pytest.raises(TextError, match="nothing that this model can read"):
        encode(make("wordpiece"), "the cat", text, max_length=20)


# --- pairs and truncation ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt2_like", "tiny_gpt2", "llama_class"])
def test_a_tokenizer_without_a_separator_takes_one_text(name: str) -> None:
    with pytest.raises(TextError, match="takes one text"):
        encode(make(name), "the cat", "the dog", max_length=20)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("special", [True, False])
def test_pairs(name: str, special: bool) -> None:
    tokenizer = make(name)
    encoded = encode(
        tokenizer, "The cat sat", "on the mat.", max_length=100, add_special_tokens=special
    )
    expected = tokenizer("The cat sat", "on the mat.", add_special_tokens=special)
    assert encoded.input_ids == expected["input_ids"]
    if special:
        assert encoded.token_type_ids == expected.get("token_type_ids")
    assert any(token.is_special for token in encoded.tokens) is special
    check(tokenizer, encoded)
    segments = [token.segment for token in encoded.tokens]
    assert segments == sorted(segments) and set(segments) == {0, 1}
    if tokenizer.is_fast:
        second = [token for token in encoded.tokens if token.segment and not token.is_special]
        assert "on the mat."[second[-1].start : second[-1].end].endswith(".")


@pytest.mark.parametrize("name", ["wordpiece", "roberta_like", "t5_like", "llama_like"])
@pytest.mark.parametrize("max_length", [6, 9, 27])
@pytest.mark.parametrize("other", [None, "the cat", "the cat sat on the mat " * 3])
def test_truncation_is_what_the_tokenizer_would_do(
    name: str, max_length: int, other: str | None
) -> None:
    text = "The cat sat on the mat. The walking dog."
    encoded = encode(make(name), text, other, max_length=max_length)
    expected = deepcopy(make(name))(text, other, truncation="longest_first", max_length=max_length)
    assert encoded.input_ids == expected["input_ids"]
    assert encoded.n_truncated == len(make(name)(text, other)["input_ids"]) - len(encoded.input_ids)
    assert not encoded.truncated_is_estimate


@pytest.mark.parametrize("max_length", [-1, 0, 1, 2])
def test_no_room(max_length: int) -> None:
    with pytest.raises(ArgumentError, match="leaves no room"):
        encode(make("wordpiece"), "the cat", max_length=max_length)
    with pytest.raises(ArgumentError, match="leaves no room"):
        encode(make("wordpiece"), "the cat", "the", max_length=max_length + 2)


def test_settings_saved_in_a_tokenizer_do_not_cut_or_pad() -> None:
    tokenizer = wordpiece()
    tokenizer.backend_tokenizer.enable_truncation(4)
    tokenizer.backend_tokenizer.enable_padding(length=64)
    encoded = encode(tokenizer, "the cat sat on the mat", max_length=50)
    assert encoded.input_ids == make("wordpiece")("the cat sat on the mat")["input_ids"]


LONG = {
    "words": "The cat sat on mats. " * 20_000,
    "Chinese": "我" * 200_000,
    "one word": "x" * 300_000,
    "emoji": "👍🏽" * 60_000,
    "spaces": "a" + " " * 300_000 + "b",
    "lines": "cat\n" * 100_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
@pytest.mark.parametrize("name", ["wordpiece", "gpt2_like", "llama_like", "byt5"])
def test_long_texts_are_bounded(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counting(reader: Any, tokenizer: Any, texts: list[str], special: bool) -> Any:
        read.append(sum(map(len, texts)))
        return reader(tokenizer, texts, special)

    for kind in ("_read_fast", "_read_slow"):
        monkeypatch.setattr(tokens, kind, partial(counting, getattr(tokens, kind)))
    tokenizer = make(name)
    encoded = encode(tokenizer, text, max_length=128)
    # Each time eight times as much, and all of it at most: 1 + 1 + 1/8 + 1/64 ...
    assert sum(read) < (0.1 if text is LONG["words"] else 2.2) * len(text)
    assert len(encoded.tokens) <= 128
    check(tokenizer, encoded)


@pytest.mark.parametrize(
    "name", ["wordpiece", "gpt2_like", "roberta_like", "llama_like", "t5_like"]
)
def test_a_long_text_begins_as_the_whole_would(name: str) -> None:
    text = "The cat, sat on: walking mats? " * 3_000
    tokenizer = make(name)
    encoded = encode(tokenizer, text, max_length=200)
    whole = tokenizer(text, add_special_tokens=False)["input_ids"]
    found = [token.id for token in encoded.tokens if not token.is_special]
    assert found == whole[: len(found)]
    assert len(encoded.tokens) == 200
    assert encoded.truncated_is_estimate
    assert encoded.n_truncated == pytest.approx(len(whole) - len(found), rel=0.02)


def test_threads_may_share_a_tokenizer() -> None:
    tokenizer = make("tiny_bert")
    expected = encode(tokenizer, "the cat sat", max_length=9)
    found: list[Encoded] = []

    def work(i: int) -> None:
        for j in range(30):
            encode(tokenizer, "a dog " * (i + j + 1), max_length=8 + i)
            found.append(encode(tokenizer, "the cat sat", max_length=9))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert len(found) == 120
    assert all(one == expected for one in found)
