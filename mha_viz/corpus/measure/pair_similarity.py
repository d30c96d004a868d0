"""Similarity of any two heads over many texts: sums of their similarity on each."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import torch

from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.checks import with_float64
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.corpus.measure.batch_pairs import sums_of_pairs
from mha_viz.corpus.measure.batches import Batch
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.projections import float32
from mha_viz.engine.run import Run
from mha_viz.text.tokens import Encoded

MEASURES = ("hellinger", "redundancy", "cka", "correlation")
# Bytes of all layers at once, where a single text does not take more: on a processor and a card.
MOST_KEPT, MOST_ON_CARD = 256 * 2**20, 2**30


class PairSums:
    """Count, sum and sum of squares over texts of each pair of heads; NaN does not count.

    Head h of layer l has the number l * n_heads + h. A family that computes its attention itself
    has no outputs to compare.
    """

    def __init__(self, n_all: int, measures: Sequence[str] = MEASURES) -> None:
        self._measures = tuple(measures)
        # count, sum and sum of squares of each measure, where the model runs: (3, measure, i, j)
        self._sums = torch.zeros(3, len(measures), n_all, n_all, dtype=torch.float64)

    def add(self, left: Run, encoded: Sequence[Encoded]) -> None:
        """Add the texts of a batch, one after another; those on CUDA some at a time.

        They are compared and added up where the model ran, if there is float64 there.
        `left` holds the pattern of all layers and, for all but "hellinger", z.
        """
        device = left.pattern[0].device
        if device.type == "cuda":
            lengths = [len(text.tokens) for text in encoded]
            z = left.kept.get("z", [])
            found = sums_of_pairs(self._measures, list(left.pattern), list(z), lengths)
            self._sums = self._sums.to(device) + found
            return
        for row, text in enumerate(encoded):
            n = slice(len(text.tokens))
            made_of = {"pattern": float32(left.pattern, row, n, n, device=device)}
            if "z" in left.kept:
                made_of["z"] = float32(left.kept["z"], row, n, device=device)
            matrices = [
                METRICS[key].function(made_of[PAIR_MEASURES[key]]) for key in self._measures
            ]
            found = with_float64(torch.stack(matrices)).double()
            known = found.isfinite()
            values = found.masked_fill(~known, 0.0)
            self._sums = self._sums.to(found.device)
            self._sums += torch.stack([known.double(), values, values**2])

    def table(self) -> pa.Table:
        """Make a row for each measure and pair i < j: measure, i, j, n, sum, sum_sq."""
        pairs = np.triu_indices(self._sums.shape[-1], 1)
        first, second = (heads.astype(np.int32) for heads in pairs)
        found = self._sums.cpu().numpy().swapaxes(0, 1)[:, :, *pairs]
        parts = [
            pa.table(
                {
                    "measure": pa.array([measure] * len(first), pa.string()),
                    "i": first,
                    "j": second,
                    "n": sums[0].astype(np.int64),
                    "sum": sums[1],
                    "sum_sq": sums[2],
                }
            )
            for measure, sums in zip(self._measures, found, strict=True)
        ]
        return pa.concat_tables(parts)


def parts_to_keep(model: AttentionModel, batch: Batch) -> Iterator[Batch]:
    """Split a batch into parts of which all layers fit into `MOST_KEPT` bytes, or into texts.

    Pairs of heads of different layers are compared, so that no layer can be forgotten before the
    last. Where a batch is cut depends on its texts and the model's sizes alone.
    """
    longest = max(len(text.input_ids) for text in batch.encoded)
    heads = model.n_layers * model.n_heads
    of_text = 4 * heads * longest * (longest + model.d_head)
    most = MOST_KEPT if model.device.type == "cpu" else MOST_ON_CARD
    step = max(1, most // of_text)
    for begin in range(0, len(batch.items), step):
        part = slice(begin, begin + step)
        yield Batch(batch.items[part], batch.encoded[part])
