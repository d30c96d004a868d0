"""A worker of a study: it holds the model, measures shards and writes them to their place."""

import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mha_viz import errors
from mha_viz.checkpoints.untrained_copy import ModelParts, assemble, disassemble
from mha_viz.corpus.measure.shard import Settings, measure_shard
from mha_viz.corpus.sources.source import Item
from mha_viz.corpus.statistics.totals import write_shard
from mha_viz.corpus.store.address import Address
from mha_viz.corpus.store.manifest import versions, weights_hash
from mha_viz.corpus.store.storage import MANIFEST, read_manifest, shard_folder, writing
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError, StudyError


@dataclass(frozen=True)
class Task:
    """A shard to be measured."""

    number: int
    items: list[Item]


@dataclass(frozen=True)
class Work:
    """The part of a study that is missing, for those who measure it elsewhere."""

    model: AttentionModel  # whose heads are measured
    # makes the same with random weights; returns None where there is none
    untrained: Callable[[], AttentionModel | None]
    tasks: Iterator[Task]  # the shards, read as they are taken
    settings: Settings  # of the study


@dataclass(frozen=True)
class Plan:
    """The instructions for every worker."""

    folder: Path  # of the study, absolute
    address: str | None  # of the study instead, if it has one
    model: ModelParts  # whose heads are measured
    untrained: ModelParts | None  # the same with random weights, if there is one
    weights_sha256: str  # of the model
    device: str  # where it runs
    settings: Settings  # of the study
    versions: dict[str, str]  # of the libraries of the machine that asks

    @classmethod
    def of(cls, folder: Path, work: Work, device: str = "cpu", address: str | None = None) -> Self:
        """Return the plan of a study that has begun; makes the model with random weights."""
        untrained = work.untrained()
        return cls(
            folder,
            address,
            disassemble(work.model),
            None if untrained is None else disassemble(untrained),
            read_manifest(folder)["model"]["weights_sha256"],
            device,
            work.settings,
            versions(),
        )


class Worker:
    """A worker, in a process of its own: it holds the model, and measures and writes shards."""

    def __init__(self, plan: Plan) -> None:
        self._failed: MhaVizError | None = None
        try:
            self._prepare(plan)
        except MhaVizError as error:  # sent with the first shard: an actor that fails begins anew
            self._failed = error

    def _prepare(self, plan: Plan) -> None:
        self._plan = plan
        self._address = None if plan.address is None else Address(plan.address)
        for name, here in versions().items():  # other libraries may round otherwise
            if here != plan.versions[name]:
                raise StudyError(
                    f"The machine {platform.node()} has {name} {here}, and this one "
                    f"{plan.versions[name]}: install the same version on all machines of the "
                    "cluster."
                )
        if plan.address is None and not (plan.folder / MANIFEST).is_file():
            raise StudyError(
                f"The machine {platform.node()} does not see the study "
                f"{plan.folder}: give a folder that all machines of the cluster share under one "
                "name, or an address as s3://bucket/study."
            )
        self._model = assemble(plan.model, plan.device)
        if weights_hash(self._model.network) != plan.weights_sha256:
            raise StudyError(f"The weights of {plan.model.name} did not arrive whole: try again.")
        self._untrained = None
        if plan.untrained is not None:
            self._untrained = assemble(plan.untrained, plan.device)

    def result(self, task: Task) -> dict[str, Any]:
        """Measure and write a shard; return its number with its summary, or with the error."""
        try:
            if self._failed is not None:
                raise self._failed
            return {"number": task.number, "summary": self._measure(task)}
        except MhaVizError as error:
            return {"number": task.number, "error": [type(error).__name__, str(error)]}

    def _measure(self, task: Task) -> dict[str, Any]:
        plan = self._plan
        with plan.settings.in_threads():
            shard = measure_shard(self._model, task.items, plan.settings, untrained=self._untrained)
        # Whoever comes too late writes the same: another actor may have been given the shard when
        # this one was taken for dead.
        above = plan.folder if plan.address is None else None
        with (
            writing(plan.folder),
            tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=above) as draft,
        ):
            keep = plan.settings.keep_texts
            summary = write_shard(Path(draft), task.number, shard, keep_texts=keep)
            if self._address is not None:
                self._address.put_shard(Path(draft), task.number)
            else:
                made, final = (shard_folder(of, task.number) for of in (Path(draft), plan.folder))
                _move(made, final)
        return summary


def summary_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary in a worker's result, or raise the error that is in its place."""
    if "error" in result:
        kind, message = result["error"]
        raise getattr(errors, kind, StudyError)(message)
    summary: dict[str, Any] = result["summary"]
    return summary


def _move(made: Path, final: Path) -> None:
    """Give a shard its place, unless it has come there meanwhile."""
    final.parent.mkdir(exist_ok=True)
    try:
        if not final.exists():
            made.replace(final)
    except OSError:
        if not final.exists():
            raise
