"""Two heads side by side, by every measure that there is between heads."""

from __future__ import annotations

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics import METRICS


def compared(
    pattern: Float[Tensor, "2 query key"], z: Float[Tensor, "2 query d_head"] | None
) -> pd.Series[float]:
    """A number for each measure by its key: see `AttentionRecord.compare`.

    Args:
        pattern: (2, query, key), the weights of two heads.
        z: (2, query, d_head) of the same heads; None where it was not kept.
    """
    found = {}
    for key, metric in METRICS.items():
        held = z if "outputs" in metric.needs else pattern
        if metric.of == "pair" and held is not None:
            found[key] = float(metric.function(held[None])[0, 1])
    return pd.Series(found, dtype=float)
