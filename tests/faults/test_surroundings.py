"""The app and the library where their surroundings fail: full disks, read-only folders."""

import errno
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from safetensors import safe_open

from mha_viz.corpus.query.study import Study
from mha_viz.ui.jobs.calls import SharedFlag
from tests.cli.command import TEXT as SENTENCE
from tests.cli.command import call
from tests.corpus.small_studies import tables_of
from tests.faults.disk import full_disk
from tests.faults.visiting import Visit
from tests.ui.serving import PATIENCE, ROOT, OpenPage, served

pytestmark = pytest.mark.slow

TEXT = "The naïve café 👍 slept."
# Hours forward and back, as where a machine finds out the time, or is put to sleep.
JUMP = """
import time
true = time.time
time.time = lambda: true() + {hours} * 3600
answer = ""
"""


def test_no_home_no_caches_no_utf8_and_a_clock_that_jumps(tmp_path):
    nowhere = tmp_path / "file"
    nowhere.touch()
    folders = dict.fromkeys(("HOME", "HF_HOME", "TMPDIR", "XDG_CACHE_HOME"), str(nowhere))
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    with served(tmp_path, **folders, **ascii_only) as (port, ask), OpenPage(port) as page:
        assert page.show(text=TEXT) == []
        for hours in (5, -9):
            ask(JUMP.format(hours=hours))
            assert page.show("compare", text=TEXT, section="twins", model="tiny-gpt2") == []
            assert page.show(text=f"{TEXT} {hours}", off="0.1", how="mean") == []

    log = (tmp_path / "app.log").read_text("utf-8")
    assert "Traceback" not in log, log


@pytest.fixture
def bound() -> list[str]:
    """A command before another one, which permissions then bind, whoever runs the tests.

    Root stays root, and only loses the right to write what may not be written: another user might
    not reach Python and this checkout, and a mount of its own is refused in many containers.
    """
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        # Linux has it (util-linux); elsewhere nothing binds root, and hardly anybody tests as root.
        pytest.skip("permissions do not bind root, and there is no setpriv to change that")
    return ["setpriv", "--bounding-set=-dac_override"]


@pytest.fixture
def read_only_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that is empty and stays so; nothing in the environment leads elsewhere."""
    for name in os.environ:
        if name.startswith("XDG_") or name in ("HF_HOME", "MPLCONFIGDIR"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    return home


WRITABLE = "import os; answer = os.access(os.environ['HOME'], os.W_OK)"


def test_a_home_that_is_read_only(tmp_path, bound, read_only_home):
    env = {"HOME": str(read_only_home)}
    with served(tmp_path, *bound, **env) as (port, ask), Visit(port) as page:
        assert ask(WRITABLE) == "False"
        assert page.show("many_texts", text=TEXT) == []
        page.go("heads", f"text={TEXT}")
        page.unfold("Export")
        record = tmp_path / "record.safetensors"
        record.write_bytes(page.download("Record file"))
        page.go("heads", f"text={TEXT}")
        page.unfold("Export")
        assert page.download("PNG").startswith(b"\x89PNG")
    with safe_open(record, "pt") as file:
        assert json.loads(file.metadata()["record"])["text"] == TEXT
    picture = tmp_path / "head.png"
    command = [sys.executable, "-m", "mha_viz", "show", TEXT, "-l0", "-H0", "--out", str(picture)]
    shown = subprocess.run(
        [*bound, *command], cwd=ROOT, env=os.environ | env, capture_output=True, timeout=PATIENCE
    )
    assert (shown.returncode, shown.stderr.decode()) == (0, f"wrote {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")

    assert list(read_only_home.iterdir()) == []
    log = (tmp_path / "app.log").read_text("utf-8")
    assert "Traceback" not in log and "Error" not in log, log


ROOM = 100  # bytes, less than any of these files has
COMMANDS = {
    "record.safetensors": ("trace", SENTENCE, "--out"),
    "head.png": ("show", SENTENCE, "-l0", "-H0", "--out"),
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
