"""Circuits of edges: the strongest that hang together, and what they carry on held-out pairs."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.effects.edge_effects import EdgeScores
from mha_viz.circuits.effects.edge_graph import Edges
from mha_viz.circuits.effects.edge_runs import EdgeRuns
from mha_viz.circuits.effects.over_pairs import shared_tokens
from mha_viz.core.amounts import format_number
from mha_viz.core.arguments import renamed
from mha_viz.core.reprs import count, table_html
from mha_viz.errors import ArgumentError
from mha_viz.prediction.replay import OnProgress, Progress

SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of all edges
N_RANDOM = 5  # circuits of each size
N_RESAMPLES = 2000
ENOUGH = 0.9
LEAST_ERRORS = 2  # standard errors that clean and corrupt must be apart


@renamed(kept="mask")
@dataclass(frozen=True, eq=False)
class EdgeCircuit:
    """A choice of edges, each on a path from the embedding to the logits."""

    scores: EdgeScores  # what it was chosen by
    mask: Edges  # (sender, receiver), whether the edge is in it

    @property
    def size(self) -> int:
        """The number of its edges."""
        return int(self.mask.sum())

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Sender and receiver of each edge, the strongest first."""
        table = self.table()
        return tuple(zip(table.sender, table.receiver, strict=True))

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its embedding, heads and MLPs, in order."""
        used = self.mask.any(1).tolist()
        return tuple(
            name for name, is_used in zip(self.scores.senders, used, strict=True) if is_used
        )

    def table(self) -> pd.DataFrame:
        """Make a row per edge, the strongest first; columns as of `EdgeScores.table`."""
        return self.scores.table(self.mask)

    def by_position(self) -> pd.DataFrame:
        """Split the estimate of each edge by position, the largest part first.

        Columns: sender, receiver, position, token, score: the parts of an edge sum to its estimate.
        The position is that of the query whose output changes; a key or a value may have been
        written before it. The token is the pairs' own, or "…" behind the first of several. Raises
        ArgumentError: pairs of several lengths, or scores without estimates.
        """
        scores, pairs = self.scores, self.scores.task.to_choose_on
        n = len(pairs[0].clean.tokens)
        if scores.by_position.shape[-1] != n or scores.method == "exact":
            raise ArgumentError(
                "Edges have no positions here: that takes estimates (method “eap” or “eap-ig”) and "
                "pairs of one length."
            )
        edges = scores.graph.table(self.mask)
        parts = edges.loc[edges.index.repeat(n)].assign(
            position=np.tile(np.arange(n), len(edges)),
            token=np.tile([token.text for token in shared_tokens(pairs)], len(edges)),
            score=scores.by_position[self.mask].flatten().numpy(),
        )
        return parts.sort_values("score", key=abs, ascending=False, ignore_index=True)

    def minimality(self, on_progress: OnProgress | None = None) -> pd.DataFrame:
        """Measure what each edge is worth to the circuit, on held-out pairs.

        Columns: sender, receiver, cost: the share of the behaviour that the circuit loses when that
        edge, too, carries the corrupt value. Edges near 0 could be left out one by one.
        `on_progress` is called with how many runs are done, and of how many.
        """
        at = self.mask.nonzero()
        without = self.mask.repeat(len(at) + 1, 1, 1)
        without[range(len(at)), at[:, 0], at[:, 1]] = False
        runs = self.scores.held_out
        values = runs.values(without, Progress(on_progress, len(without)))
        shares = _share(runs, values.mean(1))
        edges = self.scores.graph.table(self.mask)
        costs = edges.assign(cost=(shares[-1] - shares[:-1]).numpy())
        return costs.sort_values("cost", ascending=False, ignore_index=True)

    def __repr__(self) -> str:
        n_edges = self.scores.n_edges
        return f"EdgeCircuit({count(self.size, 'edge')} of {n_edges:,}, {len(self.nodes)} nodes)"

    def _repr_html_(self) -> str:
        return table_html(repr(self), self.table())


def edge_circuit(scores: EdgeScores, size: int) -> EdgeCircuit:
    """Keep the strongest edges by |score| with nothing dangling.

    As many of the strongest are taken as leave at most `size` edges once each that is on no path
    from the embedding to the logits is dropped. Circuits of growing sizes are nested.

    Args:
        scores: of `edge_effects`.
        size: the most edges that it may have, from 1 to all.

    Returns:
        EdgeCircuit, a choice of edges; with all of them it is the whole model.

    Raises:
        ArgumentError: a size out of range, or one below that of the smallest circuit.

    Source: Hanna et al. 2024, *Have faith in faithfulness*, for dropping what dangles.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> scores = mv.edge_effects(model, mv.make_task(model, "induction", n_examples=4))
    >>> circuit = edge_circuit(scores, 40)
    >>> circuit
    EdgeCircuit(... edges of 1,519, ... nodes)
    >>> "logits" in set(circuit.table().receiver)
    True
    >>> set(circuit.by_position().sender) == set(circuit.table().sender)
    True
    >>> circuit.minimality().columns.tolist()
    ['sender', 'receiver', 'cost']
    """
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= scores.n_edges:
        raise ArgumentError(f"size must be a whole number in 1..{scores.n_edges:,}, got {size!r}.")
    mask = scores.graph.strongest(scores.scores, size)
    if not bool(mask.any()):
        raise ArgumentError(
            f"No path from the embedding to the logits is among the strongest edges for a circuit "
            f"of {size}: ask for more edges."
        )
    return EdgeCircuit(scores, mask)


@dataclass(frozen=True, eq=False)
class EdgeCurve:
    """Faithfulness against size, on pairs that the scores have not seen.

    A value is (F - F_corrupt) / (F_clean - F_corrupt), where F is the mean metric over the pairs
    while every other edge carries the corrupt run's value: 1 is the whole behaviour, 0 none of it.
    """

    circuits: tuple[EdgeCircuit, ...]  # from small to large
    n_edges: int  # how many edges there are
    faithfulness: Float[Tensor, " circuit"]  # of each
    # low, high: its 95 % interval over the pairs, which are drawn again 2,000 times.
    low: Float[Tensor, " circuit"]
    high: Float[Tensor, " circuit"]
    # the same of all edges but the circuit's. Near 0 it is complete: nothing outside of it makes
    # the behaviour.
    complement: Float[Tensor, " circuit"]
    # faithfulness of random circuits of as many edges, nothing dangling.
    random: Float[Tensor, "circuit draw"]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of edges of each circuit."""
        return tuple(circuit.size for circuit in self.circuits)

    @property
    def area(self) -> float:
        """The area under faithfulness against the share of edges, from 0 to 1 by trapezoids.

        It is 1 where the smallest circuit does everything, and 0.5 of a straight line. (CPR of
        Mueller et al. 2025, *MIB*; theirs begins at the smallest circuit, this one at 0 edges.)
        """
        return self._integral(lambda values: values)

    @property
    def distance(self) -> float:
        """The area between faithfulness and 1, whichever is above: 0 is best (CMD, as above)."""
        return self._integral(lambda values: abs(1 - values))

    def size_for(self, enough: float = ENOUGH) -> int | None:
        """Return the size of the smallest circuit that is so faithful; None where none is."""
        both = zip(self.sizes, self.faithfulness.tolist(), strict=True)
        return next((size for size, value in both if value >= enough), None)

    def table(self) -> pd.DataFrame:
        """Make a row per circuit.

        Columns: edges, share, faithfulness, low, high, complement, random, random_high (mean and
        largest of the random circuits).
        """
        columns = {name: getattr(self, name).numpy() for name in ("faithfulness", "low", "high")}
        sizes = np.array(self.sizes)
        return pd.DataFrame(
            {"edges": sizes, "share": sizes / self.n_edges, **columns}
            | {"complement": self.complement.numpy()}
            | {"random": self.random.mean(1).numpy(), "random_high": self.random.amax(1).numpy()}
        )

    def _integral(self, of: Callable[[np.ndarray], np.ndarray]) -> float:
        share = np.array([0, *self.sizes]) / self.n_edges
        return float(np.trapezoid(of(np.array([0.0, *self.faithfulness.tolist()])), share))

    def __repr__(self) -> str:
        size = self.size_for()
        reached = "not reached" if size is None else f"reached with {count(size, 'edge')}"
        return f"EdgeCurve({len(self.circuits)} circuits, {ENOUGH} {reached}, area {self.area:.3f})"

    def _repr_html_(self) -> str:
        return table_html(repr(self), self.table())


