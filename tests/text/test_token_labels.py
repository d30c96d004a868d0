"""Labels and words of tokens, over small tokenizers of every kind, with offsets and without."""

import json
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

import mha_viz as mv
from mha_viz.core.record.attention_record import Token
from mha_viz.errors import ArgumentError, TextError
from mha_viz.text.encoding import continuing, id_of, label_of
from mha_viz.text.tokens import Encoded, _begins_by_marks, encode, tokenizer_errors
from tests.making.checkpoints import TEXT
from tests.making.small_tokenizers import FAST, make


def labels(encoded: Encoded) -> list[str]:
    return [token.text for token in encoded.tokens]


def content(encoded: Encoded) -> list[str]:
    return [token.text for token in encoded.tokens if not token.is_special]


def words(encoded: Encoded) -> list[int | None]:
    return [token.word for token in encoded.tokens]


# --- labels -----------------------------------------------------------------------------------


def test_wordpiece_labels_keep_the_spelling() -> None:
    encoded = encode(make("tiny_bert"), "The CAT sät on Zyxwv ☃", max_length=50)
    found = labels(encoded)
    assert found[:3] == ["[CLS]", "The", "CAT"]
    assert found[-2:] == ["☃ [UNK]", "[SEP]"]
    assert "".join(content(encoded)).replace(" [UNK]", "") == "TheCATsätonZyxwv☃"
    assert labels(encode(make("tiny_bert"), "…", max_length=9))[1:-1] == ["… 1/3", "… 2/3", "… 3/3"]


def test_byte_level_labels() -> None:
    encoded = encode(make("gpt2_like"), "the  cat\n\té 😀", max_length=50)
    assert ", ".join(labels(encoded)) == (
        "the, ␠, cat, ⏎, ⇥, é 1/2, é 2/2, ␠, 😀 1/4, 😀 2/4, 😀 3/4, 😀 4/4"
    )
    assert words(encoded) == [0, 1, 1, 2, 3, 4, 4, 5, 5, 5, 5, 5]


def test_spaces_that_roberta_trims_come_back() -> None:
    encoded = encode(make("roberta_like"), "the  cat 😀", max_length=50)
    smile = [f"😀 {i}/4" for i in range(1, 5)]
    assert labels(encoded) == ["<s>", "the", "␠", "cat", "␠", *smile, "</s>"]
    spans = [(token.start, token.end) for token in encoded.tokens[1:6]]
    assert spans == [(0, 3), (3, 4), (5, 8), (8, 9), (9, 10)]


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
def test_a_special_token_is_special_wherever_it_stands(
    name: str, typed: str, added: list[int]
) -> None:
    tokens = encode(make(name), f"the {typed} cat", max_length=50).tokens
    special = {i for i, token in enumerate(tokens) if token.is_special}
    (inside,) = special - {i % len(tokens) for i in added}
    assert (tokens[inside].text, tokens[inside].word) == (typed, None)
    assert len(special) == len(added) + 1


def test_an_unknown_token_typed_by_name_is_not_marked_twice() -> None:
    found = content(encode(make("wordpiece"), "the [UNK] ☃", max_length=20))
    assert found == ["the", "[UNK]", "☃ [UNK]"]
    assert labels(encode(make("gpt2_like"), "<|endoftext|>", max_length=20)) == ["<|endoftext|>"]


# --- words ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FAST if "llama" not in name])
def test_all_tokenizers_agree_on_words(name: str) -> None:
    words = "The walking dog's mat , and the cat ☃ sleeping .".split()
    text = "The walking dog's mat, and the cat ☃ sleeping."
    assert spelled(encode(make(name), text, max_length=200)) == words


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
    assert labels(encoded) == "[CLS] the ca ts , [MASK] [UNK] [SEP] [SEP] a [SEP]".split()
    assert words(encoded) == [None, 0, 1, 1, 2, 3, 4, None, None, 5, None]
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


def test_bytes_and_code_points() -> None:
    encoded = encode(make("byt5"), "a é\n", max_length=30)
    assert labels(encoded) == ["a", "␠", "⟨C3⟩", "⟨A9⟩", "⏎", "</s>"]
    assert words(encoded) == [0, 1, 1, 1, 2, None]
    encoded = encode(make("canine"), "a é", max_length=30)
    assert content(encoded) == ["a", "␠", "é"]


ASTRAY = "(z+)+$"  # tries every way to part a run of "z" that something else follows
TEXT_OF_Z = "z" * 40 + "!"


@pytest.fixture(scope="module")
def panicking() -> PreTrainedTokenizerFast:
    words = {"[UNK]": 0, "z": 1, TEXT_OF_Z: 2}
    fast = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.Split(Regex(ASTRAY), "isolated")
    fast.decoder = decoders.Replace(Regex(ASTRAY), "")
    return PreTrainedTokenizerFast(tokenizer_object=fast, unk_token="[UNK]")


@pytest.mark.parametrize(
    "use",
    [
        lambda tokenizer: encode(tokenizer, TEXT_OF_Z, max_length=9),
        lambda tokenizer: id_of(tokenizer, TEXT_OF_Z, spaced=False),
        lambda tokenizer: label_of(tokenizer, 2),
    ],
    ids=["encode", "id_of", "label_of"],
)
def test_every_use_of_it_says_that_the_tokenizer_cannot_read(panicking, use):
    with pytest.raises(TextError, match=r"tokenizer cannot read .*retry-limit"):
        use(panicking)
    assert label_of(panicking, 1) == "z" and continuing(panicking, [1]) == (False,)


def test_a_model_whose_tokenizer_panics_on_one_text_reads_others(folder, tmp_path):
    model = mv.load(str(folder))
    model.tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    parts = json.loads(path.read_text())
    split = {"type": "Split", "pattern": {"Regex": ASTRAY}, "behavior": "Isolated", "invert": False}
    both = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, split]}
    path.write_text(json.dumps(parts | {"pre_tokenizer": both}))
    model = mv.wrap(model.network, PreTrainedTokenizerFast.from_pretrained(tmp_path))
    with pytest.raises(TextError, match="cannot read this text"):
        model.trace(TEXT_OF_Z)
    assert model.trace(TEXT).text == TEXT


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError])
def test_what_is_not_the_tokenizers_passes(error):
    with pytest.raises(error), tokenizer_errors():
        raise error
    with pytest.raises(ArgumentError), tokenizer_errors():
        raise ArgumentError("ours")
