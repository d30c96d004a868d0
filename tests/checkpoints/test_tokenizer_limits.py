"""Tokenizers that would take minutes or gigabytes are refused; those of real models are not."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, normalizers, pre_tokenizers

import mha_viz as mv
from mha_viz.checkpoints import tokenizer_limits
from mha_viz.checkpoints.tokenizer_limits import (
    check_built,
    check_reading,
    check_written,
    growth,
)
from mha_viz.checkpoints.tokenizer_patterns import PatternError, check_pattern
from mha_viz.errors import UnsafeCheckpointError
from tests.making.checkpoints import copy
from tests.making.small_tokenizers import BUILD, make


def change(folder: Path, to: Path, **parts: Any) -> Path:
    """The checkpoint again, with other parts in its tokenizer.json."""
    path = copy(folder, to) / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | parts))
    return to


def replace(old: str, new: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def added(n: int) -> list[dict[str, Any]]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [{"id": 100 + i, "content": f"<{i}>", "special": True, **flags} for i in range(n)]


@pytest.mark.parametrize("name", sorted(BUILD))
def test_tokenizers_as_they_are_trained_pass(name):
    check_built(name, make(name))


@pytest.mark.parametrize(
    "parts",
    [
        dict(normalizer={"type": "Prepend", "prepend": "x" * 1_000_000}),
        dict(normalizer=replace("a", "b" * 1000)),
        dict(normalizer={"type": "Replace", "pattern": {"Regex": "(?=a)"}, "content": "b" * 1000}),
        dict(
            normalizer={
                "type": "Sequence",
                "normalizers": [
                    {"type": "Sequence", "normalizers": [replace("a", "a" * 20)]},
                    replace("a", "a" * 20),
                ],
            }
        ),
        dict(
            normalizer=replace("a", "a" * 20),
            pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}] * 5},
        ),
        dict(decoder={"type": "Sequence", "decoders": [replace("a", "a" * 20)] * 2}),
    ],
    ids=lambda parts: str(parts)[:70],
)
def test_further_rules_that_lengthen_a_text(folder, tmp_path, parts):
    with pytest.raises(UnsafeCheckpointError, match="more than 100 times longer"):
        check_written(change(folder, tmp_path / "bad", **parts))


def test_what_is_built_is_looked_at_whatever_file_it_came_from():
    tokenizer = BUILD["wordpiece"]()
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex("a"), "aaaa")] * 3
    )
    with pytest.raises(UnsafeCheckpointError, match="times longer"):
        check_built("bad", tokenizer)
    tokenizer.backend_tokenizer.normalizer = None
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.ByteLevel()] * 8
    )
    with pytest.raises(UnsafeCheckpointError, match="times longer"):
        check_built("bad", tokenizer)


@pytest.mark.parametrize(
    ("rule", "text"),
    [(replace("a", "bcd"), "aaa"), (replace("ab", "c"), "abab"), (replace("", "xy"), "abc"),
     (replace("abc", "defg"), "abcabc"), ({"type": "Prepend", "prepend": "xyz"}, "a"),
     ({"type": "Replace", "pattern": {"Regex": "b?"}, "content": "xyz"}, "aaaa"),
     ({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "_"}, "a    b"),
     ({"type": "ByteLevel"}, "Ġł")],
    ids=str,
)  # fmt: skip
def test_growth_bounds_what_the_rule_does(rule, text):
    whole = json.dumps(
        {
            "version": "1.0",
            "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
            "added_tokens": [],
            "normalizer": rule,
        }
    )
    from tokenizers import Tokenizer

    grown = Tokenizer.from_str(whole).normalizer.normalize_str(text)
    assert len(grown) <= growth(rule) * (len(text) + 1)
    assert growth(rule) <= 5  # nor is it far above


def test_growth_of_a_table_is_its_longest_entry():
    trie = b"\0" * 8
    table = len(trie).to_bytes(4, "little") + trie + b"ab\0" + "é".encode() * 7 + b"\0"
    coded = base64.b64encode(table).decode()
    assert growth({"type": "Precompiled", "precompiled_charsmap": coded}) == 7
    assert growth({"type": "Precompiled", "precompiled_charsmap": ""}) == 1


def test_too_many_added_tokens(folder, tmp_path):
    bad = change(folder, tmp_path / "bad", added_tokens=added(20_001))
    with pytest.raises(UnsafeCheckpointError, match=r"20,001 added tokens.*at most 20,000"):
        mv.load(str(bad))
    check_written(change(folder, tmp_path / "good", added_tokens=added(20_000)))


@pytest.mark.parametrize("key", ["extra_special_tokens", "additional_special_tokens"])
def test_too_many_added_tokens_in_the_settings(folder, tmp_path, key):
    path = copy(folder, tmp_path / "bad") / "tokenizer_config.json"
    listed = [f"<{i}>" for i in range(20_001)]
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: listed}))
    with pytest.raises(UnsafeCheckpointError, match="20,001 added tokens"):
        check_written(path.parent)


def test_too_large_a_vocabulary(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer_limits, "MAX_TOKENS", 1000)
    words = {f"w{i}": i for i in range(1001)}
    bad = change(folder, tmp_path / "bad", model={"type": "WordLevel", "vocab": words})
    with pytest.raises(UnsafeCheckpointError, match=r"1,001 tokens; .* at most 1,000"):
        check_written(bad)
    unigram = change(folder, tmp_path / "u", model={"vocab": [[w, -1.0] for w in words]})
    with pytest.raises(UnsafeCheckpointError, match="1,001 tokens"):
        check_written(unigram)
    old = copy(folder, tmp_path / "old", drop="tokenizer*")
    (old / "vocab.json").write_text(json.dumps(words))
    with pytest.raises(UnsafeCheckpointError, match="1,001 tokens"):
        check_written(old)
    tokenizer = BUILD["wordpiece"]()
    tokenizer.add_tokens(sorted(words))
    with pytest.raises(UnsafeCheckpointError, match="tokens"):
        check_built("bad", tokenizer)


def test_a_template_that_adds_thousands_of_tokens(folder, tmp_path):
    processor = json.loads((folder / "tokenizer.json").read_text())["post_processor"]
    processor["special_tokens"]["[CLS]"] |= {"ids": [2] * 5000, "tokens": ["[CLS]"] * 5000}
    with pytest.raises(UnsafeCheckpointError, match=r"5,\d+ special tokens around"):
        mv.load(str(change(folder, tmp_path / "bad", post_processor=processor)))


def test_a_tokenizer_that_makes_hundreds_of_tokens_of_a_character(monkeypatch):
    tokenizer = BUILD["wordpiece"]()
    check_reading("good", tokenizer)
    monkeypatch.setattr(type(tokenizer), "__call__", lambda *_: {"input_ids": [0] * 100_000})
    with pytest.raises(UnsafeCheckpointError, match=r"100,000 tokens of .* makes a few"):
        check_reading("bad", tokenizer)


@pytest.mark.parametrize(
    ("pattern", "loops"),
    [("a+", 0), ("a*b+", 1), ("a+b*c?", 0), ("a+(?:b|c)", 1), ("(?:a+b)?", 1), ("a+(?!b)", 1)],
)
def test_check_pattern_counts_repeats_before_what_can_fail(pattern: str, loops: int) -> None:
    assert check_pattern(pattern).loops == loops


@pytest.mark.parametrize(
    "pattern", ["a+a+b", "a*(?:b*c|d)", "(?:a+){2}b", "(?=a+)a+b", "a+(?:b+c)?d"]
)
def test_check_pattern_of_two_repeats_before_what_can_fail_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="repeats without end come before what can fail"):
        check_pattern(pattern)
