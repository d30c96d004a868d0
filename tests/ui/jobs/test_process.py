"""Heavy work in other processes: the same results, and whatever goes wrong stays there."""

import os
import signal
import subprocess
import sys
import threading
from functools import partial

import pytest

from mha_viz.errors import JobError, TextError
from mha_viz.ui.jobs import calls, process, worker
from mha_viz.ui.jobs.calls import Call, Cancelled, CancelToken, Checkpoint
from mha_viz.ui.jobs.process import RemoteFault, Workers
from tests.ui.jobs import calls_for_tests as ours
from tests.waiting import wait_for

pytestmark = pytest.mark.slow
LONG = 120  # seconds until a test counts as hanging
GIB = 2**30


@pytest.fixture(scope="module")
def workers():
    """One process for all tests that leave it alive."""
    every = Workers(1, 4 * GIB)
    yield every
    every.put_away()


@pytest.fixture(autouse=True)
def functions_of_tests(monkeypatch):
    monkeypatch.setattr(calls, "OURS", (*calls.OURS, "tests."))


def call(function, *args, progress_argument=None, **options):
    return Call(partial(function, *args), progress_argument, **options)


def run(workers, *given, **options):
    return workers.run(call(*given, **options), CancelToken(), lambda *news: None)


def gone(pid):
    """Once a process is no more, not even as one that nobody has waited for."""

    def ended():
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().split()[2] == "Z"
        except OSError:
            return True

    return wait_for(ended, f"the end of process {pid}", LONG)


def test_an_error_of_ours_arrives_as_itself_and_another_with_its_traceback(workers):
    with pytest.raises(TextError, match=r"^The text is empty\.$"):
        run(workers, ours.refuses)
    with pytest.raises(RemoteFault, match=r"in fails\n(.*\n)*ZeroDivisionError: a mistake of ours"):
        run(workers, ours.fails)


