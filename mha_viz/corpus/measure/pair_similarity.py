"""Similarity of any two heads over many texts: sums of their similarity on each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.checks import with_float64
from mha_viz.core.metrics.output_pairs import LEAST_TOKENS
from mha_viz.core.metrics.outputs import rounding
from mha_viz.core.metrics.pairs import ROUNDING, jensen_shannon
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.corpus.measure.batches import Batch
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.projections import float32
from mha_viz.engine.run import Run
from mha_viz.text.tokens import Encoded

MAX_PAIR_BYTES = 2**28  # bytes of one float64 tensor of the weights of some texts
_ROUNDING = rounding(torch.zeros(1, 1, 1, 1))  # of z in float32, which the numbers come from

Pairs = Float[Tensor, "batch all_heads all_heads"]


@dataclass(frozen=True, eq=False)
class BatchPairs:
    """The heads of some texts, and the measures of their pairs: (batch, all_heads, all_heads).

    `core.metrics` computes them for one text at a time, in float32 wherever that is enough. A
    graphics card has float64, and each step costs it about the same for one text as for ten.
    """

    pattern: Float[Tensor, "batch all_heads query key"]  # zeros in padding
    # whatever in padding; None where the family has none
    z: Float[Tensor, "batch all_heads query d_head"] | None
    lengths: Float[Tensor, " batch"]  # tokens of each text

    @cached_property
    def hellinger(self) -> Pairs:
        """`core.metrics.pairs.hellinger`: rows of padding are alike, and count for nothing."""
        lacking = 1 - self.pattern.sum(-1, keepdim=True)
        nowhere = lacking.masked_fill(lacking <= ROUNDING, 0.0)
        affinity = _products(torch.cat([self.pattern, nowhere], -1).sqrt())
        self_affinity = affinity.diagonal(0, 1, 2)
        squared = (self_affinity[:, :, None] + self_affinity[:, None]) / 2 - affinity
        distances = (squared / self._n[..., 0]).clamp(0.0, 1.0).sqrt()
        return _with_diagonal(distances, 0.0)

    @cached_property
    def jensen_shannon(self) -> Pairs:
        """`core.metrics.pairs.jensen_shannon`, text after text: rows of padding are alike."""
        each = torch.stack([jensen_shannon(text[None]) for text in self.pattern])
        return each * (self.pattern.shape[-2] / self._n[..., 0])

    @cached_property
    def redundancy(self) -> Pairs:
        """`core.metrics.output_pairs.redundancy`."""
        squared = _cosines(_products(self._heads.mT @ self._heads))
        return _with_diagonal(squared.clamp(0.0, 1.0).sqrt(), 1.0)

    @cached_property
    def correlation(self) -> Pairs:
        """`core.metrics.output_pairs.correlation`."""
        n = self._n * self._heads.shape[-1]
        deviations = self._apart(self._heads.sum((-2, -1), keepdim=True) / n)
        return _with_diagonal(_cosines(_products(deviations)).clamp(-1.0, 1.0), 1.0)

    @cached_property
    def cka(self) -> Pairs:
        """`core.metrics.output_pairs.cka`."""
        heads, n = self._apart(self._heads.sum(-2, keepdim=True) / self._n), self._n
        sizes = heads.square().sum(-1, keepdim=True)  # the kernel's diagonal
        trace = sizes.sum(-2, keepdim=True)
        shift = (sizes / (n - 2) - trace / (2 * (n - 1) * (n - 2))) * self._real
        kernel = torch.baddbmm(
            (shift + shift.mT).flatten(0, 1), heads.flatten(0, 1), heads.mT.flatten(0, 1)
        ).unflatten(0, heads.shape[:2])
        kernel *= self._real * self._real.mT
        kernel.diagonal(0, -2, -1).zero_()
        inner = _products(kernel)
        diagonal, least = inner.diagonal(0, 1, 2), _ROUNDING * trace[..., 0, 0]
        diagonal.masked_fill_((diagonal.sqrt() <= least) | (n[..., 0, 0] < LEAST_TOKENS), torch.nan)
        return _with_diagonal(_cosines(inner).clamp(-1.0, 1.0), 1.0)

    @cached_property
    def _n(self) -> Float[Tensor, "batch 1 1 1"]:
        return self.lengths[:, None, None, None]

    @cached_property
    def _real(self) -> Float[Tensor, "batch 1 query 1"]:
        """1 for each query, 0 in padding."""
        positions = torch.arange(self.pattern.shape[-2], device=self.lengths.device)
        return (positions[:, None] < self._n).to(self.lengths.dtype)

    @cached_property
    def _heads(self) -> Float[Tensor, "batch all_heads query d_head"]:
        """Each head's z, its largest entry scaled to 1; zeros stay, and stand in padding."""
        assert self.z is not None
        heads = self.z * self._real
        largest = heads.abs().amax((-2, -1), keepdim=True)
        return heads / largest.masked_fill(largest == 0, 1.0)

    def _apart(self, mean: Tensor) -> Float[Tensor, "batch all_heads query d_head"]:
        """Subtract a mean from the heads; NaN where only rounding is left."""
        apart = (self._heads - mean) * self._real
        sizes = [heads.flatten(2).norm(dim=-1) for heads in (apart, self._heads)]
        constant = sizes[0] <= _ROUNDING * sizes[1]
        return apart.masked_fill(constant[..., None, None], torch.nan)


