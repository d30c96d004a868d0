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

MAX_OFFSET = 32  # offsets beyond are counted together
MAX_POSITION = 128  # positions from here on, too
BINS = {
    "offset": (f"<-{MAX_OFFSET}", *map(str, range(-MAX_OFFSET, MAX_OFFSET + 1)), f">{MAX_OFFSET}"),
    "position": (*map(str, range(MAX_POSITION)), f">={MAX_POSITION}"),
    "kind": KINDS,
}


def bin_rank(label: str) -> float:
    """Return where a bin stands in order: "<-32" before "-32", ">32" after "32"."""
    if label[0] in "<>≥":
        beyond = float(label.lstrip("<>=≥"))
        return beyond - 0.5 if label[0] == "<" else beyond + 0.5
    return float(label)


@dataclass
class Profile:
    """Sums over the queries of all texts; they add up over batches and shards."""

    n_layers: int
    n_heads: int
    weight: dict[str, Tensor] = field(init=False)  # by axis: float64 (layer, head, bin)
    rows: dict[str, Tensor] = field(init=False)  # queries that see a key: int64 (layer, bin)

    def __post_init__(self) -> None:
        sizes = {axis: len(names) for axis, names in BINS.items()}
        shape = self.n_layers, self.n_heads
        self.weight = {a: torch.zeros(*shape, n, dtype=torch.float64) for a, n in sizes.items()}
        self.rows = {a: torch.zeros(shape[0], n, dtype=torch.int64) for a, n in sizes.items()}

    def add(self, layer: int, weight: dict[str, Tensor], rows: dict[str, Tensor]) -> None:
        """Add one layer of one batch: what `weight_of` and `rows_of` give for it."""
        for axis in BINS:
            self.weight[axis][layer] += weight[axis].cpu()
            self.rows[axis][layer] += rows[axis].cpu()

    def table(self) -> pa.Table:
        """Make a row for each layer, head, axis and bin: layer, head, axis, at, weight, rows."""
        parts = []
        for axis, names in BINS.items():
            weight = self.weight[axis].numpy()
            indices = np.indices(weight.shape, dtype=np.int16)
            layer, head, bin_number = indices.reshape(3, -1)
            bins = {"axis": np.full(len(bin_number), axis), "at": np.array(names)[bin_number]}
            sums = {"weight": weight.ravel(), "rows": self.rows[axis].numpy()[layer, bin_number]}
            parts.append(pa.table({"layer": layer, "head": head, **bins, **sums}))
        # stable: axes and bins as they stand
        order = [("layer", "ascending"), ("head", "ascending")]
        return pa.concat_tables(parts).sort_by(order).combine_chunks()


def weight_of(pattern: Tensor, texts: PaddedTexts) -> dict[str, Tensor]:
    """Sum the weight of a batch in each bin: axis -> (head, bin), on the layer's device."""
    n, device = pattern.shape[-1], pattern.device
    offset_bins = texts.once("offset bins", lambda: _offset_bins(n, device).flatten())
    by_key = exact(pattern.sum(-2))
    return {
        "offset": _by_bin(pattern.sum(0).flatten(1), offset_bins, len(BINS["offset"])),
        "position": by_key.sum(0) @ texts.once("position bins", lambda: _position_bins(n, by_key)),
        "kind": _on_kinds(pattern, by_key, texts).sum(0),
    }


def _on_kinds(pattern: Tensor, by_key: Tensor, texts: PaddedTexts) -> Tensor:
    """Sum the weight on each of `KINDS` over queries and keys: (batch, head, kind)."""
    batch, heads, _, n = pattern.shape
    row, query, key = texts.same_pairs
    same = by_key.new_zeros(batch * n, heads)
    flat_keys = texts.once("keys of pairs", lambda: row * n + key)
    same = same.index_add_(0, flat_keys, exact(pattern[row, :, query, key]))
    same = same.unflatten(0, (batch, n)).mT
    itself = pattern.diagonal(0, -2, -1)
    other_weight = (by_key - itself - same).clamp(min=0.0)
    of_kinds = texts.kinds_of_keys
    assert ("itself", "same token", *of_kinds) == KINDS
    keys = texts.once("keys of kinds", lambda: torch.stack([*of_kinds.values()], -1).to(by_key))
    sums = itself.sum(-1, dtype=same.dtype), same.sum(-1)
    return torch.cat([torch.stack(sums, -1), other_weight @ keys], -1)


