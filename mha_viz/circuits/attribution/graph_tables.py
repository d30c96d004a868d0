"""Tables of the nodes and edges of a graph, made of the parts of sums that it keeps."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.circuits.attribution.residual_stream import on_cpu
from mha_viz.circuits.attribution.residual_sums import Parts
from mha_viz.core.record.fields import Token

KINDS = ("residual", "source", "MLP", "bias")


def part_rows(
    marked: Parts, columns: Mapping[str, Parts], weight: Tensor | None, **every: int
) -> pd.DataFrame:
    """Make a row for each marked part of one sum, in the order of `KINDS`.

    Columns: those of `every`, such as layer and level, the same in each row; kind; query, head and
    key (-1 where there is none); weight, that of attention (NaN likewise); and those of `columns`.
    Without `weight`, (head, query, key), all weights are NaN.
    """
    blocks = []
    for kind, name in zip(KINDS, ("residual", "heads", "mlp", "bias"), strict=True):
        mask = getattr(marked, name)
        index = [at.cpu().numpy() for at in mask.nonzero(as_tuple=True)]
        head, query, key = index if kind == "source" else (-1, index[0], -1)
        rows = {**every, "kind": kind, "head": head, "query": query, "key": key, "weight": np.nan}
        if kind == "source" and weight is not None:
            rows["weight"] = on_cpu(weight[mask]).double().numpy()
        values = {
            column: on_cpu(getattr(parts, name)[mask]).double().numpy()
            for column, parts in columns.items()
        }
        blocks.append(pd.DataFrame(rows | values))
    return pd.concat(blocks, ignore_index=True)


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
    edges = pd.concat([both, into], ignore_index=True)
    edges = edges.sort_values(["layer", "flow"], ascending=[False, False], ignore_index=True)
    return whole_numbers(edges[[*_COLUMNS, "contribution", "flow"]])


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
    nodes = pd.concat([table.reindex(columns=columns) for table in (first, inner, below)])
    grouped = nodes.groupby("node", as_index=False, sort=False)
    summed = grouped.agg({**dict.fromkeys(columns[1:-1], "first"), "flow": "sum"})
    summed.insert(5, "token", [tokens[int(at)].text for at in summed.position])
    return whole_numbers(summed)


def name_nodes(
    parts: pd.DataFrame,
    step: int | NDArray[np.int_],
    n_layers: int,
    heads: Mapping[tuple[int, int], str] | None = None,
    both: str = "attention bias",
) -> pd.DataFrame:
    """Add to parts of sums the names of source and target, and of what stands between: `through`.

    The parts are those of `part_rows` with level and layer, and pass `step` levels. Source and
    target are positions of the stream; through is a head, an MLP or biases, None for what stays in
    the stream. `heads` names some heads, others are "H3"; `both` names the biases of a sum that
    attention and MLP write into.
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
        f"out @{position}"
        if number == 2 * n_layers
        else f"L{number // 2} {'mid' if number % 2 else 'in'} @{position}"
        for number, position in zip(level.tolist(), at.tolist(), strict=True)
    ]


def whole_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Convert layers, heads and places to whole numbers, with <NA> where there is none."""
    for name in ("layer", "head", "query", "key", "position"):
        if name in table:
            column = table[name].astype("Int64")
            table[name] = column.mask(column < 0)
    return table