def edge_faithfulness(
    scores: EdgeScores,
    sizes: Sequence[int] | None = None,
    on_progress: OnProgress | None = None,
    *,
    n_random: int = N_RANDOM,
    seed: int = 0,
) -> EdgeCurve:
    """Measure faithfulness against size, on the half of the pairs that the scores have not seen.

    Args:
        scores: of `edge_effects`.
        sizes: as for `edge_circuit`; 0.1 % to all of the edges if not given, less those below the
            smallest circuit.
        on_progress: called with how many circuits are run, and of how many.
        n_random: random circuits of each size, 1 or more.
        seed: of the random numbers.

    Returns:
        EdgeCurve: for each size the share of the behaviour that the circuit carries, 1 is all of
        it, with a 95 % interval, and those of random circuits.

    Raises:
        ArgumentError: sizes as for `edge_circuit`; fewer than one random circuit; or a behaviour
            whose clean and corrupt runs are less than two standard errors apart.

    Source: faithfulness and completeness as normalised by Marks et al. 2024, *Sparse feature
    circuits*; the shares of edges and the areas are those of Mueller et al. 2025, *MIB: a
    mechanistic interpretability benchmark*.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> scores = mv.edge_effects(model, mv.make_task(model, "induction", n_examples=4))
    >>> curve = edge_faithfulness(scores, [60, 1519], n_random=1)
    >>> round(float(curve.faithfulness[-1]), 3)
    1.0
    >>> curve.size_for(0.9) in curve.sizes, curve.table().edges.tolist() == list(curve.sizes)
    (True, True)
    """
    if n_random < 1:
        raise ArgumentError(f"n_random must be 1 or more, got {n_random}.")
    graph, runs = scores.graph, scores.held_out
    _check_behaviour(runs)
    if sizes is None:
        sets = [graph.strongest(scores.scores, int(edges * scores.n_edges)) for edges in SHARES]
        by_size = {
            int(edges.sum()): EdgeCircuit(scores, edges) for edges in sets if bool(edges.any())
        }
        circuits = tuple(by_size.values())
    else:
        circuits = tuple(edge_circuit(scores, size) for size in sorted(sizes))
    generator = random.Random(seed)
    progress = Progress(on_progress, len(circuits) * (2 + n_random))
    shares, bounds = [], []
    for circuit in circuits:
        random_sets = [graph.draw(circuit.size, generator) for _ in range(n_random)]
        both = [circuit.mask, graph.exists & ~circuit.mask]
        values = runs.values(torch.stack(both + random_sets), progress)
        shares.append(_share(runs, values.mean(1)))
        bounds.append(_interval(runs, values[0], seed))
    each, (low, high) = torch.stack(shares), torch.tensor(bounds).T
    return EdgeCurve(circuits, scores.n_edges, each[:, 0], low, high, each[:, 1], each[:, 2:])


