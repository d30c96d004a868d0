"""Files of a checkpoint: no plain files, too large, damaged, pickled, or outside of it."""

import json
import os
import pickle
import socket
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import mha_viz as mv
from mha_viz.checkpoints.checkpoint_files import check_files, read_json
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.errors import BrokenCheckpointError, RecordError, UnsafeCheckpointError
from tests.making.checkpoints import LAYERS, bounded, copy

OPENED = [
    "model.safetensors",
    "second.safetensors",
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "model.safetensors.index.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "chat_template.jinja",
    "adapter_config.json",
]


@pytest.fixture
def bad(folder: Path, tmp_path: Path) -> Path:
    return copy(folder, tmp_path / "bad")


@pytest.mark.parametrize("name", OPENED)
def test_a_named_pipe_is_not_opened(bad, name):
    (bad / name).unlink(missing_ok=True)
    os.mkfifo(bad / name)  # whoever opened it would wait for ever
    with pytest.raises(UnsafeCheckpointError, match=f"{name} in bad is a named pipe"):
        mv.load(str(bad))


def test_neither_are_a_socket_a_folder_and_a_device(bad, monkeypatch):
    path = bad / "more.safetensors"
    monkeypatch.chdir(bad)  # the path of a socket may not be long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path.name)
        with pytest.raises(UnsafeCheckpointError, match="is a socket"):
            mv.load(str(bad))
    path.unlink()
    path.mkdir()
    with pytest.raises(UnsafeCheckpointError, match="is a folder"):
        mv.load(str(bad))
    path.rmdir()
    path.symlink_to("/dev/zero")
    with pytest.raises(UnsafeCheckpointError, match="is a device"):
        mv.load(str(bad))


def test_a_template_in_its_own_folder_is_looked_at_too(bad):
    (bad / "additional_chat_templates").mkdir()
    os.mkfifo(bad / "additional_chat_templates" / "tools.jinja")
    with pytest.raises(UnsafeCheckpointError, match="named pipe"):
        mv.load(str(bad))


def test_a_link_to_nothing_is_told(bad):
    (bad / "vocab.txt").symlink_to("../blobs/gone")
    with pytest.raises(BrokenCheckpointError, match=r"vocab\.txt in bad .* not there"):
        mv.load(str(bad))


@pytest.mark.parametrize(
    ("name", "megabytes"),
    [("config.json", 1), ("tokenizer.json", 64), ("tokenizer_config.json", 16), ("vocab.txt", 64),
     ("spiece.model", 64), ("model.safetensors.index.json", 64), ("chat_template.jinja", 4)],
)  # fmt: skip
def test_a_file_larger_than_any_real_one(bad, name, megabytes):
    (bad / name).touch()
    os.truncate(bad / name, megabytes * 2**20 + 1)  # no bytes on the disk
    with pytest.raises(UnsafeCheckpointError, match=f"{name} of bad is larger than {megabytes} MB"):
        mv.load(str(bad))


def test_a_config_larger_than_any_real_one_is_not_read(bad):
    (bad / "config.json").write_text('{"model_type": "bert"}' + " " * 2**20)
    with pytest.raises(UnsafeCheckpointError, match=r"config\.json of bad is larger than 1 MB"):
        read_json(bad / "config.json")


def test_what_nobody_opens_may_be_anything(bad):
    os.mkfifo(bad / "notes")
    (bad / "logs").mkdir()
    (bad / "training.json").touch()
    os.truncate(bad / "training.json", 2**28)
    assert mv.load(str(bad)).n_layers == LAYERS


def test_a_stamp_tells_that_a_file_has_changed(bad):
    before = check_files(bad)
    assert check_files(bad) == before
    with (bad / "config.json").open("a") as file:
        file.write(" ")
    assert check_files(bad) != before


def test_a_record_is_not_read_from_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "r.safetensors")
    with pytest.raises(RecordError, match="No record file"):
        AttentionRecord.load(tmp_path / "r.safetensors")


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
