"""Tables of each head over all texts: profiles of its weight, and histograms of its scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.checks import exact
from mha_viz.corpus.measure.padded import KINDS, PaddedTexts, kinds_of_keys

FAR = 32  # offsets beyond are counted together
LATE = 128  # positions from here on, too
AT = {
    "offset": (f"<-{FAR}", *map(str, range(-FAR, FAR + 1)), f">{FAR}"),
    "position": (*map(str, range(LATE)), f">={LATE}"),
    "kind": KINDS,
}


@dataclass
class Profile:
    """Sums over the queries of all texts; they add up over batches and shards."""

    n_layers: int
    n_heads: int
    weight: dict[str, Tensor] = field(init=False)  # by axis: float64 (layer, head, bin)
    rows: dict[str, Tensor] = field(init=False)  # queries that see a key: int64 (layer, bin)

    def __post_init__(self) -> None:
        sizes = {axis: len(names) for axis, names in AT.items()}
        shape = self.n_layers, self.n_heads
        self.weight = {a: torch.zeros(*shape, n, dtype=torch.float64) for a, n in sizes.items()}
        self.rows = {a: torch.zeros(shape[0], n, dtype=torch.int64) for a, n in sizes.items()}

    def add(self, layer: int, weight: dict[str, Tensor], rows: dict[str, Tensor]) -> None:
        """Add one layer of one batch: what `weight_of` and `rows_of` give for it."""
        for axis in AT:
            self.weight[axis][layer] += weight[axis].cpu()
            self.rows[axis][layer] += rows[axis].cpu()

    def table(self) -> pa.Table:
        """Make a row for each layer, head, axis and bin: layer, head, axis, at, weight, rows."""
        parts = []
        for axis, names in AT.items():
            weight = self.weight[axis].numpy()
            layer, head, place = (at.ravel() for at in np.indices(weight.shape, dtype=np.int16))
            bins = {"axis": np.full(len(place), axis), "at": np.array(names)[place]}
            sums = {"weight": weight.ravel(), "rows": self.rows[axis].numpy()[layer, place]}
            parts.append(pa.table({"layer": layer, "head": head, **bins, **sums}))
        # stable: axes and bins as they stand
        order = [("layer", "ascending"), ("head", "ascending")]
        return pa.concat_tables(parts).sort_by(order).combine_chunks()


def weight_of(pattern: Tensor, texts: PaddedTexts) -> dict[str, Tensor]:
    """Sum the weight of a batch in each bin: axis -> (head, bin), on the layer's device."""
    n, device = pattern.shape[-1], pattern.device
    places = texts.once("offset bins", lambda: _offset_bins(n, device).flatten())
    by_key = exact(pattern.sum(-2))
    return {
        "offset": _by_bin(pattern.sum(0).flatten(1), places, len(AT["offset"])),
        "position": by_key.sum(0) @ texts.once("position bins", lambda: _position_bins(n, by_key)),
        "kind": _on_kinds(pattern, by_key, texts).sum(0),
    }


def _on_kinds(pattern: Tensor, by_key: Tensor, texts: PaddedTexts) -> Tensor:
    """Sum the weight on each of `KINDS` over queries and keys: (batch, head, kind)."""
    batch, heads, _, n = pattern.shape
    row, query, key = texts.same_pairs
    same = by_key.new_zeros(batch * n, heads)
    place = texts.once("keys of pairs", lambda: row * n + key)
    same = same.index_add_(0, place, exact(pattern[row, :, query, key]))
    same = same.unflatten(0, (batch, n)).mT
    itself = pattern.diagonal(0, -2, -1)
    others = (by_key - itself - same).clamp(min=0.0)
    of_kinds = texts.kinds_of_keys
    assert ("itself", "same token", *of_kinds) == KINDS
    keys = texts.once("keys of kinds", lambda: torch.stack([*of_kinds.values()], -1).to(others))
    sums = itself.sum(-1, dtype=same.dtype), same.sum(-1)
    return torch.cat([torch.stack(sums, -1), others @ keys], -1)


def _position_bins(n: int, like: Tensor) -> Tensor:
    """Return 1 for the bin of each position, 0 for others: (position, bin)."""
    late = torch.arange(n, device=like.device).clamp(max=LATE)
    return (late[:, None] == torch.arange(LATE + 1, device=like.device)).to(like.dtype)


def rows_of(texts: PaddedTexts, seen: Tensor) -> dict[str, Tensor]:
    """Count the queries of a batch that see a key of each bin: axis -> int64 (bin,)."""
    n = seen.shape[-1]
    places = _offset_bins(n, seen.device)
    first, last = 0, len(AT["offset"]) - 1
    offset = _by_bin(seen.sum(0).flatten()[None], places.flatten(), last + 1)[0]
    for end in (first, last):  # of several keys in one bin, a query needs to see any
        offset[end] = (seen & (places == end)).any(-1).sum()
    position = torch.zeros(len(AT["position"]), dtype=torch.int64, device=seen.device)
    position[: min(n, LATE)] = seen[..., :LATE].sum((0, 1))
    position[LATE] = seen[..., LATE:].any(-1).sum()
    kinds = kinds_of_keys(texts, seen)
    kind = torch.stack([kinds[name].any(-1).sum() for name in KINDS])
    found = {"offset": offset, "position": position, "kind": kind}
    return {axis: counts.long() for axis, counts in found.items()}


def _offset_bins(n: int, device: torch.device) -> Tensor:
    """Return the bin of each query and key, (n, n)."""
    at = torch.arange(n, device=device)
    return (at - at[:, None]).clamp(-FAR - 1, FAR + 1) + FAR + 1


def _by_bin(values: Tensor, bins: Tensor, n_bins: int) -> Tensor:
    """Add up the columns of (row, column) by bin: (row, bin)."""
    values = exact(values)
    return values.new_zeros(len(values), n_bins).index_add_(1, bins, values)


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
    parts = []
    for metric, values in scores.items():
        shape = (*values.shape[1:], N_BINS)
        bins = np.searchsorted(edges(metric)[1:-1], values, side="right")
        text, layer, head = np.isfinite(values).nonzero()
        place = np.ravel_multi_index((layer, head, bins[text, layer, head]), shape)
        counts = np.bincount(place, minlength=int(np.prod(shape))).reshape(shape)
        filled = counts.nonzero()
        layers, heads, places = (axis.astype(np.int16) for axis in filled)
        where = {"metric": pa.array([metric] * len(places), pa.string()), "layer": layers}
        parts.append(pa.table({**where, "head": heads, "bin": places, "n": counts[filled]}))
    return pa.concat_tables(parts).combine_chunks()


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
