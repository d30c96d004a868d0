"""The walk down from one token's state: the parts of each sum that it keeps, as nodes and edges."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.circuits.attribution.residual_sums import PartShares, ResidualSum
from mha_viz.core.record.fields import Token

KINDS = ("residual", "source", "MLP", "bias")
Columns = dict[str, NDArray[Any]]


class Walk:
    """A walk from the chosen token downwards, one sum after the other.

    Each part that is kept becomes a row: layer; level, of the stream that the sum gives (1 behind
    the first layer's attention, 2 behind its MLP, and so on); step, how many levels it passes;
    kind, one of `KINDS`; query, head and key (-1 where there is none); weight, that of attention
    (NaN likewise); share, in the sum; head_share, that of the part's whole head (NaN likewise);
    and flow.

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
        level = 2 * one.layer + (1 if one.norms is not None and not both else 2)
        for kind, query, head, key, more in _parts(one, found, pattern, seen, places):
            kept = more["share"] >= self.threshold
            query, head, key = query[kept], head[kept], key[kept]
            block: Columns = {name: values[kept] for name, values in more.items()}
            block |= {"query": query, "head": head, "key": key}
            block["flow"] = flow[query] * block["share"]
            every = {"layer": one.layer, "level": level, "step": 1 + both, "kind": kind}
            block |= {name: np.full(len(query), value) for name, value in every.items()}
            self._blocks.append(block)
            self.n_parts += len(query)
            if kind == "bias":
                self._biases += float(block["flow"].sum())
            else:
                below = key if kind == "source" else query
                np.add.at(self._flow, below, block["flow"])
                self._reached[below] = True
        lost = flow.sum() - self._flow.sum() - (self._biases - before)
        self.cut += max(0.0, float(lost))
        self._n_sums += len(places)
        self._by_norm += int(found.by_norm.sum())

    def parts(self) -> pd.DataFrame:
        """Return all rows so far, the chosen token's first, with the names of `name_nodes`."""
        columns = {
            name: np.concatenate([block[name] for block in self._blocks])
            for name in self._blocks[0]
        }
        return name_nodes(pd.DataFrame(columns), columns["step"], self.n_layers)

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
) -> Iterator[tuple[str, NDArray[np.int_], NDArray[np.int_], NDArray[np.int_], Columns]]:
    """Yield kind, queries, heads, keys, and columns share, weight, head_share."""
    none = np.full(len(places), -1)
    unknown = np.full(len(places), np.nan)

    def single(share: Tensor) -> tuple[Any, ...]:
        more = {"share": _numbers(share), "weight": unknown, "head_share": unknown}
        return places, none, none, more

    yield "residual", *single(found.residual)
    if one.norms is not None:
        heads = found.heads
        mask = torch.ones_like(heads, dtype=torch.bool)
        if seen is not None:
            mask &= seen[places.tolist(), : heads.shape[2]][:, None]
        row, head, key = (index.cpu().numpy() for index in mask.nonzero(as_tuple=True))
        whole = heads.sum(2, keepdim=True).expand_as(heads)
        more = {"share": heads[mask], "weight": pattern[mask], "head_share": whole[mask]}
        yield "source", places[row], head, key, {name: _numbers(v) for name, v in more.items()}
    if one.mlp is not None:
        yield "MLP", *single(found.mlp)
    if bool(one.bias.any()):
        yield "bias", *single(found.bias)


def _numbers(values: Tensor) -> NDArray[np.float64]:
    return values.cpu().to(torch.float64).numpy()


_COLUMNS = ["source", "target", "kind", "layer", "head", "query", "key", "weight", "share"]


