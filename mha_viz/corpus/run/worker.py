"""A worker of a study: it holds the model, measures shards and hands over their tables."""

import platform
from dataclasses import dataclass, replace
from functools import partial

from mha_viz.checkpoints.untrained_copy import ModelParts, assemble, disassemble, untrained_copy
from mha_viz.corpus.measure.shard import Settings, Shard, measure_shard
from mha_viz.corpus.sources.source import Item
from mha_viz.corpus.store.manifest import versions, weights_hash
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, MhaVizError, StudyError


@dataclass(frozen=True)
class Task:
    """A shard to be measured."""

    number: int
    items: list[Item]


@dataclass(frozen=True)
class Plan:
    """The instructions for every worker."""

    model: ModelParts  # whose heads are measured
    untrained: ModelParts | None  # the same with random weights, if there is one
    weights_sha256: str  # of the model
    device: str  # where it runs
    settings: Settings  # of the study
    versions: dict[str, str]  # of the libraries of the machine that asks

    @classmethod
    def of(cls, model: AttentionModel, settings: Settings, device: str = "cpu") -> "Plan":
        """Return the plan of a study that has begun; makes the model with random weights."""
        untrained = random_weights(model) if settings.baselines else None
        return cls(
            disassemble(model),
            None if untrained is None else disassemble(untrained),
            weights_hash(model.network),
            device,
            settings,
            versions(),
        )


class Worker:
    """A worker, in a process of its own: it holds the model, and measures shards."""

    def __init__(self, plan: Plan) -> None:
        self._failed: MhaVizError | None = None
        try:
            self._prepare(plan)
        except MhaVizError as error:  # sent with the first shard: an actor that fails begins anew
            self._failed = error

    def _prepare(self, plan: Plan) -> None:
        self._settings = plan.settings
        for name, installed in versions().items():  # other libraries may round otherwise
            if installed != plan.versions[name]:
                raise StudyError(
                    f"The machine {platform.node()} has {name} {installed}, and this one "
                    f"{plan.versions[name]}: install the same version on all machines of the "
                    "cluster."
                )
        self._model = assemble(plan.model, plan.device)
        if weights_hash(self._model.network) != plan.weights_sha256:
            raise StudyError(f"The weights of {plan.model.name} did not arrive whole: try again.")
        self._untrained = None
        if plan.untrained is not None:
            self._untrained = assemble(plan.untrained, plan.device)

    def measure(self, task: Task) -> Shard | MhaVizError:
        """Measure a shard; return the error in its place where it cannot be."""
        if self._failed is not None:
            return self._failed
        try:
            with self._settings.in_threads():
                shard = measure_shard(
                    self._model, task.items, self._settings, untrained=self._untrained
                )
                return replace(shard, make_tables=partial(dict, shard.tables))  # to be sent
        except MhaVizError as error:
            return error


def checked(result: Shard | MhaVizError) -> Shard:
    """Return a worker's result, or raise the error in its place."""
    if isinstance(result, MhaVizError):
        raise result
    return result


def random_weights(model: AttentionModel) -> AttentionModel | None:
    """Copy the architecture with random weights, where its config builds it."""
    if model.backend != "mha_viz":
        return None
    try:
        return untrained_copy(model)
    except ArgumentError:
        return None  # a network that was changed in memory: the study has no such baseline
