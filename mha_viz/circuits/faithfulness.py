"""How much of a behaviour some heads carry: alone, and when they alone are missing."""

from __future__ import annotations

import operator
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.circuits import circuit_file
from mha_viz.circuits.patching import Head
from mha_viz.circuits.task_runs import TaskRuns
from mha_viz.circuits.tasks import Task, make_task
from mha_viz.core.checks import Number
from mha_viz.core.output_file import write_file
from mha_viz.core.showing import table_html
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.interventions.importance import t_interval
from mha_viz.prediction.loss import OnProgress, Progress

if TYPE_CHECKING:
    import pandas as pd

N_RANDOM = 20
ENOUGH = 0.9  # of the behaviour, for a search to stop


@dataclass(frozen=True)
class Faithfulness:
    """How much of a task's behaviour some heads carry.

    The behaviour is the mean of logit(right) - logit(wrong) over the task's texts.

    Args:
        model, task, seed, n_examples: what was asked of whom; `make_task` draws the texts again.
        n_layers, n_heads: how many heads there are.
        heads: the choice, (layer, head), in the order given.
        whole, nothing: the behaviour with all heads, and with every head at its mean.
        alone: with every head outside of the choice at its mean.
        missing: with the choice at its means, and every other head as it is.
        random_alone, random_missing: the same of random choices of as many heads.
    """

    model: str
    task: str
    seed: int
    n_examples: int
    n_layers: int
    n_heads: int
    heads: tuple[Head, ...]
    whole: float
    nothing: float
    alone: float
    missing: float
    random_alone: tuple[float, ...]
    random_missing: tuple[float, ...]

    def share(self, value: float) -> float:
        """(value - nothing) / (whole - nothing): 1 is the whole behaviour, 0 none of it.

        NaN where the heads together add nothing to it.
        """
        size = self.whole - self.nothing
        return (value - self.nothing) / size if size > 0 else float("nan")

    def table(self) -> pd.DataFrame:
        """A row for each setting: the behaviour, its share, and for random choices an interval."""
        import pandas as pd

        rows: list[dict[str, object]] = [
            {"heads": name, "behaviour": value, "share": self.share(value)}
            for name, value in (
                ("all", self.whole),
                ("none", self.nothing),
                ("the choice alone", self.alone),
                ("all but the choice", self.missing),
            )
        ]
        for name, values in (
            ("as many at random, alone", self.random_alone),
            ("all but as many at random", self.random_missing),
        ):
            mean, low, high = (
                float(one) for one in t_interval(torch.tensor(values, dtype=torch.float64))
            )
            rows.append(
                {
                    "heads": name,
                    "behaviour": mean,
                    "share": self.share(mean),
                    "low": self.share(low),
                    "high": self.share(high),
                }
            )
        return pd.DataFrame(rows, columns=["heads", "behaviour", "share", "low", "high"])

    def save(self, path: str | Path) -> None:
        """Write it as JSON, which `load` opens again.

        Args:
            path: of the file.

        Raises:
            WriteError: it cannot be written.
        """
        write_file(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """The file that `save` writes, in memory."""
        return circuit_file.to_bytes(asdict(self))

    @classmethod
    def load(cls, path: str | Path) -> Faithfulness:
        """Open what `save` wrote; a file of anybody's is checked, number by number.

        Args:
            path: of the file.

        Raises:
            RecordError: it is none, of a later version, or contradicts itself.
        """
        return cls.from_bytes(circuit_file.read(Path(path)), str(path))

    @classmethod
    def from_bytes(cls, raw: bytes, file: str) -> Faithfulness:
        """Open a file that is in memory, as `load` does.

        Args:
            raw: what the file holds.
            file: what an error calls it.

        Raises:
            RecordError: as `load`.
        """
        return cls(**circuit_file.from_bytes({field.name for field in fields(cls)}, raw, file))

    def __repr__(self) -> str:
        return (
            f"Faithfulness({self.task}, {len(self.heads)} of {self.n_layers * self.n_heads} heads: "
            f"{self.share(self.alone):.0%} alone, {self.share(self.missing):.0%} without them)"
        )

    def _repr_html_(self) -> str:
        return table_html(repr(self), self.table(), "Share of the behaviour; 1 is all of it.")


def faithfulness(
    model: AttentionModel,
    task: Task | str,
    heads: Sequence[Sequence[int]],
    on_progress: OnProgress | None = None,
    *,
    n_random: int = N_RANDOM,
) -> Faithfulness:
    """How much of a behaviour remains when only some heads act, and when only they do not.

    A head that does not act gives its mean over other texts of the task, position by position: it
    still says what all such texts have in common, and nothing of the one at hand. MLPs always act.

    Args:
        model: a causal or masked model of one stack, through our attention function.
        task: of `make_task`, or its name.
        heads: the choice, (layer, head) pairs; at least one, and not all.
        on_progress: called with how much is done, and of how much; an exception stops the work.
        n_random: random choices of as many heads, 2 or more.

    Raises:
        ArgumentError: no such head or task, a task of another model, and what `make_task` raises.
        AttentionUnavailableError: as `make_task`.

    Source: Wang et al. 2023 (section 4: mean ablation, faithfulness), as the normalised share of
    Marks et al. 2024.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> task = mv.make_task(model, "closing", n_examples=3)
    >>> found = faithfulness(model, task, [(0, 1), (3, 6)], n_random=5)
    >>> found.whole > found.alone, len(found.random_alone)
    (True, 5)
    """
    task = _task_of(model, task)
    chosen = _checked(model, heads)
    if not 2 <= n_random <= 1000:
        raise ArgumentError(f"n_random must lie in 2..1000, got {n_random}.")
    generator = random.Random(task.seed)
    every = _every(model)
    choices = [chosen, *(generator.sample(every, len(chosen)) for _ in range(n_random))]
    alone = torch.stack([_only(model, choice) for choice in choices])
    all_on = torch.ones_like(alone[:1])
    kept = torch.cat([all_on, ~all_on, alone, ~alone])
    progress = Progress(on_progress, len(kept) * len(task.examples))
    found = TaskRuns(model, task).values(kept, progress).mean(1).tolist()
    whole, nothing, *rest = found
    alone_values, missing_values = rest[: len(choices)], rest[len(choices) :]
    return Faithfulness(
        *(model.name, task.name, task.seed, len(task.examples)),
        *(model.n_layers, model.n_heads, tuple(chosen)),
        *(whole, nothing, alone_values[0], missing_values[0]),
        random_alone=tuple(alone_values[1:]),
        random_missing=tuple(missing_values[1:]),
    )


@dataclass(frozen=True, eq=False)
class FoundHeads:
    """Heads by how much a behaviour loses without each, and what the first ones carry together.

    Args:
        order: all heads, the one with the largest effect first.
        effect: (layer, head), the behaviour less what is left of it without that head.
        share: share[n] is that of the behaviour with only the first n of `order` acting.
        heads: the fewest first heads that carry the share that was asked for.
    """

    order: tuple[Head, ...]
    effect: Float[Tensor, "layer head"]
    share: tuple[float, ...]
    heads: tuple[Head, ...]

    def __repr__(self) -> str:
        n = len(self.heads)
        first = ", ".join(f"L{layer} H{head}" for layer, head in self.heads[:3])
        return f"FoundHeads({n} of {len(self.order)} carry {self.share[n]:.0%}: {first}, ...)"


def find_heads(
    model: AttentionModel,
    task: Task | str,
    enough: Number = ENOUGH,
    on_progress: OnProgress | None = None,
) -> FoundHeads:
    """A choice of heads that carries a behaviour: greedily, by the effect of each.

    Heads are ranked by what the behaviour loses when each alone gives its mean; from the top, they
    are taken until they carry enough. It proposes and proves nothing: heads that stand in for each
    other have little effect alone. `faithfulness` tests what it finds.

    Args:
        model: as for `faithfulness`.
        task: as for `faithfulness`; test the result on one of another seed.
        enough: the share of the behaviour to carry, in (0, 1].
        on_progress: as for `faithfulness`.

    Raises:
        ArgumentError: `enough` out of range; heads that add nothing to the behaviour; and what
            `make_task` raises.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> found = find_heads(model, mv.make_task(model, "closing", n_examples=3), enough=0.5)
    >>> len(found.heads) < len(found.order) == 32
    True
    """
    if not 0 < enough <= 1:
        raise ArgumentError(f"enough must lie in (0, 1], got {enough}.")
    task, every = _task_of(model, task), _every(model)
    runs, n = TaskRuns(model, task), len(every)
    progress = Progress(on_progress, (2 * n + 2) * len(task.examples))
    all_on = torch.ones(1, model.n_layers, model.n_heads, dtype=torch.bool)
    without = torch.stack([~_only(model, [head]) for head in every])
    values = runs.values(torch.cat([all_on, without]), progress).mean(1)
    effect = (values[0] - values[1:]).reshape(model.n_layers, model.n_heads)
    order = [every[i] for i in torch.argsort(effect.flatten(), descending=True, stable=True)]
    first = torch.stack([_only(model, order[:count]) for count in range(n + 1)])
    carried = runs.values(first, progress).mean(1)
    size = float(carried[-1] - carried[0])
    if size <= 0:
        raise ArgumentError(
            f"The heads of {model.name} add nothing to “{task.name}” ({size:.3g} in the difference "
            "of logits): there is no circuit of them to find. Choose another task."
        )
    share = ((carried - carried[0]) / size).tolist()
    n_needed = next(i for i, value in enumerate(share) if value >= enough)
    return FoundHeads(tuple(order), effect, tuple(share), tuple(order[:n_needed]))


# -- inside ----------------------------------------------------------------------------------------


def _task_of(model: AttentionModel, task: Task | str) -> Task:
    if isinstance(task, str):
        return make_task(model, task)
    if task.model != model.name:
        raise ArgumentError(
            f"The task was made for {task.model}, whose tokens it has: make one for {model.name}."
        )
    return task


def _every(model: AttentionModel) -> list[Head]:
    return [(layer, head) for layer in range(model.n_layers) for head in range(model.n_heads)]


def _only(model: AttentionModel, heads: Sequence[Head]) -> Bool[Tensor, "layer head"]:
    kept = torch.zeros(model.n_layers, model.n_heads, dtype=torch.bool)
    for layer, head in heads:
        kept[layer, head] = True
    return kept


def _checked(model: AttentionModel, heads: Sequence[Sequence[int]]) -> list[Head]:
    """Heads as numbers, each once, at least one and not all."""
    try:
        pairs = [(operator.index(layer), operator.index(head)) for layer, head in heads]
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"heads must be (layer, head) pairs such as [(3, 7)], got {heads!r}."
        ) from error
    unknown = sorted(set(pairs) - set(_every(model)))
    if unknown:
        layer, head = unknown[0]
        raise ArgumentError(
            f"{model.name} has no L{layer} H{head}: layers are 0..{model.n_layers - 1} and heads "
            f"0..{model.n_heads - 1}."
        )
    if len(set(pairs)) < len(pairs) or not 0 < len(pairs) < model.n_layers * model.n_heads:
        raise ArgumentError(
            "heads must name at least one head, each once, and not all of them: of all or none "
            f"there is nothing to compare; got {len(pairs)}."
        )
    return pairs
