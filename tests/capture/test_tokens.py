"""Text to labelled tokens, over small tokenizers of every kind, trained here on a few sentences."""

from __future__ import annotations

import json
import threading
import time
import tracemalloc
import unicodedata
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    AutoTokenizer,
    BertTokenizer,
    ByT5Tokenizer,
    CanineTokenizer,
    GPT2Tokenizer,
    LlamaTokenizer,
    PreTrainedTokenizerFast,
    T5Tokenizer,
)
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

from mha_viz.capture.text import MAX_CHARACTERS, MAX_LABEL, clean_text, visible, word_numbers
from mha_viz.capture.tokens import Encoded, _begins_by_marks, encode
from mha_viz.core.record import Token
from mha_viz.errors import ArgumentError, TextError

SHIPPED = Path(__file__).parents[2] / "models"
SENTENCES = [
    "the cat",
    "The cat sat on the mat. The dog did not see the cat!",
    "Don't walk on the mat, said the cat.",
    "one two three, and the walking dogs were sleeping",
] * 5
UNIGRAM = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]


# --- the tokenizers ---------------------------------------------------------------------------


def _special(left: str, right: str, ids: tuple[int, int]) -> Any:
    return processors.TemplateProcessing(
        single=f"{left} $A {right}",
        pair=f"{left} $A {right} $B:1 {right}:1",
        special_tokens=list(zip((left, right), ids, strict=True)),
    )


def wordpiece() -> Any:
    model = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    model.normalizer = normalizers.BertNormalizer(lowercase=True)
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=1000, special_tokens=names, show_progress=False)
    model.train_from_iterator(SENTENCES, trainer)
    model.post_processor = _special("[CLS]", "[SEP]", (2, 3))
    keys = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=model, **dict(zip(keys, names, strict=True)))


def _byte_level(names: list[Any]) -> Tokenizer:
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=names,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(SENTENCES, trainer)
    return model


def gpt2_like() -> Any:
    model = _byte_level(["<|endoftext|>"])
    model.post_processor = processors.ByteLevel(trim_offsets=False)
    name = "<|endoftext|>"
    return PreTrainedTokenizerFast(
        tokenizer_object=model, bos_token=name, eos_token=name, unk_token=name
    )


def roberta_like() -> Any:
    mask = AddedToken("<mask>", lstrip=True, special=True)
    model = _byte_level(["<s>", "</s>", "<unk>", "<pad>", mask])
    model.post_processor = processors.RobertaProcessing(
        ("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=model, cls_token="<s>", sep_token="</s>", unk_token="<unk>",
        pad_token="<pad>", mask_token="<mask>",
    )  # fmt: skip


def llama_like() -> Any:
    model = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    model.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    names = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=names, initial_alphabet=["▁"], show_progress=False
    )
    model.train_from_iterator(SENTENCES, trainer)
    model.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=model, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def t5_like() -> Any:
    letters = [(c, -5.0) for c in "abcdefghiklmnoprstuwyTD.,'!"]
    whole = [(w, -3.0) for w in ("▁the", "▁The", "▁cat", "at", "on", "▁s", "ing")]
    model = Tokenizer(models.Unigram([*UNIGRAM, *letters, *whole], unk_id=2))
    model.normalizer = normalizers.NFKC()
    model.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    model.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=model, eos_token="</s>", unk_token="<unk>", pad_token="<pad>"
    )


def bert_class() -> Any:
    return BertTokenizer(vocab=make("wordpiece").get_vocab())


def gpt2_class() -> Any:
    model = json.loads(make("gpt2_like").backend_tokenizer.to_str())["model"]
    return GPT2Tokenizer(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]])


def llama_class() -> Any:
    model = json.loads(make("llama_like").backend_tokenizer.to_str())["model"]
    return LlamaTokenizer(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]])


def t5_class() -> Any:
    letters = [(c, -3.0) for c in "abcdefghiklmnoprstuwy.,'"]
    return T5Tokenizer(vocab=[*UNIGRAM, ("▁the", -2.0), *letters])


def tiny_bert() -> Any:
    return AutoTokenizer.from_pretrained(SHIPPED / "tiny-bert")