def sums_of_pairs(
    measures: Sequence[str], pattern: Sequence[Tensor], z: Sequence[Tensor], lengths: Sequence[int]
) -> Float[Tensor, "3 measure all_heads all_heads"]:
    """Return count, sum and sum of squares over the texts of a batch, where they are.

    `measures` are properties of `BatchPairs`. Each layer has a `pattern` (batch, head, query, key),
    whose rows of padding do not matter, and z (batch, head, query, d_head), none for "hellinger".
    """
    n_all, n = len(pattern) * pattern[0].shape[1], pattern[0].shape[-1]
    step = max(1, MAX_PAIR_BYTES // (8 * n_all * n * n))
    sums = torch.zeros(3, len(measures), n_all, n_all, dtype=torch.float64)
    sums = sums.to(pattern[0].device)
    for begin in range(0, len(lengths), step):
        part = slice(begin, begin + step)
        weights = _of_all_layers(pattern, part)
        sizes = torch.tensor(lengths[part], dtype=torch.float64).to(weights.device)
        pairs = BatchPairs(weights, _of_all_layers(z, part) if z else None, sizes)
        pairs.pattern.mul_(pairs._real)
        for at, measure in enumerate(measures):
            values: Tensor = getattr(pairs, measure)
            defined = values.isfinite()
            values = values.masked_fill(~defined, 0.0)
            sums[:, at] += torch.stack([defined.double(), values, values**2]).sum(1)
    return sums


def _of_all_layers(layers: Sequence[Tensor], part: slice) -> Tensor:
    """Return some texts, (batch, layer * head, ...), in float64."""
    return torch.stack([layer[part] for layer in layers], 1).double().flatten(1, 2)


def _products(heads: Tensor) -> Pairs:
    """Multiply every two heads of a text, entry by entry, and add up."""
    flat = heads.flatten(2)
    return flat @ flat.mT


def _cosines(inner: Pairs) -> Pairs:
    diagonal = inner.diagonal(0, 1, 2)
    return inner / (diagonal[:, :, None] * diagonal[:, None]).sqrt()


def _with_diagonal(matrix: Pairs, self_similarity: float) -> Pairs:
    """Put a number on the diagonals, where they are defined."""
    diagonal = matrix.diagonal(0, 1, 2)
    diagonal.copy_(diagonal.masked_fill(~diagonal.isnan(), self_similarity))
    return matrix


MEASURES = ("hellinger", "redundancy", "cka", "correlation")
# Bytes of all layers at once, where a single text does not take more: on a processor and a card.
MAX_BYTES, MAX_CARD_BYTES = 256 * 2**20, 2**30


class PairSums:
    """Count, sum and sum of squares over texts of each pair of heads; NaN does not count.

    Head h of layer l has the number l * n_heads + h. A family that computes its attention itself
    has no outputs to compare.
    """

    def __init__(self, n_all: int, measures: Sequence[str] = MEASURES) -> None:
        self._measures = tuple(measures)
        # count, sum and sum of squares of each measure, where the model runs: (3, measure, i, j)
        self._sums = torch.zeros(3, len(measures), n_all, n_all, dtype=torch.float64)

    def add(self, run: Run, encoded: Sequence[Encoded]) -> None:
        """Add the texts of a batch, one after another; those on CUDA some at a time.

        They are compared and added up where the model ran, if there is float64 there.
        `run` holds the pattern of all layers and, for all but "hellinger", z.
        """
        device = run.pattern[0].device
        if device.type == "cuda":
            lengths = [len(text.tokens) for text in encoded]
            z = run.tensors.get("z", [])
            sums = sums_of_pairs(self._measures, list(run.pattern), list(z), lengths)
            self._sums = self._sums.to(device) + sums
            return
        for row, text in enumerate(encoded):
            n = slice(len(text.tokens))
            made_of = {"pattern": float32(run.pattern, row, n, n, device=device)}
            if "z" in run.tensors:
                made_of["z"] = float32(run.tensors["z"], row, n, device=device)
            matrices = [
                METRICS[key].function(made_of[PAIR_MEASURES[key]]) for key in self._measures
            ]
            similarity = with_float64(torch.stack(matrices)).double()
            defined = similarity.isfinite()
            values = similarity.masked_fill(~defined, 0.0)
            self._sums = self._sums.to(similarity.device)
            self._sums += torch.stack([defined.double(), values, values**2])

    def table(self) -> pa.Table:
        """Make a row for each measure and pair i < j: measure, i, j, n, sum, sum_sq."""
        pairs = np.triu_indices(self._sums.shape[-1], 1)
        i, j = (np.tile(heads.astype(np.int32), len(self._measures)) for heads in pairs)
        measures = pa.array(np.repeat(self._measures, len(pairs[0])), pa.string())
        n, total, squares = self._sums.cpu().numpy()[:, :, *pairs].reshape(3, -1)
        sums = {"n": n.astype(np.int64), "sum": total, "sum_sq": squares}
        return pa.table({"measure": measures, "i": i, "j": j, **sums})


def parts_to_keep(model: AttentionModel, batch: Batch) -> Iterator[Batch]:
    """Split a batch into parts whose layers together fit into `MAX_BYTES` bytes, or into texts.

    Pairs of heads of different layers are compared, so that no layer can be forgotten before the
    last. Where a batch is cut depends on its texts and the model's sizes alone.
    """
    longest = max(len(text.input_ids) for text in batch.encoded)
    heads = model.n_layers * model.n_heads
    of_text = 4 * heads * longest * (longest + model.d_head)
    most = MAX_BYTES if model.device.type == "cpu" else MAX_CARD_BYTES
    step = max(1, most // of_text)
    for begin in range(0, len(batch.items), step):
        part = slice(begin, begin + step)
        yield Batch(batch.items[part], batch.encoded[part])
