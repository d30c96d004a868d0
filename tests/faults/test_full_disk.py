"""A disk that takes a few bytes: a command says so, and what was there is as it was."""

import errno
import io
import os
import tempfile

import pytest

from mha_viz.corpus.query.study import Study
from mha_viz.ui.jobs.calls import SharedFlag
from tests.cli.command import TEXT, call
from tests.corpus.small_studies import tables_of
from tests.faults.disk import full_disk

ROOM = 100  # bytes, less than any of these files has
COMMANDS = {
    "record.safetensors": ("trace", TEXT, "--out"),
    "head.png": ("show", TEXT, "-l0", "-H0", "--out"),
    "circuit.json": (
        "circuits",
        "faithfulness",
        "closing",
        "--heads=0.1",
        "--examples=4",
        "--save",
    ),
}


@pytest.mark.parametrize("old", [None, b"an older file " * 100], ids=["new", "old"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_the_disk_does_not_take(tmp_path, name, old):
    file = tmp_path / name
    if old is not None:
        file.write_bytes(old)
    with full_disk(ROOM):
        said = call(*COMMANDS[name], str(file), code=2).stderr.splitlines()
    assert f"error: {file} cannot be written: File too large." in said[-1]
    assert "make room" in said[-1] and "wrote" not in "".join(said)
    assert [path.name for path in tmp_path.iterdir()] == ([] if old is None else [name])
    assert old is None or file.read_bytes() == old


@pytest.mark.parametrize("room", [4_096, 65_536, 300_000])
def test_a_study_that_the_disk_does_not_take_goes_on_once_there_is_room(tmp_path, room):
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"The {number} old dogs slept.\n" for number in range(20)))
    whole, study = tmp_path / "whole", tmp_path / "study"
    call("study", str(texts), "--out", str(whole))

    with full_disk(room):
        done = call("study", str(texts), "--out", str(study), code=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and "cannot be written: the disk is full" in line
    assert "the same command goes on" in line
    assert not done.stdout

    call("study", str(texts), "--out", str(study))
    assert Study.load(study).n_texts == 20
    assert tables_of(study) == tables_of(whole)


@pytest.mark.skipif(os.name != "posix", reason="processes see one memory on POSIX alone")
@pytest.mark.parametrize("has_memfd", [True, False])
def test_create_of_a_shared_flag_takes_its_memory_at_once(monkeypatch, has_memfd):
    """A hole in a file gets its room at the first write: on a full disk that ends the process."""
    if not has_memfd:  # as on macOS: a file of a folder has to do
        monkeypatch.delattr(os, "memfd_create", raising=False)
    flag = SharedFlag.create()
    other = SharedFlag.attach(os.dup(flag.number))
    os.fsync(flag.number)
    assert os.fstat(flag.number).st_blocks > 0 and not other.is_set
    flag.set(True)
    assert other.is_set
    flag.set(False)
    assert not other.is_set


def test_create_of_a_shared_flag_without_room_gives_none(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)

    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: Full())
    assert SharedFlag.create() is None
