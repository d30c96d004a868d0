"""The parts that a walk kept, as the nodes and edges of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mha_viz.circuits.flow_parts import KINDS, Walk
from mha_viz.core.token import Token

_COLUMNS = ["source", "target", "kind", "layer", "head", "query", "key", "weight", "share"]


def edge_table(walk: Walk) -> pd.DataFrame:
    """A row for each edge; see `FlowGraph`.

    A part that comes through a head is an edge into the head, and all that come through one head
    share an edge out of it; an MLP has an edge on either side, too.

    Args:
        walk: that has come down to the input tokens.
    """
    parts = _parts(walk)
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
    return _whole_numbers(found[[*_COLUMNS, "contribution", "flow"]])


def node_table(walk: Walk, tokens: Sequence[Token]) -> pd.DataFrame:
    """A row for each node; see `FlowGraph`.

    Args:
        walk: that has come down to the input tokens.
        tokens: of the text.
    """
    parts = _parts(walk)
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
    return _whole_numbers(found.iloc[np.argsort(-order, kind="stable")].reset_index(drop=True))


def _parts(walk: Walk) -> pd.DataFrame:
    """The walk's rows with the names of the nodes at both ends, and of a head or MLP on the way."""
    columns = walk.columns()
    kinds = np.array(KINDS, dtype=object)[columns["kind"]]
    layer, query, middle = columns["layer"], columns["query"], columns["source"] == 1
    below = np.where(kinds == "source", columns["key"], query)
    above = columns["target"]
    return pd.DataFrame(
        columns
        | {
            "kind": kinds,
            "source": _residuals(layer, middle, below, walk.n_layers),
            "source_stage": np.where(middle, "mid", "in"),
            "target": _residuals(layer + (above == 2), above == 1, query, walk.n_layers),
            "inner": [
                _inner(*row)
                for row in zip(
                    *(each.tolist() for each in (kinds, layer, columns["head"], query, middle)),
                    strict=True,
                )
            ],
        }
    )


def _inner(kind: str, layer: int, head: int, query: int, middle: bool) -> str | None:
    """The name of the node between both ends of a part; None where there is none."""
    if kind == "residual":
        return None
    names = {"source": f"H{head}", "MLP": "MLP", "bias": f"{'MLP' if middle else 'attention'} bias"}
    return f"L{layer} {names[kind]} @{query}"


def _residuals(
    layers: NDArray[Any], middle: NDArray[Any], at: NDArray[Any], n_layers: int
) -> list[str]:
    return [
        f"out @{place}" if layer == n_layers else f"L{layer} {'mid' if between else 'in'} @{place}"
        for layer, between, place in zip(layers, middle, at, strict=True)
    ]


def _whole_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Layers, heads and places as whole numbers, with <NA> where there is none."""
    for name in ("layer", "head", "query", "key", "position"):
        if name in table:
            column = table[name].astype("Int64")
            table[name] = column.mask(column < 0)
    return table
