"""Effects of edges: from each embedding, head and MLP to all that read what it writes."""

from functools import cached_property
from math import nan
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from torch import Tensor

from mha_viz.circuits.effects.behaviour import Metric
from mha_viz.circuits.effects.edge_estimates import estimates
from mha_viz.circuits.effects.edge_graph import Edges
from mha_viz.circuits.effects.edge_runs import (
    EDGE_METRICS,
    MAX_SETTINGS,
    EdgeRuns,
)
from mha_viz.circuits.tasks.make_task import task_of
from mha_viz.circuits.tasks.task import Task
from mha_viz.core.arguments import one_of
from mha_viz.core.reprs import table_html
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.interventions.importance import agreement, t_interval
from mha_viz.prediction.replay import OnProgress, Progress

Method = Literal["exact", "eap", "eap-ig"]
METHODS: tuple[Method, ...] = get_args(Method)
N_STEPS = 5
N_MEASURED = 50


class EdgeScores:
    """The effect of every edge on a task's metric: estimated, and measured where asked for.

    Made by `edge_effects`, on the half of the task's pairs that is to choose on.

    Attributes:
        model, task, metric, method: as they were given.
        graph: all edges; `graph.senders` and `graph.receivers` are their names.
        estimate, exact: float64 (sender, receiver), means over pairs; NaN where there is no edge,
            or none known.
        low, high: the 95 % t-interval over pairs of each that is measured.
        by_position: float64 (sender, receiver, position); `estimate` is the sum. By the
            query whose output changes (with recompute=False by where the receiver reads). One
            position stands for all where pairs differ in length.
    """

    def __init__(
        self,
        runs: EdgeRuns,
        task: Task,
        metric: Metric,
        method: Method,
        by_position: Float64[Tensor, "sender receiver position"],
    ) -> None:
        self.runs, self.model, self.graph = runs, runs.model, runs.graph
        self.task, self.metric, self.method = task, metric, method
        self.by_position, self.estimate = by_position, by_position.sum(-1)
        self.exact, self.low, self.high = self.estimate.new_full((3, *self.estimate.shape), nan)

    @property
    def senders(self) -> tuple[str, ...]:
        """The names of the rows: "embedding", "L3 H7", "MLP 4"."""
        return self.graph.senders

    @property
    def receivers(self) -> tuple[str, ...]:
        """The names of the columns: "L5 H1 key", "MLP 4", "logits"."""
        return self.graph.receivers

    @property
    def n_edges(self) -> int:
        """The number of all edges."""
        return int(self.graph.exists.sum())

    @property
    def n_measured(self) -> int:
        """The number of edges whose exact effect is known."""
        return int(self.exact.isfinite().sum())

    @property
    def scores(self) -> Float64[Tensor, "sender receiver"]:
        """The exact effect of each edge where it is measured, else its estimate."""
        return self.exact.where(self.exact.isfinite(), self.estimate)

    @property
    def agreement(self) -> float:
        """Spearman's rank correlation of the estimates with the exact effects measured so far."""
        return agreement(self.estimate, self.exact).rho

    @cached_property
    def held_out(self) -> EdgeRuns:
        """Runs of the pairs that the scores have not seen."""
        return EdgeRuns(self.model, self.task.held_out, self.metric)

    def measure(self, top: int | None = N_MEASURED, on_progress: OnProgress | None = None) -> None:
        """Measure the `top` edges with the largest scores exactly, each by a run; all if None.

        `on_progress` is called with how many are done, and of how many; an exception it raises
        stops the work, and what is done stays. Raises ArgumentError: a negative number.
        """
        if top is not None and top < 0:
            raise ArgumentError(f"top must be 0 or more, got {top}.")
        sizes = self.scores.abs().nan_to_num(0.0).where(self.graph.exists, -1.0).flatten()
        chosen = sizes.argsort(descending=True, stable=True)[: self.n_edges][:top]
        missing = chosen[self.exact.flatten()[chosen].isnan()]
        # Those of one receiver together: layers in which no edge is patched have one reader.
        missing = missing[(missing % len(self.receivers)).argsort()]
        progress = Progress(on_progress, len(chosen))
        progress.add(len(chosen) - len(missing))
        for part in missing.split(MAX_SETTINGS) if len(missing) else ():
            settings = torch.ones(len(part), self.exact.numel(), dtype=torch.bool)
            settings[range(len(part)), part] = False
            values = self.runs.values(settings.unflatten(1, self.exact.shape), progress)
            intervals = t_interval((values - self.runs.clean).T)
            for ends, of_part in zip((self.exact, self.low, self.high), intervals, strict=True):
                ends.view(-1)[part] = of_part

    def table(self, edges: Edges | None = None) -> pd.DataFrame:
        """Make a row per edge (of some of them, if given), the strongest first.

        Columns: sender, receiver, score, low, high, known, estimate, exact.
        """
        table = self.graph.table(
            self.graph.exists if edges is None else edges,
            score=self.scores,
            low=self.low,
            high=self.high,
            known=np.where(self.exact.isfinite(), "measured", "estimate").astype(object),
            estimate=self.estimate,
            exact=self.exact,
        )
        return table.sort_values("score", key=abs, ascending=False, ignore_index=True)

    def __repr__(self) -> str:
        return (
            f"EdgeScores({self.method}, {self.metric} {float(self.runs.clean.mean()):.4g}, corrupt "
            f"{float(self.runs.corrupt.mean()):.4g}, {self.n_measured:,} of {self.n_edges:,} edges "
            "measured)"
        )

    def _repr_html_(self) -> str:
        return table_html(repr(self), self.table().head(20))


