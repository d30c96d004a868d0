"""Heavy work on a Ray cluster: the calls of processes here, on whichever machine has room."""

import pickle
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError

from mha_viz.corpus.run.cluster import connect
from mha_viz.errors import JobError
from mha_viz.ui.jobs import worker
from mha_viz.ui.jobs.calls import Call, Cancelled, CancelToken
from mha_viz.ui.jobs.process import GRACE, failure

LOOK = 0.2  # seconds between two looks at the progress of a call
_WITHIN = 30.0  # seconds in which an actor answers beside its call


class Runner:
    """An actor that runs a call and reports its progress beside it."""

    def __init__(self) -> None:
        self._progress: tuple[Any, ...] = ()
        self._cancelled = False

    def run(self, order: bytes) -> tuple[str, Any]:
        """Run a pickled call; return how it ended, and its result or error."""
        return worker.outcome(order, self._check, self._on_progress)

    def progress(self) -> tuple[Any, ...]:
        """Return the latest news of the call."""
        return self._progress

    def cancel(self) -> None:
        """End the call at its next block."""
        self._cancelled = True

    def _check(self) -> None:
        if self._cancelled:
            raise Cancelled

    def _on_progress(self, *values: Any) -> None:
        self._check()
        self._progress = values


class RayWorkers:
    """Actors of a cluster, one for each running call, with the interface of `process.Workers`.

    A model is loaded by its name on the machine that runs the call. A folder of a model therefore
    has to be one that all machines see under that name.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._connecting = threading.Lock()
        self._actors: set[Any] = set()

    def run(self, call: Call, stop: CancelToken, on_progress: Callable[..., object]) -> Any:
        """Return the result of a call; arguments and errors as of `process.Worker.run`.

        Raises StudyError: there is no cluster at the address.
        """
        with self._connecting:
            connect(self._address)
        # No more processors than the largest machine has.
        found = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
        n_cpus = max(1, min(call.threads, int(max(found, default=1))))
        options = {"num_cpus": n_cpus, "max_concurrency": 2, "max_restarts": 0}
        actor = ray.remote(Runner).options(**options).remote()
        self._actors.add(actor)
        try:
            result = actor.run.remote(pickle.dumps(call))
            kind, value = self._awaited(actor, result, stop, on_progress)
        except RayError as error:
            if stop.is_set:
                raise Cancelled from error
            raise JobError(
                "The machine of the cluster that computed this has gone, or has run out of memory. "
                "All else goes on: try again, with fewer or shorter texts."
            ) from error
        finally:
            self._actors.discard(actor)
            ray.kill(actor)
        if kind == "done":
            return value
        raise failure(kind, value)

    def _awaited(
        self, actor: Any, result: Any, stop: CancelToken, on_progress: Callable[..., object]
    ) -> tuple[str, Any]:
        """Wait for a call, hand its progress on, and end it soon after it was stopped."""
        end: float | None = None
        begun = False
        while not ray.wait([result], timeout=LOOK)[0]:
            if stop.is_set:
                if end is None:
                    actor.cancel.remote()
                    end = time.monotonic() + GRACE
                if time.monotonic() > end or not begun:
                    return "stopped", None
                continue
            news = actor.progress.remote()
            if ray.wait([news], timeout=_WITHIN if begun else LOOK)[0]:
                begun = True
                if values := ray.get(news):
                    on_progress(*values)
        kind, value = ray.get(result)
        return kind, value

    def prepare(self, call: Call) -> None:
        """Do nothing: an actor that waits for a click would take processors from others."""

    def set_paused(self, paused: bool) -> None:
        """Do nothing: other machines do not slow this one's pages down."""

    def put_away(self) -> None:
        """End all calls."""
        for actor in tuple(self._actors):
            with suppress(RayError):
                ray.kill(actor)
