"""Files of a checkpoint: damaged; and weights pickled, missing or outside of their folder."""

import json
import pickle
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import mha_viz as mv
from mha_viz.errors import BrokenCheckpointError, UnsafeCheckpointError
from tests.making.checkpoints import bounded, copy


@pytest.mark.parametrize("cut", [0, 5, 200, -1])
def test_truncated_weights(folder, tmp_path, cut):
    bad = copy(folder, tmp_path / "bad")
    path = bad / "model.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BrokenCheckpointError, match="damaged or incomplete"):
        mv.load(str(bad))


CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
DAMAGED: dict[tuple[str, str], list[bytes | str]] = {  # by file and message
    (WEIGHTS, "cannot be read as safetensors"): [
        b"garbage" * 1000,
        struct.pack("<Q", 2**63) + b"{}",
        pickle.dumps({"a": 1}),
        struct.pack("<Q", 2**25) + b"{}".ljust(2**25),  # a header longer than any
        struct.pack("<Q", 4_000_000) + b"[" * 4_000_000,
    ],
    (INDEX, r"index\.json of bad cannot be read"): [
        *("", "[]", '{"weight_map": []}', '{"weight_map": {"a": [1]}}'),
    ],
    (INDEX, "lacks 'model-00002"): ['{"weight_map": {"a": "model-00002-of-00002.safetensors"}}'],
    ("adapter_config.json", "adapter for another model"): ['{"base_model_name_or_path": "/etc"}'],
    ("tokenizer.json", "no usable tokenizer"): ["[" * 100_000, '{"version": "1.0", "model": 3}'],
    ("generation_config.json", r"generation_config\.json of bad is not JSON"): [
        '{"eos_token_id": [1' + "0" * 30 + "]}"
    ],
    (CONFIG, r"config\.json of bad"): [
        *("", "{", "[]", '{"model_type": 7}', "[" * 100_000, '{"a":' * 50_000, "\ufeff{}"),
        '{"model_type": "bert", "hidden_size": ' + "9" * 5000 + "}",
    ],
    (CONFIG, "not JSON"): [b'{"model_type": "b\xff"}'],
}


@pytest.mark.parametrize(
    ("file", "message", "content"),
    [(*at, content) for at, contents in DAMAGED.items() for content in contents],
    ids=lambda value: ascii(value[:20]),
)
def test_a_damaged_file_is_refused_at_once(folder, tmp_path, file, message, content):
    bad = copy(folder, tmp_path / "bad")
    (bad / file).write_bytes(content.encode() if isinstance(content, str) else content)
    with bounded(2), pytest.raises(BrokenCheckpointError, match=message):
        mv.load(str(bad))


def test_pickled_weights_are_never_read(folder, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (marker,))

    marker = tmp_path / "ran"
    bad = copy(folder, tmp_path / "bad", drop="*.safetensors")
    torch.save({"weight": Bomb()}, bad / "pytorch_model.bin")
    with pytest.raises(UnsafeCheckpointError, match=r"pytorch_model\.bin.*can run code"):
        mv.load(str(bad))
    # A config may name another file of weights; it is not followed to one that nobody checked.
    good = copy(folder, tmp_path / "good", transformers_weights="adapter_model.bin")
    (bad / "pytorch_model.bin").rename(good / "adapter_model.bin")
    assert mv.load(str(good)).notes == ()
    assert not marker.exists()


def test_no_weights(folder, tmp_path):
    with pytest.raises(BrokenCheckpointError, match=r"no .* file with weights"):
        mv.load(str(copy(folder, tmp_path / "bad", drop="*.safetensors")))


@pytest.mark.parametrize("outside", ["../outside.safetensors", "/", "..", "a/../../x", "..\\x"])
def test_an_index_that_leads_out_of_the_folder(folder, tmp_path, outside):
    weights = (folder / "model.safetensors").read_bytes()
    (tmp_path / "outside.safetensors").write_bytes(weights)
    bad = copy(folder, tmp_path / "bad", drop="model.safetensors")
    (bad / "other.safetensors").write_bytes(weights)
    index = {"metadata": {}, "weight_map": dict.fromkeys(load_file(bad / "other.safetensors"))}
    index["weight_map"] = dict.fromkeys(index["weight_map"], outside)
    (bad / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UnsafeCheckpointError, match="outside of the folder"):
        mv.load(str(bad))
