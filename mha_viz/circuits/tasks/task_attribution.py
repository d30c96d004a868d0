"""Logit attribution over a task: means over its pairs, with intervals."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.decompose.layout import Component
from mha_viz.circuits.decompose.logit_attribution import (
    Of,
    component_shares,
    component_table,
    logit_weights,
)
from mha_viz.circuits.decompose.readout import readout
from mha_viz.circuits.tasks.tasks import Task
from mha_viz.core.reprs import count, table_html
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions.importance import t_interval
from mha_viz.prediction.loss import OnProgress, Progress


@dataclass(frozen=True, eq=False)
class TaskAttribution:
    """The logit of the right answer less that of the wrong one, as a sum over components.

    Args:
        model, task: names of what was decomposed.
        components: as in `LogitAttribution`, the same ones for each pair.
        by_pair: each pair's shares, logits.
        values: of each pair, the number that the model itself gave.
    """

    model: str
    task: str
    components: tuple[Component, ...]
    by_pair: Float[Tensor, "example component"]
    values: Float[Tensor, " example"]
    of: ClassVar[Of] = "logit"

    @cached_property
    def interval(self) -> tuple[Tensor, Tensor, Tensor]:
        """Each component's mean share over the pairs, and the ends of its 95 % t-interval.

        The ends are NaN for one pair. Pairs of a template share its words: the interval is about
        other pairs of the same template.
        """
        return t_interval(self.by_pair)

    @property
    def shares(self) -> Float[Tensor, " component"]:
        """The mean share of each component."""
        return self.interval[0]

    @property
    def value(self) -> float:
        """The mean over the pairs of the number that the model gave."""
        return float(self.values.mean())

    def sum(self) -> float:
        """Sum the mean shares: the value but for rounding."""
        return float(self.shares.sum())

    @property
    def remainder(self) -> float:
        """The value minus the sum of shares, which is rounding."""
        return self.value - self.sum()

    @property
    def heads(self) -> Float[Tensor, "layer head"]:
        """The mean shares of the heads."""
        named = zip(self.components, self.shares, strict=True)
        found = {(one.layer, one.head): share for one, share in named if one.kind == "head"}
        n_heads = 1 + max(head for _, head in found if head is not None)
        return torch.stack([found[at] for at in sorted(found)]).reshape(-1, n_heads)

    def table(self) -> pd.DataFrame:
        """Make a row for each component: component, kind, layer, head, share, low, high."""
        mean, low, high = (one.numpy() for one in self.interval)
        return component_table(self.components).assign(share=mean, low=low, high=high)

    def __repr__(self) -> str:
        n = count(len(self.values), "pair")
        return (
            f"TaskAttribution({self.task}, mean over {n}: {self.value:.4g} = the sum of "
            f"{len(self.components)} shares)"
        )

    def _repr_html_(self) -> str:
        return table_html(repr(self), self.table(), "low, high: 95 % intervals over pairs.")


def task_attribution(
    model: AttentionModel, task: Task, on_progress: OnProgress | None = None
) -> TaskAttribution:
    """Compute what each component adds to the right answer of a task, as a mean over its pairs.

    It is `logit_attribution` of the right answer less the wrong one at the answer's place in each
    clean text. What one text shows may be of its words; an interval over pairs tells.

    Args:
        model: the one that the task was made for.
        task: of `make_task`.
        on_progress: called with how much is done, and of how much; an exception stops the work.

    Returns:
        TaskAttribution: each component's share of each pair, (example, component), in logits, and
        the means over pairs with a 95 % interval.

    Raises:
        ArgumentError: a task of another model.
        AttentionUnavailableError: as `logit_attribution`.

    Source: as of `logit_attribution`; means and intervals over pairs are ours.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> found = task_attribution(model, mv.make_task(model, "closing", n_examples=4))
    >>> found.heads.shape, round(found.remainder, 3)
    (torch.Size([4, 8]), 0.0)
    """
    task.check_model(model)
    progress = Progress(on_progress, len(task.examples))
    rows, values = list[Tensor](), list[Tensor]()
    components: tuple[Component, ...] = ()
    for example in task.examples:
        made = readout(model, example.clean, example.place)
        weights = logit_weights(made.logits, example.right, example.wrong, "logit")
        components, shares = component_shares(made, weights, made.W_U @ weights, "logit")
        rows.append(shares)
        values.append((made.logits[example.right] - made.logits[example.wrong]).detach().cpu())
        progress.add(1)
    return TaskAttribution(
        model.name,
        task.name,
        components,
        torch.stack(rows).double(),
        torch.stack(values).double(),
    )
