"""The way down from one token's state: which parts of each sum are kept, and what flows there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.circuits.shares import Shares
from mha_viz.circuits.sums import Sum

KINDS = ("residual", "source", "MLP", "bias")
Columns = dict[str, NDArray[Any]]


class Walk:
    """From the chosen token downwards, one sum after the other.

    Each part that is kept becomes a row: layer; target and source, 0 for the stream that enters the
    layer, 1 between attention and MLP, 2 behind the layer; kind, the number of one of `KINDS`;
    query, head and key (-1 where there is none); weight, that of attention (NaN likewise); share,
    in the sum; head_share, that of the part's whole head (NaN likewise); and flow.

    Attributes:
        cut: share of the chosen state that fell below the threshold so far.
        n_parts: rows so far.
    """

    def __init__(self, at: int, n: int, n_layers: int, threshold: float) -> None:
        """Begin behind the last layer.

        Args:
            at: the chosen token.
            n: how many tokens there are.
            n_layers: how many layers there are.
            threshold: the smallest share that is kept.
        """
        self.at, self.n, self.n_layers, self.threshold = at, n, n_layers, threshold
        self.cut, self.n_parts = 0.0, 0
        self._flow = np.zeros(n)
        self._flow[at] = 1.0
        self._reached = self._flow > 0
        self._biases = 0.0
        self._blocks: list[Columns] = []
        self._n_sums = self._by_norm = 0

    def places(self) -> list[int]:
        """The tokens whose sum is next."""
        return np.flatnonzero(self._reached).tolist()

    @property
    def kept(self) -> float:
        """The share of the chosen state that was followed to where the walk is, and to biases."""
        return float(self._flow.sum()) + self._biases

    def step(
        self,
        one: Sum,
        both: bool,
        found: Shares,
        pattern: Float[Tensor, "position head key"],
        seen: Bool[Tensor, "query key2"] | None,
    ) -> None:
        """Past one sum, at the tokens of `places`.

        Args:
            one: the sum.
            both: it is attention's and the MLP's.
            found: the shares there.
            pattern: the attention weights there.
            seen: which keys a query may see; None for all.
        """
        places = np.array(self.places(), dtype=int)
        flow, before = self._flow, self._biases
        self._flow, self._reached = np.zeros(self.n), np.zeros(self.n, dtype=bool)
        source = 1 if one.norms is None else 0
        target = 1 if one.norms is not None and not both else 2
        for kind, query, head, key, more in _parts(one, found, pattern, seen, places):
            kept = more["share"] >= self.threshold
            query, head, key = query[kept], head[kept], key[kept]
            block: Columns = {name: values[kept] for name, values in more.items()}
            block |= {"query": query, "head": head, "key": key}
            block["flow"] = flow[query] * block["share"]
            every = {"layer": one.layer, "source": source, "target": target, "kind": kind}
            block |= {name: np.full(len(query), value) for name, value in every.items()}
            self._blocks.append(block)
            self.n_parts += len(query)
            if KINDS[kind] == "bias":
                self._biases += float(block["flow"].sum())
            else:
                below = key if KINDS[kind] == "source" else query
                np.add.at(self._flow, below, block["flow"])
                self._reached[below] = True
        lost = flow.sum() - self._flow.sum() - (self._biases - before)
        self.cut += max(0.0, float(lost))
        self._n_sums += len(places)
        self._by_norm += int(found.by_norm.sum())

    def columns(self) -> Columns:
        """All rows so far, the chosen token's first."""
        return {
            name: np.concatenate([block[name] for block in self._blocks])
            for name in self._blocks[0]
        }

    def notes(self) -> tuple[str, ...]:
        """What to say about the shares."""
        if not self._by_norm:
            return ()
        return (
            f"At {self._by_norm} of {self._n_sums} places no part lies nearer to the sum than zero "
            "does; shares there are by norm.",
        )


def _parts(
    one: Sum, found: Shares, pattern: Tensor, seen: Tensor | None, places: NDArray[np.int_]
) -> Iterator[tuple[int, NDArray[np.int_], NDArray[np.int_], NDArray[np.int_], Columns]]:
    """Of each kind: queries, heads, keys, and the columns share, weight, head_share."""
    none = np.full(len(places), -1)
    unknown = np.full(len(places), np.nan)

    def single(share: Tensor) -> tuple[Any, ...]:
        more = {"share": _numbers(share), "weight": unknown, "head_share": unknown}
        return places, none, none, more

    yield 0, *single(found.residual)
    if one.norms is not None:
        heads = found.heads
        mask = torch.ones_like(heads, dtype=torch.bool)
        if seen is not None:
            mask &= seen[places.tolist(), : heads.shape[2]][:, None]
        row, head, key = (index.cpu().numpy() for index in mask.nonzero(as_tuple=True))
        whole = heads.sum(2, keepdim=True).expand_as(heads)
        more = {"share": heads[mask], "weight": pattern[mask], "head_share": whole[mask]}
        yield 1, places[row], head, key, {name: _numbers(v) for name, v in more.items()}
    if one.mlp is not None:
        yield 2, *single(found.mlp)
    if bool(one.bias.any()):
        yield 3, *single(found.bias)


def _numbers(values: Tensor) -> NDArray[np.float64]:
    return values.cpu().to(torch.float64).numpy()
