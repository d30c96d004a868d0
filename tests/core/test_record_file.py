"""A record's file: it comes back as it was, and damaged, forged or foreign files are refused."""

import json
import pickle
import random
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from mha_viz.core.attention.scoring import Scoring, Sight
from mha_viz.core.record import file as record_file
from mha_viz.core.record.attention_record import AttentionRecord, Token
from mha_viz.core.record.patterns import ComputedPatterns
from mha_viz.errors import RecordError
from tests.core.records import D_HEAD, HEADS, LAYERS, TOKENS, make, tokens_of

# -- what comes back -----------------------------------------------------------------------------


def test_a_record_comes_back_from_its_file_as_it_was(tmp_path):
    record = make(
        tokens=tuple(
            Token(text, i, i, i + 1, word=i)
            for i, text in enumerate(["naïve", "👍 1/4", "<b>", "\u202e", "日本"])
        ),
        text='ü"\\\n\u2028',
        text_pair="👩‍👩‍👧",
        causal=True,
        notes=("cut ✂",),
        layer_numbers=(3, 7),
    ).without_first()
    path = record.save(tmp_path / "new" / "folder" / "r.safetensors")
    back = AttentionRecord.load(path)
    assert back == record
    assert torch.equal(back.removed, record.removed) and torch.equal(back.key, record.key)
    assert torch.equal(back.value, record.value) and record.value.shape[2] == TOKENS - 1
    assert back.scale == record.scale == (0.5, 0.25)
    assert back.layer_numbers == (3, 7) == record.merge_words().layer_numbers
    assert back.W_O == ()  # the model's own weights are not part of what a text left behind
    assert AttentionRecord.load(str(path)) == record


def test_cross_attention_and_small_records_come_back(tmp_path):
    cross = AttentionRecord(
        torch.full((1, 2, 2, 3), 1 / 3), tokens_of(0, None), tokens_of(4, None, 6), part="cross"
    )
    assert AttentionRecord.load(cross.save(tmp_path / "a")) == cross
    assert cross.key_labels == AttentionRecord.load(tmp_path / "a").key_labels


def test_what_queries_may_see_comes_back(tmp_path):
    causal = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    record = make(allowed=torch.stack([causal, causal.triu(-1)]), causal=True)
    back = AttentionRecord.load(record.save(tmp_path / "r.safetensors"))
    assert back == record and torch.equal(back.allowed, record.allowed)
    assert AttentionRecord.load(record.merge_words().save(tmp_path / "w.safetensors")).merged


def test_the_file_is_safetensors_with_a_readable_header(tmp_path):
    path = make().save(tmp_path / "r.safetensors")
    with safe_open(path, framework="np") as file:
        assert set(file.keys()) == {"pattern", "z", "query", "key", "value"}
        header = file.metadata()
        assert np.array_equal(file.get_tensor("pattern"), make().pattern.numpy())
    assert header["format"] == record_file.FORMAT and len(header[record_file.HASH]) == 64
    described = json.loads(header["record"])
    assert described == make().describe() and described["shape"] == [2, 3, 5, 5]
    # files of ordinary models, as of older versions, do not name the numbers of their layers
    assert "layer_numbers" not in described
    assert AttentionRecord.load(path).layer_numbers == (0, 1)


def test_views_and_parts_of_larger_tensors_are_saved_as_they_look(tmp_path):
    wide = torch.rand(LAYERS, HEADS, TOKENS, 2 * TOKENS)
    pattern = (wide[..., ::2]).softmax(-1).transpose(-1, -2)
    pattern = pattern / pattern.sum(-1, keepdim=True)
    assert not pattern.is_contiguous()
    record = make(pattern=pattern)
    assert AttentionRecord.load(record.save(tmp_path / "r")) == record


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 4, 100, -1])
def test_a_damaged_file(tmp_path, cut):
    path = make().save(tmp_path / "r.safetensors")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(RecordError, match="cannot be read as a record"):
        AttentionRecord.load(path)


class Bomb:
    """Pickled, it makes a file called `ran` when it is read."""

    def __init__(self, folder: Path) -> None:
        self.marker = folder / "ran"

    def __reduce__(self):
        return (Path.touch, (self.marker,))


def test_a_renamed_pickle_is_not_run(tmp_path):
    for path, write in (
        ("a", lambda f: pickle.dump(Bomb(tmp_path), f)),
        ("b", lambda f: torch.save(Bomb(tmp_path), f)),
    ):
        with (tmp_path / path).open("wb") as file:
            write(file)
        with pytest.raises(RecordError, match="cannot be read as a record"):
            AttentionRecord.load(tmp_path / path)
    assert not (tmp_path / "ran").exists()


def test_other_safetensors_are_no_records(tmp_path):
    save_file({"pattern": make().pattern}, tmp_path / "plain")
    save_file({"pattern": make().pattern}, tmp_path / "other", {"format": "pt"})
    for name in ("plain", "other"):
        with pytest.raises(RecordError, match="not a record of attention"):
            AttentionRecord.load(tmp_path / name)
    save_file({"z": make().z}, tmp_path / "r", {"format": record_file.FORMAT, "record": "{}"})
    with pytest.raises(RecordError, match="holds no pattern"):
        AttentionRecord.load(tmp_path / "r")
    claim = {"pattern": {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}}
    text = json.dumps(claim).encode()
    (tmp_path / "r").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(RecordError, match="cannot be read as a record"):
        AttentionRecord.load(tmp_path / "r")