def test_it_knows_no_secrets_and_gives_way(workers, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    own = Workers(1, 4 * GIB)
    try:
        environment, nice, threads = run(own, ours.surroundings, threads=2)
    finally:
        own.put_away()
    assert "HF_TOKEN" not in environment and "secret" not in environment.values()
    assert nice >= min(os.nice(0) + 10, 19) and threads == 2


@pytest.mark.parametrize(
    "how", [ours.aborts, pytest.param(ours.is_killed, marks=pytest.mark.extended)]
)
def test_a_crash_takes_down_its_process_alone(workers, how):
    before = run(workers, ours.counts, 3, progress_argument="on_progress")
    with pytest.raises(JobError, match=r"has ended \(exit status -\d+\).*try again"):
        run(workers, how)
    assert gone(before)
    assert run(workers, ours.counts, 3, progress_argument="on_progress") not in (
        before,
        os.getpid(),
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems hold no process to its memory")
@pytest.mark.parametrize(
    "how", [pytest.param(ours.fills_memory, marks=pytest.mark.extended), ours.fills_torchs_memory]
)
def test_who_takes_too_much_memory_is_told_so(workers, how):
    with pytest.raises(JobError, match=r"needs more memory .* smaller model"):
        run(workers, how)
    assert run(workers, ours.counts, 1, progress_argument="on_progress")


def test_what_does_not_listen_is_ended_with_its_process(workers):
    stop, pids = CancelToken(), []

    def told(pid):
        if not pids:
            pids.append(pid)
            threading.Thread(target=stop.set).start()

    with pytest.raises(Cancelled):
        workers.run(call(ours.hears_nothing, progress_argument="on_progress"), stop, told)
    assert gone(pids[0])
    assert run(workers, ours.counts, 1, progress_argument="on_progress") != pids[0]


@pytest.mark.skipif(os.name != "posix", reason="processes see no common memory")
def test_a_process_stands_still_while_pages_are_run_and_then_goes_on(workers):
    pid = run(workers, ours.counts, 1, progress_argument="on_progress")
    workers.set_paused(True)
    found = []
    thread = threading.Thread(
        target=lambda: found.append(run(workers, ours.counts, 7, progress_argument="on_progress"))
    )
    thread.start()
    thread.join(0.5)
    assert not found
    workers.set_paused(False)
    thread.join(LONG)
    assert found == [pid]


@pytest.mark.skipif(os.name != "posix", reason="processes see no common memory")
def test_what_stands_still_can_be_stopped(workers):
    workers.set_paused(True)
    try:
        stop = CancelToken()
        threading.Timer(0.3, stop.set).start()
        with pytest.raises(Cancelled):
            workers.run(
                call(ours.goes_on, progress_argument="on_progress"), stop, lambda *news: None
            )
    finally:
        workers.set_paused(False)


def test_an_idle_process_is_let_go(monkeypatch):
    monkeypatch.setattr(process, "IDLE_SECONDS", 0.0)
    own = Workers(1, GIB)
    assert gone(run(own, ours.counts, 1, progress_argument="on_progress"))
    own.put_away()


def test_at_the_end_of_the_server_processes_are_ended_and_not_waited_for(monkeypatch):
    ends = []
    monkeypatch.setattr(process.atexit, "register", ends.append)
    own = Workers(2, GIB)
    workers = [own._take(call(ours.goes_on)) for _ in range(2)]
    waits = []
    for each in workers:
        monkeypatch.setattr(each._process, "wait", lambda *_: waits.append(1))
    [end] = ends
    end()
    assert all(gone(worker.pid) for worker in workers) and not waits
    monkeypatch.undo()
    own.put_away()


@pytest.mark.parametrize("closed", ["stdin", pytest.param("stdout", marks=pytest.mark.extended)])
def test_who_waits_for_a_process_that_is_put_away_hears_that_it_has_ended(closed):
    """Its streams may be closed by another thread, while they are used."""
    own = Workers(1, GIB)
    worker = own._take(call(ours.goes_on))

    def close(*_):
        getattr(worker._process, closed).close()
        worker.put_away()

    with pytest.raises(JobError, match="has ended"):
        worker.run(call(ours.goes_on, progress_argument="on_progress"), CancelToken(), close)
    with pytest.raises(JobError, match="has ended"):
        worker.run(
            call(ours.goes_on, progress_argument="on_progress"), CancelToken(), lambda *news: None
        )


_SERVER = """
import os, signal, threading
from functools import partial
from mha_viz.ui.jobs import calls
from mha_viz.ui.jobs.process import Workers
from mha_viz.ui.jobs.calls import CancelToken
from tests.ui.jobs import calls_for_tests as ours

calls.OURS += ("tests.",)
def told(pid):
    print(pid, flush=True)
    {ends}
Workers(1, 2**30).run(calls.Call(partial(ours.goes_on), "on_progress"), CancelToken(), told)
"""


@pytest.mark.parametrize(
    "ends",
    [
        "os.kill(os.getpid(), signal.SIGKILL)",
        pytest.param("raise SystemExit", marks=pytest.mark.extended),
    ],
)
def test_no_process_outlives_its_server(ends):
    server = subprocess.run(
        [sys.executable, "-c", _SERVER.format(ends=ends)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        timeout=LONG,
    )
    assert server.returncode in (0, -signal.SIGKILL)
    assert gone(int(server.stdout.split()[0]))


def test_model_of_keeps_one_checkpoint_with_and_without_random_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "_models", {})
    loaded: list[Checkpoint] = []

    def load(checkpoint: Checkpoint) -> object:
        loaded.append(checkpoint)
        assert all(other.name == checkpoint.name for other in worker._models)
        return object()

    monkeypatch.setattr(worker, "_loaded", load)
    plain = Checkpoint("a", "cpu", "float32", 3)
    random, other = plain._replace(random=True), plain._replace(name="b")
    models = [worker.model_of(checkpoint) for checkpoint in (plain, random)]
    assert worker.model_of(plain) is models[0] and loaded == [plain, random]
    worker.model_of(other)
    assert list(worker._models) == [other]
