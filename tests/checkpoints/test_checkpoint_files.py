"""Files of a checkpoint that are none, or far too large, are refused before anything opens them."""

import os
import socket
from pathlib import Path

import pytest

import mha_viz as mv
from mha_viz.checkpoints.checkpoint_files import check_files
from mha_viz.core.record.record import AttentionRecord
from mha_viz.errors import BrokenCheckpointError, RecordError, UnsafeCheckpointError
from tests.making.checkpoints import LAYERS, copy

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