def edge_effects(
    model: AttentionModel,
    task: Task | str,
    method: str = "eap-ig",
    metric: str = "logit_difference",
    on_progress: OnProgress | None = None,
    *,
    steps: int = N_STEPS,
    recompute: bool = True,
) -> EdgeScores:
    """Score every edge by what its corrupt value changes.

    An edge joins a sender (the embedding, a head, an MLP) with a receiver that reads the residual
    stream behind it: a head's query, key or value, an MLP, the logits. It is patched when the
    receiver alone reads what the sender writes in the corrupt run; all that follows is computed
    again. The effect is the metric then less that of the clean run, as a mean over pairs: negative
    where the edge helps under "logit_difference" and "log_probability".

    - "exact": each edge by a run of its own, many in a batch.
    - "eap": edge attribution patching, (corrupt - clean of the sender) . gradient at what the
      receiver reads, its norm included. One pass there and back for all edges.
    - "eap-ig": the same with the mean of the gradients of `steps` runs, whose embeddings are on the
      way from the corrupt to the clean ones.

    With `recompute`, attention is computed again with the query, key or value that the receiver
    would have (AtP*): the change of its z is exact at the clean run, and the gradient is that at z.
    A softmax that is flat at the clean run is not missed then.

    Args:
        model: a causal or masked model of one stack and norms before attention and MLP, whose
            residual stream is a plain sum: GPT-2, GPT-NeoX, Llama and their relatives.
        task: of `make_task`, or its name. Scores see `task.to_choose_on` alone.
        method: "exact", "eap" or "eap-ig".
        metric: "logit_difference" (right less wrong), "log_probability" (of the right token, nats)
            or "kl" (KL(clean || patched), nats).
        on_progress: called with how many passes or edges are done, and of how many.
        steps: of "eap-ig", 1 or more.
        recompute: whether attention is computed again; False is EAP as published.

    Returns:
        EdgeScores; `.measure(top=50)` measures the strongest exactly.

    Raises:
        ArgumentError: an unknown method, metric or task, a task of another model, pairs of texts of
            different lengths, steps below 1, or "eap" of "kl", whose gradient is 0 there.
        AttentionUnavailableError: a family whose readers do not read a sum of what was written.

    Source: Syed et al. 2023, *Attribution patching outperforms automated circuit discovery*; Hanna
    et al. 2024, *Have faith in faithfulness*, equation 4 (the shares here are the middles of the
    steps, theirs are k / steps); attention computed again: Kramár et al. 2024, *AtP\\**, 3.1.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> effects = edge_effects(model, mv.make_task(model, "induction", n_examples=4))
    >>> effects.measure(top=3)
    >>> effects
    EdgeScores(eap-ig, logit_difference ..., 3 of 1,519 edges measured)
    >>> effects.table().known.tolist()[:4]
    ['measured', 'measured', 'measured', 'estimate']
    """
    chosen_method = one_of("method", method, METHODS)
    chosen_metric = one_of("metric", metric, EDGE_METRICS)
    if chosen_method == "eap" and chosen_metric == "kl":
        raise ArgumentError(
            'The gradient of "kl" is 0 at the clean run, so that method="eap" scores nothing: take '
            '"eap-ig" or "exact".'
        )
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ArgumentError(f"steps must be a whole number of 1 or more, got {steps!r}.")
    task = task_of(model, task)
    runs = EdgeRuns(model, task.to_choose_on, chosen_metric)
    if chosen_method == "exact":
        nothing = torch.full((*runs.graph.exists.shape, 1), nan, dtype=torch.float64)
        scores = EdgeScores(runs, task, chosen_metric, chosen_method, nothing)
        scores.measure(None, on_progress)
        return scores
    # The middles of the steps from the corrupt embedding to the clean one.
    shares = [1.0] if chosen_method == "eap" else [(step + 0.5) / steps for step in range(steps)]
    progress = Progress(on_progress, len(shares) * len(runs.pairs))
    return EdgeScores(
        runs, task, chosen_metric, chosen_method, estimates(runs, shares, recompute, progress)
    )
