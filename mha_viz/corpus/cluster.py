"""A study on several machines: actors of a Ray cluster, each with the model, measure its shards."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mha_viz import errors
from mha_viz.checkpoints.travelling import taken_apart
from mha_viz.core.amounts import of_bytes
from mha_viz.corpus.address import Address, is_address
from mha_viz.corpus.identity import versions
from mha_viz.corpus.shard import Settings
from mha_viz.corpus.source import Item
from mha_viz.corpus.storage import MANIFEST, read_manifest, read_shard
from mha_viz.corpus.study import Study
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError, StudyError

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would tell its makers
os.environ.setdefault("RAY_DATA_USAGE_DISABLED", "1")
try:
    import ray
    from ray.data import ActorPoolStrategy, DataContext
    from ray.exceptions import RayError, RayTaskError
    from ray.util.annotations import RayDeprecationWarning

    from mha_viz.corpus.worker import Plan, Task, Worker
except ImportError as error:
    raise StudyError(
        'A study on a cluster needs Ray: pip install "mha-viz[cluster]" on every machine of it. '
        "Without cluster, the study runs on this machine."
    ) from error

_WINDOW = 256 * 2**20  # bytes of text that wait in Ray's store, at most, besides one shard
_ITEM_BYTES = 200  # of a text's number and place
_BASE_MEMORY = 2 * 10**9  # that an actor takes for its libraries and for a batch
_ATTEMPTS = 3  # in a row that finish no shard
_RESTARTS = 4  # of one actor: a shard that kills whoever measures it must come to an end
_LISTENS_WITHIN = 10.0  # seconds
_THREADS_WITHIN = 60.0  # seconds; Ray itself waits for them for two, too few on a busy machine
_DATA_THREADS = ("StreamingExecutor-", "ray-data-metadata-prefetch")  # as their names begin
_SEEN_WITHIN = 60.0  # seconds after which network file systems show what others have written


class Cluster:
    """A Ray cluster at work on one study.

    Args:
        address: "auto" for the cluster that this machine belongs to, or "HOST:PORT" of its head.
        out: the study's folder, which all machines share, or its address.

    Attributes:
        folder: of the study; of one with an address, a copy that this machine keeps meanwhile.
    """

    def __init__(self, address: str, out: str | Path) -> None:
        self._cluster = address
        self._address = Address(str(out)) if is_address(out) else None
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self.folder = Path(out).absolute()
        if self._address is not None:
            self._copy = tempfile.TemporaryDirectory(prefix="mha_viz-")
            self.folder = Path(self._copy.name)
            self._address.fetch(self.folder)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Within it Ray is connected, and errors name the study as the user does."""
        try:
            with _connection(self._cluster):
                yield
        except MhaVizError as error:
            if self._address is None:
                raise
            told = str(error).replace(str(self.folder), self._address.url)
            raise type(error)(told) from error

    def fill(
        self,
        model: AttentionModel,
        untrained: Callable[[], AttentionModel | None],
        missing: Iterable[tuple[int, list[Item]]],
        settings: Settings,
    ) -> Iterator[dict[str, Any]]:
        """Measure and write shards, and hand on what each says of itself, as they are finished.

        Args:
            model: whose heads are measured; actors take a GPU each where it is on one.
            untrained: gives the same with random weights, or None.
            missing: the shards: their numbers and texts, read as the cluster gets on with them.
            settings: of the study.

        Raises:
            StudyError: no machine of the cluster has what an actor needs; the folder is not shared;
                actors die again and again.
        """
        if self._address is not None:
            self._address.put(self.folder, [MANIFEST])  # from now on it holds this study
        pool: _Pool | None = None
        for window in _windows(Task(number, items) for number, items in missing):
            if pool is None:
                pool = _Pool(self._plan(model, untrained(), settings))
            yield from pool.measured(window, self._arrived)
        for draft in self.folder.glob(".*.part"):  # of actors that were killed
            shutil.rmtree(draft, ignore_errors=True)

    def publish(self) -> None:
        """Put the study's summaries, and then its description, where the study lies."""
        if self._address is not None:
            self._address.put(self.folder, [*read_manifest(self.folder)["files"], MANIFEST])

    def keep_for(self, study: Study) -> None:
        """Keep the copy of a study with an address as long as it is used."""
        if self._copy is not None:
            weakref.finalize(study, self._copy.cleanup)

    def _plan(
        self, model: AttentionModel, untrained: AttentionModel | None, settings: Settings
    ) -> Plan:
        return Plan(
            self.folder,
            None if self._address is None else self._address.url,
            taken_apart(model),
            None if untrained is None else taken_apart(untrained),
            read_manifest(self.folder)["model"]["weights_sha256"],
            "cuda" if model.device.type == "cuda" else "cpu",
            settings,
            versions(),
        )

    def _arrived(self, number: int) -> bool:
        """Whether a shard that an actor has written is complete where this machine looks."""
        if self._address is not None:
            self._address.fetch_shard(number, self.folder)
        return read_shard(self.folder, number) is not None


