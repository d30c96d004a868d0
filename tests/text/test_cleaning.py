"""Typed text as Unicode: what cleaning changes and refuses, what a label shows, what a word is."""

import inspect
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_viz.errors import TextError
from mha_viz.text.cleaning import MAX_CHARACTERS, MAX_LABEL, clean_text, visible, word_numbers
from mha_viz.text.tokens import encode
from tests.making.small_tokenizers import make

# --- cleaning ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("as it is", "as it is"),
        (" two  spaces ", " two  spaces "),
        ("a\r\nb\rc\x85d\x0be\x0cf\n\n", "a\nb\nc\nd\ne\nf\n\n"),
        ("a\x00b\x1b[31m\x7f\x80\x9f!", "a b [31m   !"),
        ("a\tb", "a\tb"),
        ("\ud83d\ude00!", "😀!"),
        ("\u202eİÉ\u200b", "\u202eİÉ\u200b"),
    ],
)
def test_clean_text(text: str, clean: str) -> None:
    assert clean_text(text) == clean
    assert clean_text(clean) == clean


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The text is empty"),
        (" \n\t \u3000", "The text is empty"),
        ("\x00\x01", "The text is empty"),
        ("ab\ud83dc", r"half a character \(U\+D83D\) at position 3"),
        ("\ude00\ud83d", r"half a character \(U\+DE00\) at position 1"),
        ("a" * (MAX_CHARACTERS + 1), "1,200,001 characters; at most 1,200,000"),
    ],
)
def test_text_that_cannot_be_used(text: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        clean_text(text)
    with pytest.raises(TextError, match=message):
        encode(make("wordpiece"), text, max_length=20)


@given(text=st.text(st.characters(codec=None, exclude_categories=())))
def test_clean_text_is_done_in_one_go(text: str) -> None:
    try:
        clean = clean_text(text)
    except TextError:
        return
    assert clean_text(clean) == clean
    clean.encode("utf-8")
    assert not {char for char in clean if unicodedata.category(char) == "Cc"} - {"\n", "\t"}


# --- visible characters -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "∅"),
        (" ", "␠"),
        ("\n\n\t ", "⏎×2⇥␠"),
        ("a\u00a0b", "a⟨U+00A0⟩b"),
        ("a\x1b\x7f\x9b", "a␛␡⟨U+009B⟩"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("\u200b", "⟨U+200B⟩"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("\ufe0f", "⟨U+FE0F⟩"),
        ("\u0301", "◌\u0301"),
        ("y" * 40, "y" * 40),
        ("y" * 41, "y" * 39 + "…"),
        ("\u202e" * 9, "⟨U+202E⟩" * 4 + "…"),
        ("\n" * 5000, "⏎×5000"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(text=st.text())
def test_visible_hides_nothing_and_is_short(text: str) -> None:
    shown = visible(text)
    assert 0 < len(shown) <= MAX_LABEL
    kinds = {unicodedata.category(char) for char in shown if char not in "\u200c\u200d"}
    assert not kinds & {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


# --- words ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("don't", "don't"),
        ("l’eau 'tis dogs'", "l’eau| '|tis| dogs|'"),
        ("wait... what?!", "wait|...| what|?|!"),
        ("a  b\n\n c ", "a|  b|\n\n| c| "),
        ("snake_case x2", "snake_case| x2"),
        ("e\u0301te\u0301", "e\u0301te\u0301"),
        ("我喜欢", "我|喜|欢"),
        ("👩‍👩‍👧‍👦👍🏽", "👩‍👩‍👧‍👦|👍🏽"),
        ("🇩🇪 ❤️‍🔥x", "🇩🇪| ❤️‍🔥|x"),
        ("می\u200cخواهم او", "می\u200cخواهم| او"),
        ("\ufe0f\u200d", "\ufe0f\u200d"),
    ],
)
def test_words_of_a_text(text: str, expected: str) -> None:
    numbers = word_numbers(text)
    assert len(numbers) == len(text)
    split = [""] * (numbers[-1] + 1)
    for char, number in zip(text, numbers, strict=True):
        split[number] += char
    assert split == expected.split("|")


@given(text=st.text(min_size=1))
def test_every_character_has_a_word(text: str) -> None:
    numbers = word_numbers(text)
    assert len(numbers) == len(text)
    assert numbers[0] == 0
    assert all(b - a in (0, 1) for a, b in pairwise(numbers))


def test_several_texts_are_led_to_trace_batch() -> None:
    clean = inspect.unwrap(clean_text)  # without the tests' own checks of types
    with pytest.raises(TextError, match=r"got list\. For several texts call trace_batch"):
        clean(["One.", "Two."])
    with pytest.raises(TextError, match=r"got int\.$"):
        clean(3)
