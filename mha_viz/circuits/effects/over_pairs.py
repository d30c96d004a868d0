"""Means over a task's pairs: of the attribution of a logit, its graph, and paths between heads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeVar

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.attribution.layout import Component
from mha_viz.circuits.attribution.logit_attribution import (
    Of,
    component_shares,
    component_table,
    logit_weights,
)
from mha_viz.circuits.attribution.prediction_graph import SHARE, PathsToLogit, checked, graph_of
from mha_viz.circuits.attribution.readout import readout
from mha_viz.circuits.attribution.signed_graph import PredictionGraph
from mha_viz.circuits.effects.behaviour import Behaviour, metric_of
from mha_viz.circuits.effects.experiment import PatchingExperiment
from mha_viz.circuits.effects.head_runs import z_of
from mha_viz.circuits.effects.path_effects import N_MEASURED, PathEffects
from mha_viz.circuits.effects.path_runs import PathRuns
from mha_viz.circuits.tasks.make_task import task_of
from mha_viz.circuits.tasks.task import Example, Task, targets_of
from mha_viz.core.attention.checks import Given, Number
from mha_viz.core.record.fields import Token
from mha_viz.core.reprs import count, table_html
from mha_viz.engine.head_changes import part_size
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions.importance import t_interval
from mha_viz.prediction.replay import OnProgress, Progress

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class TaskAttribution:
    """The logit of the right answer less that of the wrong one, as a sum over components."""

    model: str  # model, task: names of what was decomposed
    task: str
    components: tuple[Component, ...]  # as in `LogitAttribution`, the same ones for each pair
    by_pair: Float[Tensor, "example component"]  # each pair's shares, logits
    values: Float[Tensor, " example"]  # of each pair, the number that the model itself gave
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
        is_head = [component.kind == "head" for component in self.components]
        n_layers = 1 + max(component.layer or 0 for component in self.components)
        return self.shares[torch.tensor(is_head)].unflatten(0, (n_layers, -1))

    def table(self) -> pd.DataFrame:
        """Make a row for each component: component, kind, layer, head, share, low, high."""
        mean, low, high = (values.numpy() for values in self.interval)
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
    >>> attribution = task_attribution(model, mv.make_task(model, "closing", n_examples=4))
    >>> attribution.heads.shape, round(attribution.remainder, 3)
    (torch.Size([4, 8]), 0.0)
    >>> abs(attribution.sum() - attribution.value) < 1e-3, attribution.table().columns.tolist()[-3:]
    (True, ['share', 'low', 'high'])
    """

    def shares_of(pair: Example) -> tuple[tuple[Component, ...], Tensor, Tensor]:
        readouts = readout(model, pair.clean, pair.position)
        weights = logit_weights(readouts.logits, pair.right, pair.wrong, "logit")
        components, shares = component_shares(readouts, weights, readouts.W_U @ weights, "logit")
        return (
            components,
            shares,
            (readouts.logits[pair.right] - readouts.logits[pair.wrong]).detach(),
        )

    components, shares, values = zip(*_each_pair(model, task, shares_of, on_progress), strict=True)
    by_pair, values_by_pair = (
        torch.stack(of_pairs).double().cpu() for of_pairs in (shares, values)
    )
    return TaskAttribution(model.name, task.name, components[0], by_pair, values_by_pair)


