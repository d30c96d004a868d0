"""The walk down from one token's state: the parts of each sum that it keeps, as nodes and edges."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.circuits.decompose.residual_sums import PartShares, ResidualSum
from mha_viz.core.record.fields import Token

KINDS = ("residual", "source", "MLP", "bias")
Columns = dict[str, NDArray[Any]]


class Walk:
    """A walk from the chosen token downwards, one sum after the other.

    Each part that is kept becomes a row: layer; target and source, 0 for the stream that enters the
    layer, 1 between attention and MLP, 2 behind the layer; kind, the number of one of `KINDS`;
    query, head and key (-1 where there is none); weight, that of attention (NaN likewise); share,
    in the sum; head_share, that of the part's whole head (NaN likewise); and flow.

    Attributes:
        cut: share of the chosen state that fell below the threshold so far.
        n_parts: rows so far.
    """

    def __init__(self, at: int, n: int, n_layers: int, threshold: float) -> None:
        """Begin behind the last layer."""
        self.at, self.n, self.n_layers, self.threshold = at, n, n_layers, threshold
        self.cut, self.n_parts = 0.0, 0
        self._flow = np.zeros(n)
        self._flow[at] = 1.0
        self._reached = self._flow > 0
        self._biases = 0.0
        self._blocks: list[Columns] = []
        self._n_sums = self._by_norm = 0

    def places(self) -> list[int]:
        """Return the tokens whose sum is next."""
        return np.flatnonzero(self._reached).tolist()

    @property
    def kept(self) -> float:
        """The share of the chosen state that was followed to where the walk is, and to biases."""
        return float(self._flow.sum()) + self._biases

    def step(
        self,
        one: ResidualSum,
        both: bool,
        found: PartShares,
        pattern: Float[Tensor, "position head key"],
        seen: Bool[Tensor, "query key2"] | None,
    ) -> None:
        """Walk past one sum, at the tokens of `places`.

        `both` says that the sum is attention's and the MLP's; `pattern` and `found` are of these
        tokens.
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
        """Concatenate all rows so far, the chosen token's first."""
        return {
            name: np.concatenate([block[name] for block in self._blocks])
            for name in self._blocks[0]
        }

    def notes(self) -> tuple[str, ...]:
        """Return notes on the shares."""
        if not self._by_norm:
            return ()
        return (
            f"At {self._by_norm} of {self._n_sums} places no part lies nearer to the sum than zero "
            "does; shares there are by norm.",
        )


def _parts(
    one: ResidualSum,
    found: PartShares,
    pattern: Tensor,
    seen: Tensor | None,
    places: NDArray[np.int_],
) -> Iterator[tuple[int, NDArray[np.int_], NDArray[np.int_], NDArray[np.int_], Columns]]:
    """Yield the queries, heads, keys, and columns share, weight, head_share of each kind."""
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


_COLUMNS = ["source", "target", "kind", "layer", "head", "query", "key", "weight", "share"]


def edge_table(walk: Walk) -> pd.DataFrame:
    """Make a row for each edge; see `FlowGraph`.

    A part that comes through a head is an edge into the head, and all that come through one head
    share an edge out of it; an MLP has an edge on either side, too.
    """
    parts = _named_parts(walk)
    inner = parts.kind.isin(["source", "MLP"])
    # Into heads and MLPs: the share is that of the part among the head's, or all of the MLP's.
    into = parts[inner].copy()
    into["contribution"] = into.share
    within = into.share / into.head_share.where(into.head_share > 0, 1.0)
    into["share"] = within.where(into.kind == "source", 1.0)  # of a silent head 0
    into["target"] = into.inner
    into["kind"] = into.kind.replace({"MLP": "MLP input"})
    heads = parts[parts.kind == "source"]
    grouped = heads.groupby(["layer", "query", "head"], as_index=False, sort=False)
    out = grouped.agg(
        {"inner": "first", "target": "first", "head_share": "first", "flow": "sum"}
    ).rename(columns={"inner": "source", "head_share": "share"})
    out["kind"] = "head"
    straight = parts[parts.kind != "source"].copy()
    straight.loc[straight.kind.isin(["MLP", "bias"]), "source"] = straight.inner
    both = pd.concat([straight, out])
    both["contribution"] = both.share
    found = pd.concat([both, into], ignore_index=True)
    found = found.sort_values(["layer", "flow"], ascending=[False, False], ignore_index=True)
    return whole_numbers(found[[*_COLUMNS, "contribution", "flow"]])