def test_a_file_too_large_is_not_read(tmp_path, monkeypatch):
    path = make().save(tmp_path / "r")
    monkeypatch.setattr(record_file, "MAX_FILE_BYTES", 1000)
    with pytest.raises(RecordError, match="larger than"):
        AttentionRecord.load(path)


def forged(path: Path, tensors: dict | None = None, drop: str = "", **changes) -> Path:
    """A file as `save` writes it, with something else in its header or its tensors."""
    record = make()
    share = changes.pop("pattern_share", 1.0)
    kept = {"pattern": share * record.pattern, "z": record.z} | (tensors or {})
    description = record.describe() | changes
    description.pop(drop, None)
    save_file(kept, path, {"format": record_file.FORMAT, "record": json.dumps(description)})
    return path


@pytest.mark.parametrize(
    "changes",
    [
        dict(drop="tokens"),
        dict(tokens=[]),
        dict(tokens=[["a"]] * 5),
        dict(tokens=[[7, 7, None, None, None, False, 0]] * 5),
        dict(tokens=[["a", 7, None, None, None, 1, 0]] * 5),
        dict(tokens=[["a", True, 0, 1, 0, False, 0, 1]] * 5),
        dict(tokens=[["\ud800", 7, None, None, None, False, 0]] * 5),
        dict(text=7),
        dict(text_pair=["x"]),
        dict(causal="yes"),
        dict(scale=["x", "y"]),
        dict(notes="cut"),
        dict(tensors={"pattern": torch.full((LAYERS, HEADS, TOKENS, TOKENS), 0.5)}),
        dict(tensors={"pattern": torch.zeros(LAYERS, HEADS, TOKENS, TOKENS, dtype=torch.int64)}),
        dict(tensors={"z": torch.zeros(LAYERS + 1, HEADS, TOKENS, D_HEAD)}),
        dict(tensors={"z": torch.zeros(LAYERS, HEADS, TOKENS, D_HEAD, dtype=torch.int64)}),
        dict(tensors={"removed": torch.full((LAYERS, HEADS, TOKENS), 7.0)}),
        dict(tensors={"allowed": torch.ones(LAYERS, TOKENS, 2, dtype=torch.bool)}),
        dict(tokens=[["a", 10**30, 0, 1, 0, False, 0, 1]] * 5),
        dict(tokens=[["a", 7, 0, 1, 0, False, 0, 0]] * 5),
        dict(scale=[10**400] * LAYERS),
        dict(scale=[float("nan")] * LAYERS),
        dict(shape=[LAYERS + 1, HEADS, TOKENS, TOKENS]),
        dict(drop="shape"),
        dict(tensors={"pattern_2": torch.ones(LAYERS, HEADS, TOKENS, TOKENS)}),
        dict(layers=[1, 2, 3]),
        dict(tensors={"z": make().z.index_fill(3, torch.tensor(2), torch.nan)}),
        dict(tensors={"value": make().value / 0}),
        dict(tensors={"pattern": make().pattern * torch.tensor([1, 1, 1, 0.5, 1])[:, None]}),
        dict(tensors={"sink": torch.full((LAYERS, HEADS, TOKENS), 0.25)}, pattern_share=0.5),
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_a_forged_file_is_refused(tmp_path, changes, as_users_have_it):
    assert AttentionRecord.load(forged(tmp_path / "good")).labels == make().labels
    with pytest.raises(RecordError):
        AttentionRecord.load(forged(tmp_path / "bad", **changes))


def test_rows_that_a_sink_or_a_removal_left_open_without_a_hash(tmp_path):
    whole, sink = make().pattern, torch.full((LAYERS, HEADS, TOKENS), 0.25)
    left = make(pattern=0.75 * whole, sink=sink).without_first(renormalize=False)
    nothing = make(pattern=whole * torch.tensor([0, 1, 1, 1, 1])[:, None])
    for number, record in enumerate((left, left.merge_words(), nothing, make().without_first())):
        path = record.save(tmp_path / f"r{number}")
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
        del metadata[record_file.HASH]  # as in files of before
        save_file(load_file(path), path, metadata)
        assert AttentionRecord.load(path) == record


@pytest.mark.parametrize("computed", [False, True])
def test_a_flipped_bit_anywhere_is_refused(tmp_path, computed):
    record = make()
    if computed:
        scoring = (Scoring(0.5, sight=Sight(before=3)), Scoring(0.25, sinks=torch.ones(HEADS)))
        record = make(
            pattern=None,
            patterns=ComputedPatterns(tuple(record.query), tuple(record.key), scoring),
        )
    path, draw = record.save(tmp_path / "r"), random.Random(11)
    sound = path.read_bytes()
    assert AttentionRecord.load(path) == record
    for _ in range(300):
        damaged = bytearray(sound)
        damaged[draw.randrange(len(sound))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(RecordError):
            AttentionRecord.load(path)


@pytest.mark.parametrize("header", ["[]", "{", "[" * 100_000, "NaN"])
def test_a_header_that_is_no_description(tmp_path, header):
    save_file(
        {"pattern": make().pattern},
        tmp_path / "r",
        {"format": record_file.FORMAT, "record": header},
    )
    with pytest.raises(RecordError, match="cannot be read as a record"):
        AttentionRecord.load(tmp_path / "r")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_what_is_kept_comes_back_in_its_precision(tmp_path, dtype):
    record = make(value=make().value.to(dtype), z=make().z[..., :0])
    back = AttentionRecord.load(record.save(tmp_path / "r"))
    assert back == record and back.value.dtype == dtype and back.z.shape[-1] == 0
    assert load_file(tmp_path / "r")["value"].dtype == dtype  # by the library itself, too