def _share(runs: EdgeRuns, value: Float[Tensor, " setting"]) -> Float[Tensor, " setting"]:
    return (value - runs.corrupt.mean()) / (runs.clean.mean() - runs.corrupt.mean())


def _interval(runs: EdgeRuns, value: Float[Tensor, " pair"], seed: int) -> tuple[float, float]:
    """Return the middle 95 % of the share over pairs that are drawn again and again."""
    drawn = np.random.default_rng(seed).integers(runs.n, size=(N_RESAMPLES, runs.n))
    corrupt, size = runs.corrupt.numpy(), (runs.clean - runs.corrupt).numpy()
    shares = (value.numpy() - corrupt)[drawn].mean(1) / size[drawn].mean(1)
    low, high = np.percentile(shares, [2.5, 97.5])
    return float(low), float(high)


def _check_behaviour(runs: EdgeRuns) -> None:
    apart = runs.clean - runs.corrupt
    error = float(apart.std()) / runs.n**0.5
    if not abs(float(apart.mean())) > LEAST_ERRORS * error:
        raise ArgumentError(
            f"The metric is {format_number(runs.clean.mean())} on the clean texts and "
            f"{format_number(runs.corrupt.mean())} on the corrupt ones, with a standard error of "
            f"{format_number(error, digits=2)} for the difference: there is no behaviour to take a "
            "share of. Choose another task."
        )