def _position_bins(n: int, like: Tensor) -> Tensor:
    """Return 1 for the bin of each position, 0 for others: (position, bin)."""
    late = torch.arange(n, device=like.device).clamp(max=MAX_POSITION)
    return (late[:, None] == torch.arange(MAX_POSITION + 1, device=like.device)).to(like.dtype)


def rows_of(texts: PaddedTexts, visible: Tensor) -> dict[str, Tensor]:
    """Count the queries of a batch that see a key of each bin: axis -> int64 (bin,)."""
    n = visible.shape[-1]
    offset_bins = _offset_bins(n, visible.device)
    first, last = 0, len(BINS["offset"]) - 1
    offset = _by_bin(visible.sum(0).flatten()[None], offset_bins.flatten(), last + 1)[0]
    for end in (first, last):  # of several keys in one bin, a query needs to see any
        offset[end] = (visible & (offset_bins == end)).any(-1).sum()
    position = torch.zeros(len(BINS["position"]), dtype=torch.int64, device=visible.device)
    position[: min(n, MAX_POSITION)] = visible[..., :MAX_POSITION].sum((0, 1))
    position[MAX_POSITION] = visible[..., MAX_POSITION:].any(-1).sum()
    kinds = kinds_of_keys(texts, visible)
    kind = torch.stack([kinds[name].any(-1).sum() for name in KINDS])
    by_axis = {"offset": offset, "position": position, "kind": kind}
    return {axis: counts.long() for axis, counts in by_axis.items()}


def _offset_bins(n: int, device: torch.device) -> Tensor:
    """Return the bin of each query and key, (n, n)."""
    at = torch.arange(n, device=device)
    return (at - at[:, None]).clamp(-MAX_OFFSET - 1, MAX_OFFSET + 1) + MAX_OFFSET + 1


def _by_bin(values: Tensor, bins: Tensor, n_bins: int) -> Tensor:
    """Add up the columns of (row, column) by bin: (row, bin)."""
    values = exact(values)
    return values.new_zeros(len(values), n_bins).index_add_(1, bins, values)


N_BINS = 64
_NATS = (0.0, 8.0)  # ln 2981: no text that a model reads here is spread out more
_LEAST, _MOST = 1e-3, 1e4  # of what grows with the text or with the model


def bin_limits(metric: str) -> np.ndarray:
    """Return the limits of a metric's bins, float64 (65,); the outer bins are open.

    A metric between two limits has bins of one width, and so has one in nats, from 0 to 8. Others
    have no highest value: their bins grow by a constant factor from 0.001 to 10,000, and the first
    begins at 0.

    >>> bin_limits("confidence")[[0, 32, 64]]
    array([0. , 0.5, 1. ])
    >>> bin_limits("distance")[[0, 1, 64]]
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
        bins = np.searchsorted(bin_limits(metric)[1:-1], values, side="right")
        text, layer, head = np.isfinite(values).nonzero()
        flat = np.ravel_multi_index((layer, head, bins[text, layer, head]), shape)
        counts = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
        filled = counts.nonzero()
        layers, heads, bin_numbers = (axis.astype(np.int16) for axis in filled)
        where = {"metric": pa.array([metric] * len(bin_numbers), pa.string()), "layer": layers}
        parts.append(pa.table({**where, "head": heads, "bin": bin_numbers, "n": counts[filled]}))
    return pa.concat_tables(parts).combine_chunks()


def histogram_quantiles(
    counts: pa.Table, metric: str, shape: tuple[int, int], shares: Sequence[float]
) -> np.ndarray:
    """Estimate quantiles of each head's texts from their counts, (share, layer * head).

    They are as exact as the bins are narrow; NaN where no text has the metric.
    """
    of_metric = counts.filter(pc.field("metric") == metric)
    columns = (of_metric[name].to_numpy() for name in ("layer", "head", "bin", "n"))
    layer, head, bin_number, n_texts = columns
    in_bins = np.zeros((shape[0] * shape[1], N_BINS))
    in_bins[layer.astype(int) * shape[1] + head, bin_number] = n_texts
    limits, n = bin_limits(metric), in_bins.sum(1)
    up_to = np.concatenate([np.zeros((len(n), 1)), in_bins.cumsum(1)], 1)
    quantiles = np.full((len(shares), len(n)), np.nan)
    for row in n.nonzero()[0]:
        quantiles[:, row] = np.interp(np.multiply(shares, n[row]), up_to[row], limits)
    return quantiles