class _Pool:
    """Actors for a study, as many as the cluster has room for.

    Each asks for as many CPUs as the study's settings have threads, for the memory that the model
    needs and, where the model is on a GPU, for one GPU. Reading asks for none: this process reads,
    so that actors may take all the CPUs of a cluster and nothing waits for one that is not left.
    """

    def __init__(self, plan: Plan) -> None:
        models = [one for one in (plan.model, plan.untrained) if one is not None]
        self._needs: dict[str, Any] = {
            "num_cpus": plan.settings.threads,
            "memory": _BASE_MEMORY + 3 * sum(one.n_bytes for one in models),
            "num_gpus": int(plan.device == "cuda"),
        }
        self._size = _room(self._needs)
        self._plan = ray.put(plan)

    def measured(
        self, tasks: Sequence[Task], arrived: Callable[[int], bool]
    ) -> Iterator[dict[str, Any]]:
        """What each shard says of itself, as actors finish them; those of dead actors begin anew.

        Ray gives the shards of an actor or a machine that dies to another one by itself; what it
        gives up is tried once more.
        """
        left = {task.number: task for task in tasks}
        attempts = 0
        while left:
            before = len(left)
            try:
                for told in self._run(list(left.values())):
                    if "error" in told:
                        raise _error(*told["error"])
                    _wait_for(told["number"], arrived)
                    del left[told["number"]]
                    yield told["summary"]
            except RayTaskError:  # what is no error of ours, as on one machine
                raise
            except RayError as error:
                attempts = 0 if len(left) < before else attempts + 1
                if attempts == _ATTEMPTS:
                    reason = str(error).strip().partition("\n")[0].rstrip(".")
                    raise StudyError(
                        f"The cluster gave up {_ATTEMPTS} times ({reason}). What is complete of "
                        "the study stays; the same command goes on from there."
                    ) from error

    def _run(self, tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
        context = DataContext.get_current()
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RayDeprecationWarning)  # of ray_remote_args_fn
            dataset = ray.data.from_items(
                [{"task": task} for task in tasks], override_num_blocks=len(tasks)
            ).map_batches(
                Worker,
                fn_constructor_args=([self._plan],),
                batch_size=None,
                compute=ActorPoolStrategy(
                    min_size=1,  # who has nothing left to do makes room for who begins anew
                    max_size=self._size,
                    initial_size=min(self._size, len(tasks)),
                    max_tasks_in_flight_per_actor=2,
                ),
                ray_remote_args_fn=lambda: {"max_restarts": _RESTARTS},
                **self._needs,
            )
        # Not iter_batches: its threads would go on asking Ray after a study that was stopped.
        for bundle in dataset.iter_internal_ref_bundles():
            for block in ray.get(list(bundle.block_refs)):
                yield from map(json.loads, block["told"].to_pylist())


def _windows(tasks: Iterator[Task]) -> Iterator[list[Task]]:
    """Shards in lists that the cluster's store can hold: the source is never there as a whole."""
    window: list[Task] = []
    size = 0
    for task in tasks:
        window.append(task)
        size += sum(_ITEM_BYTES + len(item.text) for item in task.items)
        if size >= _WINDOW:
            yield window
            window, size = [], 0
    if window:
        yield window


def _room(needs: Mapping[str, Any]) -> int:
    """How many actors the machines of the cluster can hold.

    Raises:
        StudyError: none.
    """
    names = {"num_cpus": "CPU", "memory": "memory", "num_gpus": "GPU"}
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    room = sum(
        min(int(has.get(names[key], 0) // need) for key, need in needs.items() if need)
        for has in machines
    )
    if not room:
        threads, gpu = needs["num_cpus"], " and a GPU" if needs["num_gpus"] else ""
        raise StudyError(
            f"No machine of the cluster has {threads} CPUs{gpu} and "
            f"{of_bytes(needs['memory'])} of memory for this model and the {threads} threads "
            "of this machine: add such a machine, or begin a study with fewer threads "
            "(OMP_NUM_THREADS=1)."
        )
    return room


def _wait_for(number: int, arrived: Callable[[int], bool]) -> None:
    """A network file system may show a moment later what another machine has written."""
    until = time.monotonic() + _SEEN_WITHIN
    while not arrived(number):
        if time.monotonic() > until:
            raise StudyError(
                f"Part {number:05d} of the study was written, but this machine does not see it: "
                "give a folder that all machines of the cluster share under one name."
            )
        time.sleep(0.5)


def _error(kind: str, message: str) -> MhaVizError:
    """An error of an actor, of the same class."""
    found = getattr(errors, kind, StudyError)
    return found(message)


@contextmanager
def _connection(address: str) -> Iterator[None]:
    """Ray connected to a cluster; a connection of the caller's own is used, and stays."""
    if ray.is_initialized():
        yield
        return
    stop = signal.getsignal(signal.SIGTERM)  # Ray sets its own
    try:
        _check_listens(address)
        ray.init(address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # of many kinds, by what is at the address
        raise StudyError(
            f"There is no Ray cluster at {address}: start its head with `ray start --head`, its "
            "other machines with `ray start --address HOST:PORT`, and give auto on a machine of "
            "it, or the address."
        ) from error
    try:
        _restore(stop)
        yield
    finally:
        _await_threads()
        ray.shutdown()


def _await_threads() -> None:
    """Ray Data's own threads end: Ray ends the process where one calls it after the shutdown."""
    until = time.monotonic() + _THREADS_WITHIN
    for thread in threading.enumerate():
        if thread.name.startswith(_DATA_THREADS):
            thread.join(max(0.0, until - time.monotonic()))


def _check_listens(address: str) -> None:
    """Somebody listens at HOST:PORT; Ray would ask for minutes.

    Raises:
        OSError, ValueError: nobody, or another kind of address.
    """
    if address != "auto":
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=_LISTENS_WITHIN).close()


def _restore(stop: Any) -> None:
    """What SIGTERM does is what it did before; signals can be set in the main thread alone."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)
