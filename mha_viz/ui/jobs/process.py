"""Processes for heavy work, which run out of memory or crash alone.

They are no pool of a library. A worker of multiprocessing or pebble runs the `__main__` of the
server once more, which is Streamlit's page, and shares a lock with the others, so that one that the
system kills while it holds the lock stops them all. loky's does neither, but inherits the
environment with its secrets, and when one of its workers is killed, as Stop does, the work of all
the others ends (`python -m benchmarks.loky_pool` shows both). Nor are processes paused by SIGSTOP:
stopped, they would outlive the server.
"""

import atexit
import os
import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from mha_viz import errors
from mha_viz.errors import JobError, MhaVizError
from mha_viz.ui.jobs import child_process
from mha_viz.ui.jobs.calls import Call, Cancelled, CancelToken, Checkpoint, SharedFlag

GRACE_SECONDS = 1.0  # for a process to stop its computation before it is killed
IDLE_SECONDS = 90.0  # until an idle process ends: it holds 220 MB, with transformers 400
# Where models from the Hub lie on this machine.
_CACHES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME")
NO_MEMORY = (
    "This needs more memory than the server has for it: give fewer or shorter texts, or take a "
    "smaller model."
)


class NoProcessError(Exception):
    """An error where the system starts no process: the work has to be done here."""


class RemoteFault(Exception):
    """An unexpected error in another process; the text is its traceback."""


def failure(kind: str, value: Any) -> BaseException:
    """Return the error of a call that another process did not finish, by its `worker.outcome`."""
    if kind == "stopped":
        return Cancelled()
    if kind == "error":
        name, message = value
        error: MhaVizError = getattr(errors, name, MhaVizError)(message)
        return error
    return JobError(NO_MEMORY) if kind == "memory" else RemoteFault(value)


class Worker:
    """A process that runs one call at a time.

    `n_bytes` of memory may be taken beyond the libraries; `flag` is raised while it is to give way,
    None where it cannot see it. Raises NoProcessError: there is none to be had.
    """

    def __init__(self, n_bytes: int, flag: SharedFlag | None = None) -> None:
        arguments = [str(n_bytes), *([] if flag is None else [str(flag.number)])]
        files = () if flag is None else (flag.number,)
        caches = {name: os.environ[name] for name in _CACHES if name in os.environ}
        module = "mha_viz.ui.jobs.worker"
        try:
            self._process = child_process.start(module, *arguments, files=files, **caches)
        except OSError as error:
            raise NoProcessError(str(error)) from error
        self.models: frozenset[Checkpoint] = frozenset()  # of the latest call
        self.letting_go: threading.Timer | None = None
        self._saying, self._number, self._runs = threading.Lock(), 0, False

    @property
    def pid(self) -> int:
        """Number of the process in the system."""
        return self._process.pid

    def run(self, call: Call, stop: CancelToken, on_progress: Callable[..., object]) -> Any:
        """Run a call and return its result.

        `stop` tells whether somebody still waits for it; `on_progress` is called with how far it
        is, as the function tells it. Raises Cancelled: it was ended by `stop`. MhaVizError: the
        function's own error; JobError where it took too much memory or its process ended.
        RemoteFault: any other error of the function.
        """
        self._number, self._runs = self._number + 1, True
        self.models = frozenset(call.models)
        stop.add_callback(partial(self._end, self._number))
        order = pickle.dumps(call)
        try:
            with suppress(OSError, ValueError):  # it has ended, as will be heard
                self._say(self._number, order)
            kind, value = self._heard()
            while kind == "progress":
                on_progress(*value)
                kind, value = self._heard()
        finally:
            self._runs = False
        if kind in ("memory", "fault", "ended"):
            self.put_away()
        if kind == "done":
            return value
        raise self._error(kind, value, stop)

    def _error(self, kind: str, value: Any, stop: CancelToken) -> BaseException:
        if stop.is_set:
            return Cancelled()
        if kind != "ended":
            return failure(kind, value)
        return JobError(
            f"The process that computed this has ended (exit status {self._process.returncode}), "
            "perhaps for want of memory. All else goes on: try again, with fewer or shorter texts."
        )

    def _say(self, number: int, order: bytes | None) -> None:
        assert self._process.stdin is not None
        # Whoever ends a call does not wait for an order that the process may never read.
        if not self._saying.acquire(blocking=order is not None):
            return
        try:
            self._process.stdin.write(pickle.dumps((number, order)))
            self._process.stdin.flush()
        finally:
            self._saying.release()

    def _heard(self) -> tuple[str, Any]:
        assert self._process.stdout is not None
        try:
            kind, value = pickle.load(self._process.stdout)
        # ValueError: another thread has put it away, and closed what is read here.
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            return "ended", None
        return kind, value

    def _end(self, number: int) -> None:
        """End a call, and soon the process itself if the call does not end."""
        if not self._runs or number != self._number:
            return

        def unless_ended() -> None:
            if self._runs and number == self._number:
                child_process.kill(self._process)

        child_process.start_timer(GRACE_SECONDS, unless_ended)
        with suppress(OSError, ValueError):
            self._say(number, None)

    @property
    def alive(self) -> bool:
        """True while it can take another call."""
        return self._process.poll() is None

    def put_away(self) -> None:
        """End it, and wait until nothing of it is left."""
        child_process.terminate(self._process)

    def kill(self) -> None:
        """End it, and do not wait for that."""
        child_process.kill(self._process)


