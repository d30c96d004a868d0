"""A study on several machines: actors of a Ray cluster, each with the model, measure its shards."""

import gc
import logging
import os
import pickle
import signal
import socket
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mha_viz.core.amounts import of_bytes
from mha_viz.corpus.measure.shard import Settings, Shard
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.worker import Plan, Task, Worker, checked
from mha_viz.corpus.sources.source import Item
from mha_viz.corpus.store.address import Address, is_address
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError, StudyError
from mha_viz.extras import require

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would tell its makers
os.environ.setdefault("RAY_DATA_USAGE_DISABLED", "1")
try:
    import ray
    from ray.data import ActorPoolStrategy, DataContext
    from ray.exceptions import RayError, RayTaskError
    from ray.util.annotations import RayDeprecationWarning
except ImportError:
    require("cluster", "A cluster", "Every machine needs them; a study without it needs none.")
    raise

_WINDOW_BYTES = 256 * 2**20  # of text that wait in Ray's store, at most, besides one shard
_SHARE_OF_STORE = 0.25  # that they may take: what does not fit is written to the disk
_ITEM_BYTES = 200  # of a text's number and place
_WORD_BYTES = 100  # of a word of a treebank
_BASE_MEMORY = 2 * 10**9  # that an actor takes for its libraries and for a batch
_MAX_ATTEMPTS = 3  # in a row that finish no shard
_MAX_RESTARTS = 4  # of one actor: a shard that kills whoever measures it must come to an end
_CONNECT_SECONDS = 10.0
_JOIN_SECONDS = 60.0  # Ray itself waits for them for two, too few on a busy machine
_DATA_THREADS = ("StreamingExecutor-", "ray-data-metadata-prefetch")  # as their names begin
_PUT_SECONDS = 600.0  # at least between two copies of a study at an address


class Cluster:
    """A Ray cluster at work on one study.

    The address is "auto" for the cluster that this machine belongs to, or "HOST:PORT" of its head;
    `out` is the study's folder on this machine, which alone writes to it, or its address. Of a
    study with an address, `folder` is a copy that this machine keeps meanwhile.
    """

    def __init__(self, address: str, out: str | Path) -> None:
        self._cluster = address
        self._address = Address(str(out)) if is_address(out) else None
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._put_at = time.monotonic()
        self.folder = Path(out).absolute()
        if self._address is not None:
            self._copy = tempfile.TemporaryDirectory(prefix="mha_viz-")
            self.folder = Path(self._copy.name)
            self._address.fetch(self.folder)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Connect Ray, and let errors name the study as the user does."""
        try:
            with _connection(self._cluster):
                yield
        except MhaVizError as error:
            if self._address is None:
                raise
            message = str(error).replace(str(self.folder), self._address.url)
            raise type(error)(message) from error

    def fill(
        self, model: AttentionModel, settings: Settings, tasks: Iterator[Task]
    ) -> Generator[Shard]:
        """Measure shards, and yield them in their order.

        They are read as the cluster gets on with them. Raises StudyError: no machine has room for
        an actor, or actors die again and again.
        """
        pool: _Pool | None = None
        for window in _windows(tasks, _window_bytes()):
            if pool is None:
                device = "cuda" if model.device.type == "cuda" else "cpu"
                pool = _Pool(Plan.of(model, settings, device))
            yield from pool.measured(window)
            gc.collect()  # what is left of a run of Ray's refers to itself, and holds its texts

    def publish(self, *, now: bool = True) -> None:
        """Put the study where it lies; unless it has to be `now`, not too often."""
        if self._address is not None and (now or time.monotonic() > self._put_at + _PUT_SECONDS):
            self._address.put(self.folder)
            self._put_at = time.monotonic()

    def keep_for(self, study: Study) -> None:
        """Keep the copy of a study with an address as long as it is used."""
        if self._copy is not None:
            weakref.finalize(study, self._copy.cleanup)


class _Actor(Worker):
    """A worker in a cluster, which is given its plan and its shards by Ray."""

    def __init__(self, shipped: Sequence[Any]) -> None:
        super().__init__(ray.get(shipped[0]))

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[bytes]]:
        """Measure some shards; return each, or the error in its place, as bytes."""
        return {"results": [pickle.dumps(self.measure(task)) for task in batch["task"]]}


class _Pool:
    """Actors for a study, as many as the cluster has room for.

    Each asks for as many CPUs as the study's settings have threads, for the memory that the model
    needs and, where the model is on a GPU, for one GPU. Reading asks for none: this process reads,
    so that actors may take all the CPUs of a cluster and nothing waits for one that is not left.
    """

    def __init__(self, plan: Plan) -> None:
        models = [model for model in (plan.model, plan.untrained) if model is not None]
        self._needs: dict[str, Any] = {
            "num_cpus": plan.settings.threads,
            "memory": _BASE_MEMORY + 3 * sum(model.n_bytes for model in models),
            "num_gpus": int(plan.device == "cuda"),
        }
        self._size = _room(self._needs)
        self._plan = ray.put(plan)

    def measured(self, tasks: Sequence[Task]) -> Iterator[Shard]:
        """Yield shards in their order; those of dead actors begin anew.

        Ray gives the shards of an actor or a machine that dies to another one by itself; what it
        gives up is tried once more.
        """
        done = attempts = 0
        while done < len(tasks):
            before = done
            try:
                for result in self._run(tasks[done:]):
                    yield checked(result)
                    done += 1
            except RayTaskError:  # what is no error of ours, as on one machine
                raise
            except RayError as error:
                attempts = 0 if done > before else attempts + 1
                if attempts == _MAX_ATTEMPTS:
                    reason = str(error).strip().partition("\n")[0].rstrip(".")
                    raise StudyError(
                        f"The cluster gave up {_MAX_ATTEMPTS} times ({reason}). What is complete "
                        "of the study stays; the same command goes on from there."
                    ) from error

    def _run(self, tasks: Sequence[Task]) -> Iterator[Shard | MhaVizError]:
        context = DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RayDeprecationWarning)  # of ray_remote_args_fn
            dataset = ray.data.from_items(
                [{"task": task} for task in tasks], override_num_blocks=len(tasks)
            ).map_batches(
                _Actor,
                fn_constructor_args=([self._plan],),
                batch_size=None,
                compute=ActorPoolStrategy(
                    min_size=1,  # who has nothing left to do makes room for who begins anew
                    max_size=max(self._size, len(tasks)),  # machines that join late have room
                    initial_size=min(self._size, len(tasks)),
                    max_tasks_in_flight_per_actor=2,
                ),
                ray_remote_args_fn=lambda: {"max_restarts": _MAX_RESTARTS},
                **self._needs,
            )
        # Not iter_batches: its threads would go on asking Ray after a study that was stopped.
        for bundle in dataset.iter_internal_ref_bundles():
            for block in ray.get(list(bundle.block_refs)):
                yield from map(pickle.loads, block["results"].to_pylist())


def _window_bytes() -> int:
    """Return how many bytes of text may wait in the smallest store of the cluster's machines."""
    stores = [
        node["Resources"]["object_store_memory"]
        for node in ray.nodes()
        if node["Alive"] and "object_store_memory" in node["Resources"]
    ]
    return min([_WINDOW_BYTES, *(int(_SHARE_OF_STORE * size) for size in stores)])


