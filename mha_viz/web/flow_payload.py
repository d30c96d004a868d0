"""The graph of what flows into a token, packed for the browser component that draws it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mha_viz.web.labels import clean
from mha_viz.web.payload import pack

KINDS = ("residual", "source", "MLP", "bias")


def flow_payload(
    edges: pd.DataFrame,
    labels: Sequence[str],
    special: Sequence[bool],
    *,
    position: int,
    n_layers: int,
    threshold: float,
    start: float,
    title: str = "",
) -> bytes:
    """Pack all parts of a flow graph, from the chosen token downwards: a header and arrays.

    Levels number the residual positions of a token: 0 enters the first layer, an odd one lies
    between a layer's attention and its MLP. Arrays in the body, one after the other, a number for
    each part: share and weight (float32), level of the target, head, query and key (uint16), and
    kind (uint8), the number of one of `KINDS`. The browser's slider begins at `threshold` and
    stands at `start`; `title` is for screen readers.
    """
    parts = edges[edges.kind.isin(KINDS)]
    source, target = (edges[end].astype(str).str for end in ("source", "target"))
    one_sum = not target.contains(" mid @", regex=False).any()
    late = source.contains(" mid @| MLP ")[parts.index]
    level = 2 * parts.layer.to_numpy(int) + np.where(late | one_sum, 2, 1)
    kind = np.array([KINDS.index(name) for name in parts.kind], dtype=int)
    # What comes into a position has to stand after what leaves it: see flow_model.js.
    order = np.lexsort((-parts.flow.to_numpy(), -level))
    columns: list[NDArray[Any]] = [
        parts.contribution.to_numpy("<f4"),
        parts.weight.fillna(0.0).to_numpy("<f4"),
        level.astype("<u2"),
        *(parts[name].fillna(0).to_numpy("<u2") for name in ("head", "query", "key")),
        kind.astype("u1"),
    ]
    header = {
        "kind": "flow",
        "parts": len(parts),
        "layers": n_layers,
        "labels": [clean(label) for label in labels],
        "special": [int(flag) for flag in special],
        "position": position,
        "step": 2 if one_sum else 1,
        "threshold": threshold,
        "start": max(start, threshold),
        "title": clean(title, 200),
    }
    return pack(header, b"".join(np.ascontiguousarray(c[order]).tobytes() for c in columns))