def tiny_gpt2() -> Any:
    return AutoTokenizer.from_pretrained(SHIPPED / "tiny-gpt2")


FAST: dict[str, Callable[[], Any]] = {
    build.__name__: build
    for build in (
        wordpiece, gpt2_like, roberta_like, llama_like, t5_like,
        bert_class, gpt2_class, llama_class, t5_class, tiny_bert, tiny_gpt2,
    )
}  # fmt: skip
SLOW: dict[str, Callable[[], Any]] = {"byt5": ByT5Tokenizer, "canine": CanineTokenizer}
BUILD = FAST | SLOW
PAIRS = ["wordpiece", "roberta_like", "llama_like", "t5_like", "bert_class", "t5_class", "byt5"]


@cache
def make(name: str) -> Any:
    return BUILD[name]()


def labels(encoded: Encoded) -> list[str]:
    return [token.text for token in encoded.tokens]


def content(encoded: Encoded) -> list[str]:
    return [token.text for token in encoded.tokens if not token.is_special]


def words(encoded: Encoded) -> list[int | None]:
    return [token.word for token in encoded.tokens]


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
    assert found[0] == 0
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


@pytest.mark.parametrize("name", BUILD)
@given(text=st.text(min_size=1).filter(lambda text: text.strip(" \n") != ""))
@limits(max_examples=60, deadline=None)
def test_any_text(name: str, text: str) -> None:
    try:
        clean_text(text)
    except TextError:
        return
    read(name, text)


MIXED = st.lists(
    st.sampled_from(["the", " ", "  ", "cat", "\n", "▁", "Ġ", "##", "[SEP]", "</s>", "é", "e\u0301",
                     "☃", "😀", "\u200d", "\ufe0f", "'", "...", "中", "ﬁ", "\u0e33", "한"]),
    min_size=1, max_size=12,
).map("".join).filter(lambda text: bool(text.strip()))  # fmt: skip


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


# --- labels -----------------------------------------------------------------------------------


def test_wordpiece_labels_keep_the_spelling() -> None:
    encoded = encode(make("tiny_bert"), "The CAT sät on Zyxwv ☃", max_length=50)
    found = labels(encoded)
    assert found[:3] == ["[CLS]", "The", "CAT"]
    assert found[-2:] == ["☃ [UNK]", "[SEP]"]
    assert "".join(content(encoded)).replace(" [UNK]", "") == "TheCATsätonZyxwv☃"


def test_byte_level_labels() -> None:
    encoded = encode(make("gpt2_like"), "the  cat\n\té 😀", max_length=50)
    assert labels(encoded) == [
        "the", "␠", "cat", "⏎", "⇥", "é 1/2", "é 2/2", "␠", "😀 1/4", "😀 2/4", "😀 3/4", "😀 4/4",
    ]  # fmt: skip
    assert words(encoded) == [0, 1, 1, 2, 3, 4, 4, 5, 5, 5, 5, 5]


def test_spaces_that_roberta_trims_come_back() -> None:
    encoded = encode(make("roberta_like"), "the  cat 😀", max_length=50)
    assert labels(encoded) == [
        "<s>", "the", "␠", "cat", "␠", "😀 1/4", "😀 2/4", "😀 3/4", "😀 4/4", "</s>",
    ]  # fmt: skip
    assert [(token.start, token.end) for token in encoded.tokens[1:6]] == [
        (0, 3), (3, 4), (5, 8), (8, 9), (9, 10),
    ]  # fmt: skip


def test_byte_fallback_labels() -> None:
    encoded = encode(make("llama_like"), "the cat\n😀 the", max_length=50)
    assert labels(encoded)[0] == "<s>"
    assert [text for text in labels(encoded) if "😀" in text] == [f"😀 {i}/4" for i in range(1, 5)]
    assert "⏎" in labels(encoded)
    assert not any("0x" in text for text in labels(encoded))