def node_table(walk: Walk, tokens: Sequence[Token]) -> pd.DataFrame:
    """Make a row for each node; see `FlowGraph`."""
    parts = _named_parts(walk)
    below = np.where(parts.kind == "source", parts.key, parts["query"])
    residual = pd.DataFrame(
        {"node": parts.source, "position": below, "flow": parts.flow, "stage": parts.source_stage}
    )[parts.kind != "bias"]
    residual["layer"] = parts.layer
    residual["kind"] = "residual"
    inner = parts[parts.kind != "residual"].rename(columns={"inner": "node", "query": "position"})
    inner = inner.assign(
        kind=inner.kind.replace({"source": "head"}),
        head=inner["head"].where(inner.kind == "source"),
        stage=None,
    )
    names = ["node", "kind", "stage", "layer", "head", "position"]
    top = pd.DataFrame(
        [dict(node=f"out @{walk.at}", kind="residual", stage="out", position=walk.at, flow=1.0)]
    )
    whole = pd.concat([top, inner, residual]).reindex(columns=[*names, "flow"])
    found = whole.groupby("node", as_index=False, sort=False).agg(
        {**dict.fromkeys(names[1:], "first"), "flow": "sum"}
    )
    found.insert(6, "token", [tokens[int(at)].text for at in found.position])
    found["stage"] = found.stage.fillna("")
    order = found.layer.fillna(walk.n_layers).to_numpy()
    return whole_numbers(found.iloc[np.argsort(-order, kind="stable")].reset_index(drop=True))


def _named_parts(walk: Walk) -> pd.DataFrame:
    """Add to the walk's rows the names of the nodes at both ends, and of a head or MLP between."""
    columns = walk.columns()
    kinds = np.array(KINDS, dtype=object)[columns["kind"]]
    layer, query, middle = columns["layer"], columns["query"], columns["source"] == 1
    below = np.where(kinds == "source", columns["key"], query)
    above, rows = columns["target"], (kinds, layer, columns["head"], query, middle)
    named = {
        "kind": kinds,
        "source": residual_names(layer, middle, below, walk.n_layers),
        "source_stage": np.where(middle, "mid", "in"),
        "target": residual_names(layer + (above == 2), above == 1, query, walk.n_layers),
        "inner": list(map(inner_name, *(each.tolist() for each in rows))),
    }
    return pd.DataFrame(columns | named)


def inner_name(kind: str, layer: int, head: int, query: int, middle: bool) -> str | None:
    """Name the node between both ends of a part; None where there is none."""
    if kind == "residual":
        return None
    names = {"source": f"H{head}", "MLP": "MLP", "bias": f"{'MLP' if middle else 'attention'} bias"}
    return f"L{layer} {names[kind]} @{query}"


def residual_names(
    layers: NDArray[Any], middle: NDArray[Any], at: NDArray[Any], n_layers: int
) -> list[str]:
    """Name residual positions before layers, or between attention and MLP."""
    return [
        f"out @{place}" if layer == n_layers else f"L{layer} {'mid' if between else 'in'} @{place}"
        for layer, between, place in zip(layers, middle, at, strict=True)
    ]


def whole_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Convert layers, heads and places to whole numbers, with <NA> where there is none."""
    for name in ("layer", "head", "query", "key", "position"):
        if name in table:
            column = table[name].astype("Int64")
            table[name] = column.mask(column < 0)
    return table
