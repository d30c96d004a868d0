"""Text to labelled tokens, over small tokenizers of every kind, trained here on a few sentences."""

from __future__ import annotations

import json
import threading
import time
import tracemalloc
import unicodedata
from collections.abc import Callable
from functools import cache
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

from mha_viz.capture.tokens import (
    MAX_CHARACTERS,
    MAX_LABEL,
    Encoded,
    _begins_by_marks,
    _word_numbers,
    clean_text,
    encode,
    visible,
)
from mha_viz.errors import ArgumentError, TextError

SHIPPED = Path(__file__).parents[2] / "models"
SENTENCES = [
    "The cat sat on the mat. The dog did not see the cat!",
    "Don't walk on the mat, said the cat.",
    "one two three, and the walking dogs were sleeping",
] * 5


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
    trainer = trainers.WordPieceTrainer(vocab_size=80, special_tokens=names, show_progress=False)
    model.train_from_iterator(SENTENCES, trainer)
    model.post_processor = _special("[CLS]", "[SEP]", (2, 3))
    keys = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=model, **dict(zip(keys, names, strict=True))
    )


def _byte_level(names: list[Any]) -> Tokenizer:
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=340,
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
        vocab_size=420, special_tokens=names, initial_alphabet=["▁"], show_progress=False
    )
    model.train_from_iterator(SENTENCES, trainer)
    model.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=model, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def t5_like() -> Any:
    model = Tokenizer(models.Unigram())
    model.normalizer = normalizers.NFKC()
    model.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    trainer = trainers.UnigramTrainer(
        vocab_size=60,
        unk_token="<unk>",
        special_tokens=["<pad>", "</s>", "<unk>"],
        show_progress=False,
    )
    model.train_from_iterator(SENTENCES, trainer)
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
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    return T5Tokenizer(vocab=[*special, ("▁the", -2.0), *letters])


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
    assert all(b - a in (0, 1) for a, b in zip(found, found[1:], strict=False))
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


@pytest.mark.parametrize("name", PAIRS)
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
    assert found[:4] == ["[CLS]", "The", "CAT", "sät"][: len(found[:4])] or "CAT" in found
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
    assert labels(encoded)[-6:-1][:4] != labels(encoded)[-5:-1]
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
    numbers = _word_numbers(text)
    assert len(numbers) == len(text)
    split = [""] * (numbers[-1] + 1)
    for char, number in zip(text, numbers, strict=True):
        split[number] += char
    assert split == expected.split("|")


@given(text=st.text(min_size=1))
def test_every_character_has_a_word(text: str) -> None:
    numbers = _word_numbers(text)
    assert len(numbers) == len(text)
    assert numbers[0] == 0
    assert all(b - a in (0, 1) for a, b in zip(numbers, numbers[1:], strict=False))


@pytest.mark.parametrize("name", FAST)
def test_all_tokenizers_agree_on_words(name: str) -> None:
    text = "The walking dog's mat, and the cat ☃ sleeping."
    encoded = encode(make(name), text, max_length=200)
    found: dict[int, str] = {}
    for token in encoded.tokens:
        if token.word is not None:
            assert token.start is not None and token.end is not None
            found[token.word] = text[encoded_start(found, token.word, token.start) : token.end]
            starts.setdefault((id(found), token.word), token.start)
    spelled = [text[starts[id(found), w] :][: 0] or found[w].strip() for w in found]
    assert spelled == ["The", "walking", "dog's", "mat", ",", "and", "the", "cat", "☃", "sleeping", "."]


starts: dict[tuple[int, int], int] = {}


def encoded_start(found: dict[int, str], word: int, start: int) -> int:
    return starts.get((id(found), word), start)
