"""The similarities of pairs on a batch of texts at once, beside those of each text alone."""

import torch

from mha_viz.core.metrics import METRICS
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.corpus.measure import pair_similarity
from mha_viz.corpus.measure.pair_similarity import sums_of_pairs
from tests.making.comparing import close

MEASURES = (*pair_similarity.MEASURES, "jensen_shannon")
N_LAYERS, N_HEADS, N, D_HEAD = 2, 3, 13, 5
LENGTHS = [13, 2, 7, 3, 11]  # of fewer than 4 tokens there is no debiased CKA


def heads() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Weights and z of a batch, with noise in padding: all zero, constant, alike and turned."""
    dice = torch.Generator().manual_seed(0)
    pattern = torch.zeros(N_LAYERS, len(LENGTHS), N_HEADS, N, N)
    z = torch.randn(N_LAYERS, len(LENGTHS), N_HEADS, N, D_HEAD, generator=dice)
    for row, n in enumerate(LENGTHS):
        scores = 3 * torch.randn(N_LAYERS, N_HEADS, N, n, generator=dice)
        pattern[:, row, ..., :n] = scores.softmax(-1)
    pattern[0, :, 1, 1] = 0.0  # a query that sees nothing
    pattern[0, :, 2, :2] *= 0.7  # and two that give a sink the rest
    pattern[1, :, 0] = pattern[0, :, 1]
    z[0, 0, 1], z[0, 2, 1] = 0.0, 17.0
    z[1, :, 0] = 3 * z[0, :, 0].roll(1, dims=-1)
    z[1, :, 1] = 1e20 * z[0, :, 2]
    return list(pattern), list(z)


def one_by_one(pattern: list[torch.Tensor], z: list[torch.Tensor]) -> torch.Tensor:
    """Count, sum and sum of squares, of what `core.metrics` finds for each text."""
    found = torch.zeros(3, len(MEASURES), N_LAYERS * N_HEADS, N_LAYERS * N_HEADS).double()
    for row, n in enumerate(LENGTHS):
        made_of = {
            "pattern": torch.stack(pattern)[:, row, :, :n, :n],
            "z": torch.stack(z)[:, row, :, :n],
        }
        values = torch.stack(
            [METRICS[key].function(made_of[PAIR_MEASURES[key]]) for key in MEASURES]
        ).double()
        known = values.isfinite()
        values = values.masked_fill(~known, 0.0)
        found += torch.stack([known.double(), values, values**2])
    return found


def test_a_batch_at_once_finds_what_each_of_its_texts_does(monkeypatch) -> None:
    pattern, z = heads()
    expected = one_by_one(pattern, z)
    assert len(set(expected[0].flatten().tolist())) >= 4  # some are not defined on some texts
    close(sums_of_pairs(MEASURES, pattern, z, LENGTHS), expected)
    monkeypatch.setattr(pair_similarity, "AT_ONCE", 1)  # a text at a time
    close(sums_of_pairs(MEASURES, pattern, z, LENGTHS), expected)


def test_without_outputs_there_are_distances_of_weights_alone() -> None:
    pattern, z = heads()
    close(sums_of_pairs(MEASURES[:1], pattern, [], LENGTHS), one_by_one(pattern, z)[:, :1])
