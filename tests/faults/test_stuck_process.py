"""A process of heavy work that reads nothing, or ends slowly: the others go on without it."""

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest.mock import MagicMock

import pytest

from mha_viz.ui.jobs import calls
from mha_viz.ui.jobs.calls import Call, Cancelled, CancelToken
from mha_viz.ui.jobs.process import Workers
from tests.ui.jobs import calls_for_tests as ours
from tests.waiting import PATIENCE, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="POSIX alone stops processes"),
]


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.setattr(calls, "OURS", (*calls.OURS, "tests."))
    every = Workers(1, 2**30)
    yield every
    every.put_away()


def run(workers: Workers, *arguments: Any, stop: CancelToken | None = None) -> int:
    """The number of the process that has counted."""
    call = Call(partial(ours.counts, *arguments), "on_progress")
    return workers.run(call, stop or CancelToken(), lambda *news: None)


def test_run_stopped_while_a_process_reads_no_order_ends_and_the_next_one_runs(workers) -> None:
    """The order is larger than a pipe holds, so that writing it waits for the process."""
    pid, stop, ended = run(workers, 1), CancelToken(), threading.Event()
    os.kill(pid, signal.SIGSTOP)

    def ask() -> None:
        with pytest.raises(Cancelled):
            run(workers, "x" * 2**20, stop=stop)
        ended.set()

    threading.Thread(target=ask, daemon=True).start()
    (worker,) = workers._all
    wait_for(worker._saying.locked, "the order to be written")
    threading.Thread(target=stop.set, daemon=True).start()
    assert ended.wait(PATIENCE)
    assert not worker.alive and run(workers, 1) != pid


def test_back_of_a_process_that_ends_slowly_leaves_the_others_alone(workers) -> None:
    ends, over, seen = threading.Event(), threading.Event(), threading.Event()

    def put_away() -> None:
        ends.set()
        over.wait(PATIENCE)

    broken = MagicMock(alive=False, put_away=put_away)
    workers._all.add(broken)
    returning = threading.Thread(target=workers._back, args=(broken,))
    returning.start()
    assert ends.wait(PATIENCE)
    threading.Thread(target=lambda: workers.pids or seen.set(), daemon=True).start()
    free = seen.wait(5)
    over.set()
    returning.join(PATIENCE)
    assert free
