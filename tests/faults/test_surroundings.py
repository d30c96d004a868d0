"""The app where nothing around it is as it should be: home, folders, locale, clock, disk."""

import pytest

from tests.ui.serving import OpenPage, served

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
            assert page.show("intervene", text=f"{TEXT} {hours}", off="0.1") == []

    log = (tmp_path / "app.log").read_text("utf-8")
    assert "Traceback" not in log, log