class Workers:
    """Processes for calls: kept for a while, each with the model that it has loaded.

    There are `most` at a time, with `n_bytes` of memory for each beyond the libraries.
    """

    def __init__(self, most: int, n_bytes: int) -> None:
        self.most, self.n_bytes = most, n_bytes
        self._changed = threading.Condition()
        self._all: set[Worker] = set()
        self._idle: list[Worker] = []
        self._flag = SharedFlag.create()
        atexit.register(self._kill)

    def run(self, call: Call, stop: CancelToken, on_progress: Callable[..., object]) -> Any:
        """Run a call as `Worker.run`, in a process that knows its models, another, or a new one."""
        worker = self._take(call)
        try:
            return worker.run(call, stop, on_progress)
        finally:
            self._back(worker)

    def prepare(self, call: Call) -> None:
        """Prepare a process that has imported what this call needs; return at once."""
        with self._changed:
            if self._all:  # there is one, or will be in a moment
                return
        threading.Thread(target=self._prepare, args=(call.imports(),), daemon=True).start()

    def _prepare(self, call: Call) -> None:
        with suppress(MhaVizError, NoProcessError, Cancelled):  # the work itself will say why
            self.run(call, CancelToken(), lambda *_: None)

    def set_paused(self, paused: bool) -> None:
        """Pause all of them between two blocks, for a while, or let them continue."""
        if self._flag is not None:
            self._flag.set(paused)

    @property
    def pids(self) -> tuple[int, ...]:
        """Numbers of all processes there are."""
        with self._changed:
            return tuple(worker.pid for worker in self._all)

    def put_away(self) -> None:
        """End all of them."""
        with self._changed:
            every, self._all, self._idle = self._all, set(), []
        for worker in every:
            worker.put_away()

    def _kill(self) -> None:
        """End all of them and wait for none, for this process ends, too.

        One that is being started just now ends by itself, as nobody speaks to it.
        """
        for worker in tuple(self._all):
            worker.kill()

    def _take(self, call: Call) -> Worker:
        with self._changed:
            # One that is being made ready is there sooner than a new one would be.
            self._changed.wait_for(lambda: self._idle or len(self._all) < self.most)
            while self._idle:
                with_models = [
                    idle_worker
                    for idle_worker in self._idle
                    if set(call.models) <= idle_worker.models
                ]
                worker = with_models[0] if with_models else self._idle[-1]
                self._idle.remove(worker)
                if worker.letting_go is not None:
                    worker.letting_go.cancel()
                if worker.alive:
                    return worker
                self._all.discard(worker)
            worker = Worker(self.n_bytes, self._flag)
            self._all.add(worker)
            return worker

    def _back(self, worker: Worker | None) -> None:
        with self._changed:
            if worker in self._all and worker.alive:
                self._idle.append(worker)
                worker.letting_go = child_process.start_timer(IDLE_SECONDS, self._let_go, worker)
                worker = None
            else:
                self._all.discard(worker)
            self._changed.notify()
        if worker is not None:
            worker.put_away()

    def _let_go(self, worker: Worker) -> None:
        with self._changed:
            if worker not in self._idle:  # somebody has just taken it
                return
            self._idle.remove(worker)
            self._all.discard(worker)
        worker.put_away()