def test_unigram_labels() -> None:
    encoded = encode(make("t5_like"), "the cat ☃ ½", max_length=50)
    assert "".join(labels(encoded)[:-1]).startswith("thecat")
    assert labels(encoded)[-1] == "</s>"
    assert "☃ <unk>" in labels(encoded)
    mark = encoded.tokens[labels(encoded).index("☃ <unk>") - 1]
    assert (mark.text, mark.start, mark.end) == ("␠", 8, 8)
    assert mark.word == encoded.tokens[labels(encoded).index("☃ <unk>")].word


def test_one_character_that_normalises_to_several_tokens() -> None:
    assert labels(encode(make("tiny_bert"), "…", max_length=9))[1:-1] == ["… 1/3", "… 2/3", "… 3/3"]


@pytest.mark.parametrize("name", ["wordpiece", "tiny_bert", "bert_class"])
def test_a_typed_mask_is_the_mask_token_and_was_typed(name: str) -> None:
    tokenizer = make(name)
    encoded = encode(tokenizer, "the [MASK] sat", max_length=20)
    (mask,) = [token for token in encoded.tokens if token.id == tokenizer.mask_token_id]
    assert (mask.text, mask.start, mask.end, mask.is_special) == ("[MASK]", 4, 10, False)


def test_robertas_mask_swallows_the_space_before_it() -> None:
    encoded = encode(make("roberta_like"), "the <mask> sat", max_length=20)
    mask = encoded.tokens[2]
    assert (mask.text, mask.start, mask.end, mask.is_special) == ("<mask>", 4, 10, False)


@pytest.mark.parametrize(
    ("name", "typed", "added"),
    [
        ("wordpiece", "[SEP]", [0, -1]),
        ("roberta_like", "</s>", [0, -1]),
        ("t5_like", "</s>", [-1]),
        ("gpt2_like", "<|endoftext|>", []),
        ("llama_like", "<s>", [0]),
        ("byt5", "</s>", [-1]),
    ],
)
def test_only_what_the_template_adds_is_special(name: str, typed: str, added: list[int]) -> None:
    tokens = encode(make(name), f"the {typed} cat", max_length=50).tokens
    special = [i for i, token in enumerate(tokens) if token.is_special]
    assert special == [i % len(tokens) for i in added]
    assert [t.text for t in tokens if t.text == typed and not t.is_special] == [typed]


