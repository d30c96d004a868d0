"""An order to stop ends the server soon, whatever is under way, and leaves nothing behind."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.models import in_cache
from tests.faults.visiting import Visit, is_bar
from tests.strangers.raw import websocket
from tests.ui.serving import served
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

BUSY = 10.0  # seconds that a machine with other work may add
ORDERS = {
    "told twice": [signal.SIGTERM, signal.SIGTERM],
    "its terminal is gone": [signal.SIGHUP],
}


def waiting_signals(process: int) -> int:
    """Signals that were sent to a process and not taken yet, as a mask."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"^ShdPnd:\s*(\w+)", status, re.MULTILINE)[1], 16)


def children(process: int) -> set[int]:
    """Processes that it has started, and those that they have started."""
    found = set()
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found |= {int(number) for number in tasks.read_text().split()}
    return found.union(*(children(number) for number in found))


def runs(process: int) -> bool:
    """Tell whether it is there and has not ended (what nobody asked about since is a zombie)."""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


@pytest.fixture
def hears_hang_ups() -> Iterator[None]:
    """Let no server that is started here ignore hang-ups, as it does where this process does.

    `nohup` leaves it so. What this process handles itself is not inherited.
    """
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hears_hang_ups")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize("orders", ORDERS.values(), ids=ORDERS)
def test_an_order_to_stop_in_the_midst_of_everything(tmp_path, orders):
    in_cache(tmp_path / "hub", "a/model")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {"TMPDIR": str(temporary), "HF_HUB_CACHE": str(tmp_path / "hub")}
    with contextlib.ExitStack() as open_pages:
        port, ask = open_pages.enter_context(served(tmp_path, **env))
        studies, trains, loads = (open_pages.enter_context(Visit(port)) for _ in range(3))
        assert loads.show("many_texts") == []  # so that it opens at once
        studies.go("many_texts", "joined=1")  # that of single sentences was made beforehand
        studies.wait_for(is_bar)
        trains.go("lab-two-places")  # whose training has a process, however fast the machine is
        trains.click("Run it yourself")
        trains.wait_for(is_bar)
        server = int(ask("import os; answer = os.getpid()"))
        loads.go("", "model=a/model")
        begun = wait_for(lambda: children(server), "processes that the server starts")
        assert list(temporary.glob("mha*"))
        asleep, answered = websocket(port)  # a page that keeps its connection, and says nothing
        assert open_pages.enter_context(asleep) and answered == 101

        ordered = time.monotonic()
        for order in orders:
            os.kill(server, order)
            wait_for(lambda: not waiting_signals(server), "the server to take the signal")
        assert os.waitstatus_to_exitcode(os.waitpid(server, 0)[1]) == 0
        assert time.monotonic() - ordered < 2 + BUSY
    wait_for(lambda: not any(map(runs, begun)), "the end of what the server started")
    assert not list(temporary.glob("mha*"))
    log = (tmp_path / "app.log").read_text()
    assert "Traceback" not in log and "Error" not in log, log
