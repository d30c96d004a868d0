"""Writing a file: it is whole or as it was before, and what is no plain file is never replaced."""

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from mha_viz.core import output_file
from mha_viz.core.json_file import JsonKind
from mha_viz.core.output_file import check_writable, write_file
from mha_viz.errors import WriteError
from tests.faults.disk import full_disk

ROOT = Path(__file__).parents[2]
NEW = b"new " * 5_000


@contextmanager
def mask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- plain files ---------------------------------------------------------------------------------


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    for value, expected in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        path = tmp_path / f"{value:o}"
        with mask(value):
            write_file(path, NEW)
        assert (path.read_bytes(), mode(path)) == (NEW, expected)


def test_a_file_keeps_its_permissions_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "old.csv"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_file(path, NEW)
    assert (path.read_bytes(), mode(path)) == (NEW, 0o640)
    assert os.listdir(tmp_path) == ["old.csv"]


def test_who_reads_the_old_file_reads_it_to_its_end(tmp_path):
    path = tmp_path / "old.csv"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        write_file(path, NEW)
        assert reader.read() == b"old"


def test_folders_are_made_where_asked(tmp_path):
    write_file(tmp_path / "a" / "b" / "c", NEW, parents=True)
    assert (tmp_path / "a" / "b" / "c").read_bytes() == NEW
    with pytest.raises(WriteError, match="No such file or directory"):
        write_file(tmp_path / "d" / "e", NEW)


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [b"old", b"old" * 10_000, None], ids=["short", "long", "none"])
def test_a_full_disk_leaves_what_was_there(tmp_path, old):
    path = tmp_path / "p.svg"
    if old is not None:
        path.write_bytes(old)
    with full_disk(), pytest.raises(WriteError, match=r"p\.svg cannot be written: File too large"):
        write_file(path, NEW)
    assert (path.read_bytes() if path.exists() else None) == old
    assert os.listdir(tmp_path) == ([] if old is None else ["p.svg"])


def test_an_interrupt_leaves_what_was_there(tmp_path, monkeypatch):
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "r"
    path.write_bytes(b"old")
    monkeypatch.setattr(output_file.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_file(path, NEW)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["r"]


def test_a_folder_is_not_written(tmp_path):
    (tmp_path / "inside").touch()
    for name in (tmp_path, tmp_path / "inside" / "..", "."):
        with pytest.raises(WriteError, match="a folder, and a file is expected"):
            write_file(name, NEW)
    assert os.listdir(tmp_path) == ["inside"]


def test_a_file_that_may_not_be_written_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    path.chmod(0o444)
    # Root may write everything; this asks as anybody else would.
    monkeypatch.setattr(output_file.os, "access", lambda place, how: bool(mode(place) & 0o222))
    with pytest.raises(WriteError, match="Permission denied"):
        write_file(path, NEW)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("parents", [False, True])
def test_check_writable_refuses_what_write_file_refuses_and_leaves_nothing(tmp_path, parents):
    (tmp_path / "plain").write_bytes(b"old")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "link").symlink_to("new")
    before = sorted(os.listdir(tmp_path))
    refused = [".", "a\0b", "\ud800", "x" * 300, "plain/below", "circle"]
    taken = ["new", "plain", "link"]
    (taken if parents else refused).append("a/b/new")
    for name in refused:
        with pytest.raises(WriteError) as checked:
            check_writable(tmp_path / name, parents=parents)
        with pytest.raises(WriteError) as written:
            write_file(tmp_path / name, NEW, parents=parents)
        assert str(checked.value) == str(written.value)
    for name in taken:
        check_writable(tmp_path / name, parents=parents)
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "plain").read_bytes() == b"old"
    for name in taken:
        write_file(tmp_path / name, NEW, parents=parents)


# -- links ---------------------------------------------------------------------------------------


def test_a_symbolic_link_stays_and_what_it_names_is_written(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link, second = tmp_path / "folder" / "target", tmp_path / "link", tmp_path / "second"
    link.symlink_to("folder/target")
    second.symlink_to(link)
    write_file(second, b"made")  # the link named nothing yet
    assert target.read_bytes() == b"made"
    write_file(second, NEW)
    assert second.is_symlink() and link.is_symlink() and target.read_bytes() == NEW
    assert os.listdir(tmp_path / "folder") == ["target"]


@pytest.mark.parametrize("cuts", [[], [0, 2, 3, 3, 9], [3], [19_999]], ids=str)
@pytest.mark.parametrize("old", [b"old", b"old" * 10_000], ids=["short", "long"])
def test_both_names_of_a_file_stay_names_of_one_file(tmp_path, old, cuts):
    path, other = tmp_path / "path", tmp_path / "other"
    path.write_bytes(old)
    os.link(path, other)
    parts = [memoryview(NEW)[a:b] for a, b in pairwise([0, *cuts, len(NEW)])]
    write_file(path, parts if cuts else NEW)
    assert path.samefile(other) and other.read_bytes() == NEW
    assert sorted(os.listdir(tmp_path)) == ["other", "path"]


def test_a_full_disk_leaves_a_file_of_two_names(tmp_path):
    path, other = tmp_path / "path", tmp_path / "other"
    path.write_bytes(b"old" * 1_000)
    os.link(path, other)
    with full_disk(), pytest.raises(WriteError):
        write_file(path, NEW)
    assert path.samefile(other) and other.read_bytes() == b"old" * 1_000


def test_a_file_of_another_owner_stays_theirs(tmp_path):
    path = tmp_path / "theirs"
    path.write_bytes(b"old")
    try:
        os.chown(path, 12_345, 12_345)
    except PermissionError:
        # The system refuses to set up what this is about; where root runs the tests, it runs.
        pytest.skip("only root gives files away")
    write_file(path, NEW)
    assert path.read_bytes() == NEW and path.stat().st_uid == path.stat().st_gid == 12_345


# -- what is no plain file -----------------------------------------------------------------------


def test_a_named_pipe_is_written_into(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_file(pipe, NEW)
    reader.join(60)
    assert read == [NEW] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_the_standard_streams_go_on_where_they_are(tmp_path):
    code = (
        "import os, sys\n"
        "from mha_viz.core.output_file import write_file\n"
        "os.write(1, b'before ')\n"
        "for name in ('/dev/stdout', '/dev/fd/1', '/proc/self/fd/1', sys.argv[1]):\n"
        "    write_file(name, b'here ')\n"
        "os.write(1, b'after')\n"
    )
    log, link = tmp_path / "log", tmp_path / "link"
    link.symlink_to("/dev/stdout")
    command = [sys.executable, "-c", code, str(link)]
    with log.open("wb") as out:
        subprocess.run(command, stdout=out, check=True, cwd=ROOT, timeout=60)
    piped = subprocess.run(command, capture_output=True, check=True, cwd=ROOT, timeout=60).stdout
    assert log.read_bytes() == piped == b"before " + b"here " * 4 + b"after"


def test_json_files_hold_no_numbers_that_json_has_not():
    kind = JsonKind("kind", 1, 1000, "called", "writers")
    assert json.loads(kind.to_bytes({"x": 1.5}))["x"] == 1.5
    with pytest.raises(ValueError, match="JSON compliant"):
        kind.to_bytes({"x": float("nan")})