def test_an_unknown_token_typed_by_name_is_not_marked_twice() -> None:
    assert content(encode(make("wordpiece"), "the [UNK] ☃", max_length=20)) == [
        "the", "[UNK]", "☃ [UNK]",
    ]  # fmt: skip
    assert content(encode(make("gpt2_like"), "<|endoftext|>", max_length=20)) == ["<|endoftext|>"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cat", "cat"),
        ("", "∅"),
        (" ", "␠"),
        ("   ", "␠×3"),
        ("\n\n\t ", "⏎×2⇥␠"),
        ("a\nb c", "a⏎b c"),
        ("a\u00a0b", "a⟨U+00A0⟩b"),
        ("\u3000", "⟨U+3000⟩"),
        ("\x00", "␀"),
        ("a\x1b\x7f\x9b", "a␛␡⟨U+009B⟩"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("\u2067x\u2069", "⟨U+2067⟩x⟨U+2069⟩"),
        ("\u200b", "⟨U+200B⟩"),
        ("\u200d", "⟨U+200D⟩"),
        ("👩\u200d", "👩⟨U+200D⟩"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("\ufe0f", "⟨U+FE0F⟩"),
        ("\u0301", "◌\u0301"),
        ("e\u0301", "e\u0301"),
        ("\u3164", "⟨U+3164⟩"),
        ("שלום", "שלום"),
        ("<b>", "<b>"),
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
        ("The cat", "The| cat"),
        ("mat.", "mat|."),
        ("don't", "don't"),
        ("l’eau 'tis dogs'", "l’eau| '|tis| dogs|'"),
        ("wait... what?!", "wait|...| what|?|!"),
        ("a  b\n\n c ", "a|  b|\n\n| c| "),
        ("snake_case x2", "snake_case| x2"),
        ("3.14", "3|.|14"),
        ("हिन्दी में", "हिन्दी| में"),
        ("e\u0301te\u0301", "e\u0301te\u0301"),
        ("我喜欢", "我|喜|欢"),
        ("ねこ上", "ねこ|上"),
        ("👩‍👩‍👧‍👦👍🏽", "👩‍👩‍👧‍👦|👍🏽"),
        ("🇩🇪 ❤️‍🔥x", "🇩🇪| ❤️‍🔥|x"),
        ("می\u200cخواهم او", "می\u200cخواهم| او"),
        ("</div>", "<|/|div|>"),
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


@pytest.mark.parametrize("name", [name for name in FAST if "llama" not in name])
def test_all_tokenizers_agree_on_words(name: str) -> None:
    text = "The walking dog's mat, and the cat ☃ sleeping."
    assert spelled(encode(make(name), text, max_length=200)) == [
        "The", "walking", "dog's", "mat", ",", "and", "the", "cat", "☃", "sleeping", ".",
    ]  # fmt: skip


def spelled(encoded: Encoded) -> list[str]:
    groups: dict[int, list[Token]] = {}
    for token in encoded.tokens:
        if token.word is not None:
            groups.setdefault(token.word, []).append(token)
    return [encoded.text[group[0].start : group[-1].end].strip() for group in groups.values()]


def test_a_token_over_two_words_belongs_to_the_first() -> None:
    tokens = encode(make("llama_like"), "one and the cat", max_length=20).tokens
    over = [token for token in tokens if " " in token.text]
    assert over
    for token in tokens[1:]:
        assert token.start is not None
        assert token.text[0] == "one and the cat"[token.start]


def test_words_count_through_both_texts_without_gaps_where_the_first_was_cut() -> None:
    encoded = encode(make("wordpiece"), "the cat " * 20, "the dog.", max_length=12)
    assert encoded.n_truncated > 30
    found = [token.word for token in encoded.tokens if token.word is not None]
    assert sorted(set(found)) == list(range(max(found) + 1))
    first = max(
        token.word for token in encoded.tokens if token.word is not None and not token.segment
    )
    second = [token.word for token in encoded.tokens if token.segment and not token.is_special]
    assert second[0] == first + 1


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["▁the", "▁ca", "t", "▁"], [1, 1, 0, 1]),
        (["the", "Ġca", "t"], [1, 1, 0]),
        (["the</w>", "ca", "t</w>", "s"], [1, 1, 0, 1]),
        (["ca@@", "t", "the"], [1, 0, 1]),
        (["un", "##do", "it"], [1, 0, 1]),
        (["a", "b", " ", "c"], [1, 0, 1, 0]),
        (["a", " ", "</s>", "b"], [1, 1, 0, 1]),
    ],
)
def test_words_by_marks(names: list[str], expected: list[int]) -> None:
    assert _begins_by_marks(names, "a text of many characters") == [bool(i) for i in expected]


# --- tokenizers without offsets ---------------------------------------------------------------


def test_slow_wordpiece(tmp_path: Path) -> None:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "ca", "##ts", ",", "a"]
    (tmp_path / "vocab.txt").write_text("\n".join(names))
    tokenizer = BertTokenizerLegacy(str(tmp_path / "vocab.txt"))
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer.token_type_ids_pattern = "bert_style"
    tokenizer.token_type_ids_include_special_tokens = True
    encoded = encode(tokenizer, "The cats, [MASK] ☃ [SEP]", "a", max_length=30)
    assert labels(encoded) == [
        "[CLS]", "the", "ca", "ts", ",", "[MASK]", "[UNK]", "[SEP]", "[SEP]", "a", "[SEP]",
    ]  # fmt: skip
    assert words(encoded) == [None, 0, 1, 1, 2, 3, 4, 5, None, 6, None]
    assert encoded.token_type_ids == [0] * 9 + [1] * 2
    assert [token.segment for token in encoded.tokens] == [0] * 9 + [1] * 2
    assert {token.start for token in encoded.tokens} == {None}
    expected = tokenizer("The cats, [MASK] ☃ [SEP]", "a")
    assert encoded.input_ids == expected["input_ids"]
    assert encoded.token_type_ids == expected["token_type_ids"]
    short = encode(tokenizer, "The cats, [MASK] ☃ [SEP]", "a", max_length=6)
    assert labels(short) == ["[CLS]", "the", "ca", "[SEP]", "a", "[SEP]"]
    assert short.token_type_ids == [0, 0, 0, 0, 1, 1]
    assert short.n_truncated == 5


