"""Hostile checkpoints: each is refused, by its kind of error, before it takes time or memory."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.errors import BrokenCheckpointError, UnsafeCheckpointError
from tests.making.checkpoints import LAYERS, bounded, copy

GPT_NEO = {"model_type": "gpt_neo", "num_layers": 3, "num_heads": 5, "classifier_dropout": 0.1}
TEXT = {"Sequence": {"id": "A", "type_id": 0}}


def config(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / "config.json", values)


def fast(**parts: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / "tokenizer.json", parts)


def split(pattern: str) -> Callable[[Path], None]:
    rule = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return fast(pre_tokenizer=rule)


def change(path: Path, parts: dict[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | parts))


def template(n_texts: int, n_rules: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        rule = json.loads((folder / "tokenizer.json").read_text())["post_processor"]
        rules = [rule | {"single": [TEXT] * n_texts}] * n_rules
        fast(post_processor={"type": "Sequence", "processors": rules})(folder)

    return write


def other_files(tokenizer_class: str, **files: bytes) -> Callable[[Path], None]:
    """Put other files in the place of tokenizer.json; "__" stands for the dot of a name."""

    def write(folder: Path) -> None:
        (folder / "tokenizer.json").unlink()
        settings = {"tokenizer_class": tokenizer_class, "extra_ids": 10**9}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_bytes(content)

    return write


def table(content: bytes) -> Callable[[Path], None]:
    coded = base64.b64encode(content).decode()
    return fast(normalizer={"type": "Precompiled", "precompiled_charsmap": coded})


PIECE = b"\n\x09\n\x02ab\x15\0\0\0\0"  # of SentencePiece: a message with a text and a score
LONG_PIECES = b"".join(b"\n\xd4\x8c\x01\n\xd0\x8c\x01" + b"%03d" % i * 6_000 for i in range(400))
UNSAFE = {
    "a repeat is repeated": split("(a+)+$"),
    "could take for ever": split("(a|a)*b"),
    "refers to what a group": split(r"(.*)\1$"),
    "too many ways": split("a?" * 40 + "a" * 40),
    "2 repeats without end": split(".*.*x"),
    "looks back over a repeat": split("(?<=a+)b"),
    "1,000 times": split("(?:x{1001})y"),
    "in a Replace|could take": fast(
        normalizer={"type": "Replace", "pattern": {"Regex": "(a|ab)*c"}, "content": "x"}
    ),
    "repeats of a text in its template": template(2000, 1),
    "16 repeats of a text": template(2, 4),
    "values; a real one": fast(added_tokens=[[] for _ in range(6_000_002)]),
    "bytes in its table": table(b"\x08\0\0\0" + b"\0" * 8 + b"ab\0" * 2_000_000),
    "characters in its added tokens": fast(added_tokens=[{"content": "a" * 10_000}] * 101),
    "beginnings of tokens": fast(model={"vocab": [[f"{i}" * 3_000, -1.0] for i in range(900)]}),
    "beginnings of pieces": other_files("T5Tokenizer", spiece__model=LONG_PIECES),
    "characters in a word": fast(model={"max_input_chars_per_word": 10**9}),
    "tokens of padding": fast(padding={"strategy": {"Fixed": 10**12}}),
    "added tokens by extra_ids": other_files("ByT5Tokenizer"),
    "1,200,001 pieces": other_files("T5Tokenizer", spiece__model=PIECE * 1_300_000),
    "1,300,000 lines": other_files("BertTokenizer", vocab__txt=b"a\n" * 1_300_000),
    "too many numbers": config(  # a square mask of all positions in each layer
        **GPT_NEO, attention_types=[[["global"], 3]], max_position_embeddings=500_000
    ),
    "attention_types": config(**GPT_NEO, attention_types=[[["global"], 10**12]]),
    "some_layers = 1000000000": config(some_layers=[2, 10**9]),
    "2,000 depths": config(depths=[1] * 2_000),
    "image_size = 60000000": config(image_size=60_000_000),
    r"too many modules \(num_hidden_groups = 1,000\)": config(
        model_type="albert", num_hidden_groups=1_000, embedding_size=11
    ),
    r"too many numbers \(vocab_size = 1,199,999\)": config(vocab_size=1_199_999, hidden_size=35000),
}


@pytest.mark.parametrize("reason", UNSAFE)
def test_what_would_take_time_or_memory_without_end_is_refused(folder, tmp_path, reason):
    bad = copy(folder, tmp_path / "bad")
    UNSAFE[reason](bad)
    with bounded(2, megabytes=600), pytest.raises(UnsafeCheckpointError, match=reason) as caught:
        mv.load(str(bad))
    assert "\n" not in str(caught.value)
    assert mv.load(str(folder)).n_layers == LAYERS  # and no limit stays behind


@pytest.mark.parametrize(
    "write",
    [
        table(b"\0\0\0"),
        fast(pre_tokenizer={"type": "FixedLength", "length": 0}),
        config(model_type="gpt_neo", attention_types=[3]),
    ],
    ids=["table", "length", "layers"],
)
def test_what_makes_the_libraries_panic_or_raise_is_a_broken_checkpoint(folder, tmp_path, write):
    bad = copy(folder, tmp_path / "bad")
    write(bad)
    with bounded(20), pytest.raises(BrokenCheckpointError):
        mv.load(str(bad))


@pytest.mark.parametrize(
    "pattern",
    [  # GPT-2, Llama 3, GPT-4o, DeepSeek, BLOOM, CLIP, digits in threes, XLM-R
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]"
        r"*|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re"
        r"|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| "
        r"?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        r" ?[^(\s|[.,!?…。，、।۔،])]+",
        r"<\|startoftext\|>|<\|endoftext\|>|'s|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
        r"(?=(\d{3})+(?!\d))",
        r" {2,}",
    ],
)
def test_patterns_of_real_tokenizers_pass(folder, tmp_path, pattern):
    good = copy(folder, tmp_path / "good")
    split(pattern)(good)
    assert mv.load(str(good)).n_layers == LAYERS
