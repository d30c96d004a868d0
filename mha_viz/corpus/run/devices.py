"""A study on more than the model's own device: a process on each measures shards, or a cluster."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from mha_viz.checkpoints.device import devices_of
from mha_viz.corpus.measure.shard import Settings, Shard
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.worker import Plan, Task, Worker, checked
from mha_viz.corpus.store.address import is_address
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, StudyError

if TYPE_CHECKING:
    from mha_viz.corpus.run.cluster import Cluster

_TERMINATE_SECONDS = 5.0  # that a process has after SIGTERM
_MAX_AHEAD = 4  # shards for each process that may wait for an earlier one


class Devices:
    """The devices of this machine at work on one study, as `Cluster` is for several machines.

    `names` are as `devices_of` takes, and refuses, them.
    """

    def __init__(self, names: Sequence[str] | str, out: str | Path) -> None:
        self._devices = devices_of(names)
        self.folder = Path(out).absolute()

    connected = staticmethod(nullcontext)  # processes begin with the first shard that is missing

    def fill(
        self, model: AttentionModel, settings: Settings, tasks: Iterator[Task]
    ) -> Generator[Shard]:
        """Measure shards, and yield them in their order.

        This process reads one shard more than there are devices. Raises StudyError: a process dies.
        """
        first = next(tasks, None)
        if first is None:
            return
        with tempfile.TemporaryDirectory(prefix="mha_viz-") as shipped:
            plan = Path(shipped) / "plan"
            torch.save(Plan.of(model, settings), plan)
            with self._processes(plan) as processes:
                yield from _measured(processes, first, tasks)

    @contextmanager
    def _processes(self, plan: Path) -> Iterator[dict[Connection, str]]:
        """Begin a process for each device, by its end of a pipe; in the end, end all of them."""
        context = multiprocessing.get_context("spawn")  # a card is of no use to a forked process
        begun: list[SpawnProcess] = []
        ends: dict[Connection, str] = {}
        try:
            for device in map(str, self._devices):
                ours, theirs = context.Pipe()
                ends[ours] = device
                process = context.Process(target=_serve, args=(theirs, plan, device), daemon=True)
                process.start()
                begun.append(process)
                theirs.close()  # so that the end of the process is the end of the pipe
            yield ends
        finally:
            for end in ends:
                end.close()
            for process in begun:
                process.terminate()
            for process in begun:
                process.join(_TERMINATE_SECONDS)
                if process.is_alive():
                    process.kill()
                    process.join()

    def publish(self, *, now: bool = True) -> None:
        """Do nothing: the study lies where it was made."""

    def keep_for(self, study: Study) -> None:
        """Do nothing: there is no copy."""


def machines_of(
    cluster: str | None, devices: Sequence[str] | str | None, out: str | Path
) -> Cluster | Devices | None:
    """Make the cluster or the devices, where they are given."""
    if cluster is not None and devices is not None:
        raise ArgumentError(
            "Give cluster or devices, not both: a cluster shares out its own cards."
        )
    if cluster is None:
        if is_address(out):
            raise StudyError(
                f"{out} is an address, which takes a cluster (cluster=...): give a folder of this "
                "machine."
            )
        return None if devices is None else Devices(devices, out)
    from mha_viz.corpus.run.cluster import Cluster  # Ray comes with the extra `cluster`

    return Cluster(cluster, out)


def _measured(
    processes: dict[Connection, str], first: Task, tasks: Iterator[Task]
) -> Iterator[Shard]:
    """Give each process a shard, and another one as soon as it is done; yield them in order."""
    upcoming: Task | None = first
    number, early = first.number, dict[int, Shard]()  # of what is yielded next; after it
    idle, busy = list(processes), dict[Connection, int]()
    while upcoming is not None or busy:
        while idle and upcoming is not None:
            if upcoming.number - number > _MAX_AHEAD * len(processes):
                break
            end = idle.pop()
            with suppress(BrokenPipeError):  # a process that died: to be seen when it is waited for
                end.send(upcoming)
            busy[end] = upcoming.number
            upcoming = next(tasks, None)
        ready = wait(list(busy))
        for end in [end for end in busy if end in ready]:
            try:
                result = end.recv()
            except (EOFError, OSError) as error:  # an OSError, where it ended within a message
                raise StudyError(
                    f"The process on {processes[end]} ended before its part of the study was "
                    "done, by a lack of memory perhaps. What is complete of the study stays; the "
                    "same command goes on from there."
                ) from error
            early[busy.pop(end)] = checked(result)
            idle.append(end)
        while number in early:
            yield early.pop(number)
            number += 1


def _serve(tasks: Connection, plan: Path, device: str) -> None:
    """Measure on a device the shards that come through a pipe, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that began this one answers it
    # The file is that process's own, in a folder that no other user can write to.
    worker = Worker(replace(torch.load(plan, weights_only=False, mmap=True), device=device))
    with suppress(EOFError, BrokenPipeError):
        while True:
            tasks.send(worker.measure(tasks.recv()))
