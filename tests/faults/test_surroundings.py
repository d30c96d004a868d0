"""The app where nothing around it is as it should be: home, folders, locale, clock, disk."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import safe_open

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
