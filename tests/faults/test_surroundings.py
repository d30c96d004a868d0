"""The app where nothing around it is as it should be: home, folders, locale, clock, disk."""

import sys
import time

import pytest

from tests.faults.visiting import Visit, is_bar
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


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process, as only Linux can")
def test_a_study_that_the_disk_does_not_take_goes_on_once_there_is_room(tmp_path):
    import resource

    with served(tmp_path) as (port, ask), Visit(port) as page:
        server = int(ask("import os; answer = os.getpid()"))
        before = resource.prlimit(server, resource.RLIMIT_FSIZE)
        resource.prlimit(server, resource.RLIMIT_FSIZE, (20_000, before[1]))
        end = time.monotonic() + 90
        while not (faults := page.show("corpus")) and time.monotonic() < end:
            time.sleep(0.3)
        assert len(faults) == 1 and "could not keep this on its disk" in faults[0]
        assert str(tmp_path) not in faults[0] and "mha-viz-studies" not in faults[0]

        resource.prlimit(server, resource.RLIMIT_FSIZE, before)
        page.go("corpus")
        page.click("Try again")
        page.wait_for(is_bar)