def _windows(tasks: Iterator[Task], most: int) -> Iterator[list[Task]]:
    """Split shards into lists that fit into Ray's store, which never holds the whole source."""
    window: list[Task] = []
    size = 0
    for task in tasks:
        window.append(task)
        size += sum(map(_bytes_of, task.items))
        if size >= most:
            yield window
            window, size = [], 0
    if window:
        yield window


def _bytes_of(item: Item) -> int:
    words = () if item.sentence is None else item.sentence.words
    return _ITEM_BYTES + len(item.text.encode()) + _WORD_BYTES * len(words)


def _room(needs: Mapping[str, Any]) -> int:
    """Count the actors that the machines of the cluster can hold; StudyError where it is none."""
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


@contextmanager
def _connection(address: str) -> Iterator[None]:
    """Connect Ray to a cluster; a connection of the caller's own is used, and stays."""
    if ray.is_initialized():
        yield
        return
    connect(address)
    try:
        yield
    finally:
        _await_threads()
        ray.shutdown()


def connect(address: str) -> None:
    """Connect Ray to a cluster, until it is shut down; where it is connected, leave it so.

    `address` is as for `Cluster`. Raises StudyError: there is no cluster.
    """
    if ray.is_initialized():
        return
    stop = signal.getsignal(signal.SIGTERM)  # Ray sets its own
    try:
        if address != "auto":  # Ray would wait for minutes where nothing listens
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
        ray.init(address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # of many kinds, by what is at the address
        raise StudyError(
            f"There is no Ray cluster at {address}: start its head with `ray start --head`, its "
            "other machines with `ray start --address HOST:PORT`, and give auto on a machine of "
            "it, or the address."
        ) from error
    if threading.current_thread() is threading.main_thread():  # where alone signals can be set
        signal.signal(signal.SIGTERM, stop)


def _await_threads() -> None:
    """Wait for Ray Data's threads: Ray ends the process where one calls it after the shutdown."""
    until = time.monotonic() + _JOIN_SECONDS
    for thread in threading.enumerate():
        if thread.name.startswith(_DATA_THREADS):
            thread.join(max(0.0, until - time.monotonic()))