def test_bytes() -> None:
    encoded = encode(make("byt5"), "a é\n", max_length=30)
    assert labels(encoded) == ["a", "␠", "⟨C3⟩", "⟨A9⟩", "⏎", "</s>"]
    assert words(encoded) == [0, 1, 1, 1, 2, None]


def test_code_points() -> None:
    encoded = encode(make("canine"), "a é", max_length=30)
    assert content(encoded) == ["a", "␠", "é"]


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


def test_an_error_names_the_text_that_is_meant() -> None:
    with pytest.raises(TextError, match="The second text is empty"):
        encode(make("wordpiece"), "the", "", max_length=20)


@given(text=st.text(st.characters(codec=None, exclude_categories=())))
def test_clean_text_is_done_in_one_go(text: str) -> None:
    try:
        clean = clean_text(text)
    except TextError:
        return
    assert clean_text(clean) == clean
    clean.encode("utf-8")
    assert not {char for char in clean if unicodedata.category(char) == "Cc"} - {"\n", "\t"}


@pytest.mark.parametrize("text", ["\u200b", "\ufffd", "\u2060\ufeff"])
def test_a_text_that_normalises_to_nothing(text: str) -> None:
    with pytest.raises(TextError, match="nothing that this model can read"):
        encode(make("wordpiece"), text, max_length=20)
    with pytest.raises(TextError, match="nothing that this model can read"):
        encode(make("wordpiece"), "the cat", text, max_length=20)


# --- pairs and truncation ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt2_like", "gpt2_class", "tiny_gpt2", "llama_class"])
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
@pytest.mark.parametrize("max_length", range(6, 40, 3))
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


def test_one_token_of_room() -> None:
    encoded = encode(make("wordpiece"), "the cat", max_length=3)
    assert (len(encoded.tokens), encoded.n_truncated > 0) == (3, True)


def test_settings_saved_in_a_tokenizer_do_not_cut_or_pad() -> None:
    tokenizer = wordpiece()
    tokenizer.backend_tokenizer.enable_truncation(4)
    tokenizer.backend_tokenizer.enable_padding(length=64)
    encoded = encode(tokenizer, "the cat sat on the mat", max_length=50)
    assert encoded.input_ids == make("wordpiece")("the cat sat on the mat")["input_ids"]


def test_a_tokenizer_that_fails_is_a_text_error() -> None:
    model = Tokenizer(models.WordPiece({"a": 0}, unk_token="[UNK]"))
    with pytest.raises(TextError, match="cannot read this text"):
        encode(PreTrainedTokenizerFast(tokenizer_object=model), "b", max_length=9)


LONG = {
    "words": "The cat sat on mats. " * 20_000,
    "Chinese": "我" * 200_000,
    "one word": "x" * 300_000,
    "emoji": "👍🏽" * 60_000,
    "spaces": "a" + " " * 300_000 + "b",
    "lines": "cat\n" * 100_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
@pytest.mark.parametrize("name", BUILD)
def test_long_texts_are_bounded(name: str, text: str) -> None:
    tokenizer = make(name)
    begin = time.process_time()  # a busy machine makes nothing slower by this clock
    encoded = encode(tokenizer, text, max_length=128)
    assert time.process_time() - begin < 2
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


def test_a_hundred_thousand_words_take_little_memory() -> None:
    make("tiny_bert")
    tracemalloc.start()
    try:
        encode(make("tiny_bert"), LONG["words"], max_length=128)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20e6


def test_threads_may_share_a_tokenizer() -> None:
    tokenizer = make("tiny_bert")
    expected = encode(tokenizer, "the cat sat", max_length=9)
    found: list[Encoded] = []

    def work(i: int) -> None:
        for j in range(30):
            encode(tokenizer, "a dog " * (i + j + 1), max_length=8 + i)
            found.append(encode(tokenizer, "the cat sat", max_length=9))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 120
    assert all(one == expected for one in found)
