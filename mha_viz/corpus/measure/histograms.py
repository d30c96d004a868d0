"""Histograms of a head's scores over texts, in bins that are the same in every study."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mha_viz.core.metrics import METRICS

N_BINS = 64
_NATS = (0.0, 8.0)  # ln 2981: no text that a model reads here is spread out more
_LEAST, _MOST = 1e-3, 1e4  # of what grows with the text or with the model


def edges(metric: str) -> np.ndarray:
    """Return the limits of a metric's bins, float64 (65,); the outer bins are open.

    A metric between two limits has bins of one width, and so has one in nats, from 0 to 8. Others
    have no highest value: their bins grow by a constant factor from 0.001 to 10,000, and the first
    begins at 0.

    >>> edges("confidence")[[0, 32, 64]]
    array([0. , 0.5, 1. ])
    >>> edges("distance")[[0, 1, 64]]
    array([0.e+00, 1.e-03, 1.e+04])
    """
    low, high = METRICS[metric].limits
    if METRICS[metric].unit == "nats":
        low, high = _NATS
    if high is not None:
        return np.linspace(low, high, N_BINS + 1)
    return np.concatenate([[low], np.geomspace(_LEAST, _MOST, N_BINS)])


def histogram(scores: Mapping[str, np.ndarray]) -> pa.Table:
    """Count texts by bin: metric, layer, head, bin, n, without empty bins; NaN is not counted."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in ("layer", "head", "bin", "n")}
    metrics: list[str] = []
    for metric, values in scores.items():
        shape = (*values.shape[1:], N_BINS)
        bins = np.searchsorted(edges(metric)[1:-1], values, side="right")
        text, layer, head = np.isfinite(values).nonzero()
        place = np.ravel_multi_index((layer, head, bins[text, layer, head]), shape)
        counts = np.bincount(place, minlength=int(np.prod(shape))).reshape(shape)
        filled = counts.nonzero()
        for name, column in zip(found, (*filled, counts[filled]), strict=True):
            found[name].append(column)
        metrics += [metric] * len(filled[0])
    kinds = {"layer": np.int16, "head": np.int16, "bin": np.int16, "n": np.int64}
    columns = {name: np.concatenate(parts).astype(kinds[name]) for name, parts in found.items()}
    return pa.table({"metric": pa.array(metrics, pa.string()), **columns})


def histogram_quantiles(
    counts: pa.Table, metric: str, shape: tuple[int, int], shares: Sequence[float]
) -> np.ndarray:
    """Estimate quantiles of each head's texts from their counts, (share, layer * head).

    They are as exact as the bins are narrow; NaN where no text has the metric.
    """
    own = counts.filter(pc.field("metric") == metric)
    layer, head, place, n_there = (own[name].to_numpy() for name in ("layer", "head", "bin", "n"))
    in_bins = np.zeros((shape[0] * shape[1], N_BINS))
    in_bins[layer.astype(int) * shape[1] + head, place] = n_there
    limits, n = edges(metric), in_bins.sum(1)
    up_to = np.concatenate([np.zeros((len(n), 1)), in_bins.cumsum(1)], 1)
    found = np.full((len(shares), len(n)), np.nan)
    for one in n.nonzero()[0]:
        found[:, one] = np.interp(np.multiply(shares, n[one]), up_to[one], limits)
    return found