def edge_table(parts: pd.DataFrame) -> pd.DataFrame:
    """Make a row for each edge of a walk's parts; see `FlowGraph`.

    A part that comes through a head is an edge into the head, and all that come through one head
    share an edge out of it; an MLP has an edge on either side, too.
    """
    inner = parts.kind.isin(["source", "MLP"])
    # Into heads and MLPs: the share is that of the part among the head's, or all of the MLP's.
    into = parts[inner].copy()
    into["contribution"] = into.share
    within = into.share / into.head_share.where(into.head_share > 0, 1.0)
    into["share"] = within.where(into.kind == "source", 1.0)  # of a silent head 0
    into["target"] = into.through
    into["kind"] = into.kind.replace({"MLP": "MLP input"})
    heads = parts[parts.kind == "source"]
    grouped = heads.groupby(["layer", "query", "head"], as_index=False, sort=False)
    out = grouped.agg(
        {"through": "first", "target": "first", "head_share": "first", "flow": "sum"}
    ).rename(columns={"through": "source", "head_share": "share"})
    out["kind"] = "head"
    straight = parts[parts.kind != "source"].copy()
    straight.loc[straight.kind.isin(["MLP", "bias"]), "source"] = straight.through
    both = pd.concat([straight, out])
    both["contribution"] = both.share
    found = pd.concat([both, into], ignore_index=True)
    found = found.sort_values(["layer", "flow"], ascending=[False, False], ignore_index=True)
    return whole_numbers(found[[*_COLUMNS, "contribution", "flow"]])


def node_table(
    parts: pd.DataFrame,
    from_stream: Sequence[str],
    top: tuple[int, float],
    tokens: Sequence[Token],
) -> pd.DataFrame:
    """Make a row for each node: node, kind, layer, head, position, token, and `flow` through it.

    `from_stream` are the kinds of parts that come from a position of the stream below; `top` is the
    position of the chosen token behind the last layer, and its flow.
    """
    query, is_source = parts["query"], parts.kind == "source"
    inner = parts[parts.kind != "residual"].assign(
        node=parts.through, position=query, kind=parts.kind.replace("source", "head")
    )
    below = parts[parts.kind.isin(from_stream)].assign(
        node=parts.source, position=parts.key.where(is_source, query), kind="residual", head=None
    )
    at, flow = top
    first = pd.DataFrame([dict(node=f"out @{at}", kind="residual", position=at, flow=flow)])
    columns = ["node", "kind", "layer", "head", "position", "flow"]
    whole = pd.concat([one.reindex(columns=columns) for one in (first, inner, below)])
    grouped = whole.groupby("node", as_index=False, sort=False)
    found = grouped.agg({**dict.fromkeys(columns[1:-1], "first"), "flow": "sum"})
    found.insert(5, "token", [tokens[int(at)].text for at in found.position])
    return whole_numbers(found)


def name_nodes(
    parts: pd.DataFrame,
    step: int | NDArray[np.int_],
    n_layers: int,
    heads: Mapping[tuple[int, int], str] | None = None,
    both: str = "attention bias",
) -> pd.DataFrame:
    """Add to parts of sums the names of source and target, and of what stands between: `through`.

    The parts have level, kind, layer, head, query and key, as of `Walk`, and pass `step` levels.
    Source and target are positions of the stream; through is a head, an MLP or biases, None for
    what stays in the stream. `heads` names some heads, others are "H3"; `both` names the biases of
    a sum that attention and MLP write into.
    """
    level, query = parts.level.to_numpy(int), parts["query"].to_numpy(int)
    below = parts.key.where(parts.kind == "source", parts["query"]).to_numpy(int)
    bias = np.where(level % 2 == 0, "MLP bias", "attention bias")
    bias = np.where(np.equal(step, 2), both, bias)
    columns = (parts.kind, parts.layer, parts["head"], parts["query"])
    through: list[str | None] = []
    for kind, layer, head, at, of_bias in zip(*map(list, columns), bias, strict=True):
        of_head = (heads or {}).get((layer, head), f"H{head}")
        inner = {"residual": None, "source": of_head, "MLP": "MLP", "bias": of_bias}[kind]
        through.append(None if inner is None else f"L{layer} {inner} @{at}")
    return parts.assign(
        source=_in_stream(level - step, below, n_layers),
        through=pd.Series(through, parts.index, object),
        target=_in_stream(level, query, n_layers),
    )


def _in_stream(level: NDArray[Any], at: NDArray[Any], n_layers: int) -> list[str]:
    """Name positions of the stream before layers, or between attention and MLP."""
    return [
        f"out @{place}"
        if one == 2 * n_layers
        else f"L{one // 2} {'mid' if one % 2 else 'in'} @{place}"
        for one, place in zip(level.tolist(), at.tolist(), strict=True)
    ]


def whole_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Convert layers, heads and places to whole numbers, with <NA> where there is none."""
    for name in ("layer", "head", "query", "key", "position"):
        if name in table:
            column = table[name].astype("Int64")
            table[name] = column.mask(column < 0)
    return table
