"""Files of weights: damaged, pickled, missing, or named outside of their folder."""

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


@pytest.mark.parametrize(
    "content",
    [
        b"garbage" * 1000,
        struct.pack("<Q", 2**63) + b"{}",
        pickle.dumps({"a": 1}),
        struct.pack("<Q", 2**25) + b"{}".ljust(2**25),
        struct.pack("<Q", 4_000_000) + b"[" * 4_000_000,
    ],
    ids=["garbage", "huge header", "renamed pickle", "header longer than any", "lists in lists"],
)
def test_weights_that_are_no_safetensors(folder, tmp_path, content):
    bad = copy(folder, tmp_path / "bad")
    (bad / "model.safetensors").write_bytes(content)
    with bounded(2), pytest.raises(BrokenCheckpointError, match="cannot be read as safetensors"):
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


def test_an_adapter_is_no_model(folder, tmp_path):
    bad = copy(folder, tmp_path / "bad")
    (bad / "adapter_config.json").write_text('{"base_model_name_or_path": "/etc"}')
    with pytest.raises(BrokenCheckpointError, match="adapter for another model"):
        mv.load(str(bad))


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


@pytest.mark.parametrize("index", ["", "[]", '{"weight_map": []}', '{"weight_map": {"a": [1]}}'])
def test_an_index_that_is_none(folder, tmp_path, index):
    bad = copy(folder, tmp_path / "bad")
    (bad / "model.safetensors.index.json").write_text(index)
    with pytest.raises(BrokenCheckpointError, match=r"index\.json of bad cannot be read"):
        mv.load(str(bad))


def test_an_index_that_names_a_missing_part(folder, tmp_path):
    bad = copy(folder, tmp_path / "bad")
    index = '{"weight_map": {"a": "model-00002-of-00002.safetensors"}}'
    (bad / "model.safetensors.index.json").write_text(index)
    with pytest.raises(BrokenCheckpointError, match="lacks 'model-00002"):
        mv.load(str(bad))