@torch.no_grad()
def task_graph(
    model: AttentionModel,
    task: Task,
    on_progress: OnProgress | None = None,
    *,
    share: Given[Number] = SHARE,
    pins: Given[Sequence[str]] = (),
) -> PredictionGraph:
    """Draw the right answer of a task less the wrong one as a sum over paths, a mean over pairs.

    It is `prediction_graph` of each clean text at the answer's place. Edges carry means, and their
    contributions have a 95 % t-interval over pairs in the columns low and high. Pairs of one length
    that are answered at one place share positions; others are pooled, so that the graph tells
    layers and heads apart and has one position for all tokens. A flow is the mean of the pairs'
    flows within the edges kept.

    Args:
        model: the one that the task was made for.
        task: of `make_task`.
        on_progress: called with how many pairs are run, and of how many; an exception stops it.
        share: as for `prediction_graph`, of the mean contributions.
        pins: likewise; of pooled pairs only those at any token, such as "L2 H3 @*".

    Returns:
        PredictionGraph, in logits, with a row for each edge.

    Raises:
        ArgumentError: a task of another model, and what `prediction_graph` raises.
        AttentionUnavailableError: as `prediction_graph`.

    Source: as of `prediction_graph`.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> graph = task_graph(model, mv.make_task(model, "induction", n_examples=4), share=1)
    >>> abs(graph.path_sum + graph.final_bias - graph.value) < 1e-3
    True
    """
    chosen_pins = checked(share, pins)

    def paths_of(pair: Example) -> PathsToLogit:
        readouts = readout(model, pair.clean, pair.position)
        return PathsToLogit(model, readouts, pair.position, pair.right, pair.wrong)

    runs = _each_pair(model, task, paths_of, on_progress)
    pairs = count(len(runs), "pair")
    return graph_of(
        model,
        runs,
        float(share),
        chosen_pins,
        token="right answer",
        versus="wrong answer",
        tokens=shared_tokens(task.examples),
        text=f"{task.name}, mean over {pairs}",
        notes=tuple(model.notes),
    )


def _each_pair(
    model: AttentionModel,
    task: Task,
    measure: Callable[[Example], Result],
    on_progress: OnProgress | None,
) -> list[Result]:
    """Measure each pair of a model's task, and report how many are done."""
    task.check_model(model)
    progress, results = Progress(on_progress, len(task.examples)), list[Result]()
    for pair in task.examples:
        results.append(measure(pair))
        progress.add(1)
    return results


def shared_tokens(pairs: Sequence[Example]) -> tuple[Token, ...]:
    """Label each position by its token, or the first of several; one for all of several lengths."""
    if len({(len(pair.clean.tokens), pair.position) for pair in pairs}) > 1:
        return (Token("all tokens", -1),)
    tokens = []
    for column in zip(*(pair.clean.tokens for pair in pairs), strict=True):
        same = len({token.id for token in column}) == 1
        text = column[0].text if same else f"{column[0].text} …"
        tokens.append(Token(text, -1, is_special=column[0].is_special))
    return tuple(tokens)


@torch.inference_mode(False)
def task_paths(
    model: AttentionModel,
    task: Task | str,
    metric: str = "logit_difference",
    way: str = "direct",
    on_progress: OnProgress | None = None,
    *,
    n_measured: int = N_MEASURED,
) -> PathEffects:
    """Estimate the effects of all paths over a task's pairs, and measure the strongest.

    It is `path_effects` of each pair's clean and corrupt text, as means over the pairs, with a 95 %
    interval over them where a path is measured. A direct path of a family that `edge_effects`
    takes is an edge there, with the same effect and the same estimate as its method "eap".

    Args:
        model: the one that the task was made for.
        task: of `make_task`, or its name. Paths see `task.to_choose_on` alone.
        metric: as for `path_effects`; the right answer less the wrong one, at the answer's place.
        way: "direct" or "total".
        on_progress: called with how many pairs' paths are estimated, and of how many.
        n_measured: how many paths to measure at once, those with the largest estimates.

    Returns:
        PathEffects, means over pairs: (layer, head, layer, head, input).

    Raises:
        ArgumentError: a task of another model, and what `path_effects` raises.
        AttentionUnavailableError: as `path_effects`.

    Source: as of `path_effect`.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> task_paths(model, mv.make_task(model, "induction", n_examples=4))
    PathEffects(direct, logit_difference ..., mean over 2 pairs, 20 of 1,152 paths measured)
    """
    checked_metric, experiments = metric_of(metric), []
    part_size(model, model.parts[0])
    for pair in task_of(model, task).to_choose_on:
        with torch.no_grad():
            other = torch.cat(z_of(model, [pair.corrupt]))
        runs = PathRuns(model, targets_of([pair]), other, with_graph=checked_metric != "kl")
        right, wrong = torch.tensor([pair.right]), torch.tensor([pair.wrong])
        behaviour = Behaviour(checked_metric, right, wrong, runs.logits)
        experiments.append(PatchingExperiment(runs, behaviour))
    return PathEffects(experiments, way, n_measured, on_progress)
