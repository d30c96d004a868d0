"""The similarities of pairs on a batch of texts at once, beside those of each text alone."""

import numpy as np
import pytest
import torch
from scipy.stats import t

import mha_viz as mv
from mha_viz.core.measure import as_distances, head_similarity
from mha_viz.core.metrics import METRICS
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.corpus.measure import pair_similarity
from mha_viz.corpus.measure.pair_similarity import sums_of_pairs
from mha_viz.errors import ArgumentError
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
    monkeypatch.setattr(pair_similarity, "MAX_PAIR_BYTES", 1)  # a text at a time
    close(sums_of_pairs(MEASURES, pattern, z, LENGTHS), expected)


def test_without_outputs_there_are_distances_of_weights_alone() -> None:
    pattern, z = heads()
    close(sums_of_pairs(MEASURES[:1], pattern, [], LENGTHS), one_by_one(pattern, z)[:, :1])


WORDS = "old young red big small tired happy little white black hungry brown sad"
TEXTS = [f"The {word} dog saw a cat, and then it ran." for word in WORDS.split()]


@pytest.fixture(scope="module")
def study(bert: mv.AttentionModel, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    out = tmp_path_factory.mktemp("study") / "texts"
    return mv.study(bert, TEXTS, out, jensen_shannon=True)


@pytest.fixture(scope="module", params=[True, False], ids=["rows kept", "sums alone"])
def documents(bert: mv.AttentionModel, tmp_path_factory: pytest.TempPathFactory, request):
    """A treebank whose documents have one sentence or more."""
    out = tmp_path_factory.mktemp("study") / "documents"
    return mv.study(bert, "sample", out, sample=61, keep_texts=request.param)


@pytest.mark.parametrize(
    "measure", ["hellinger", "redundancy", "cka", "correlation", "jensen_shannon"]
)
def test_each_pair_is_that_of_the_texts_one_by_one(bert, study: mv.Study, measure: str) -> None:
    each = np.stack([head_similarity(bert.trace(text), measure).numpy() for text in TEXTS])
    found, n_heads = study.nearest_pairs(measure, k=31), study.n_heads
    apart = as_distances(torch.from_numpy(each.mean(0)), measure).numpy()
    order = np.sort(apart[np.triu_indices(len(apart), 1)])[:31]
    for row, distance in zip(found.to_dict("records"), order, strict=True):
        i, j = (row[f"layer{one}"] * n_heads + row[f"head{one}"] for one in ("", "_b"))
        assert i < j and apart[i, j] == pytest.approx(distance, abs=1e-5)
        values = each[:, i, j]
        ends = t.interval(0.95, len(TEXTS) - 1, values.mean(), values.std(ddof=1) / 13**0.5)
        ends = np.clip(ends, *mv.METRICS[measure].limits)
        assert (row["n_texts"], row["mean"]) == (13, pytest.approx(values.mean(), abs=1e-5))
        assert [row["low"], row["high"]] == pytest.approx(ends, abs=2e-5)


def test_an_interval_is_as_wide_as_if_a_unit_said_one_thing(documents: mv.Study) -> None:
    assert documents.manifest["counts"]["n_units"] < documents.n_texts
    found = documents.nearest_pairs("cka", k=7)
    if not documents.manifest["settings"]["keep_texts"]:
        assert found[["low", "high"]].isna().all(axis=None)  # how large the units are is not known
        assert found["mean"].notna().all()
        return
    sizes = documents.sql("SELECT unit FROM sentences")["unit"].value_counts().to_numpy()
    mean, std = (documents.pairs("cka", name) for name in ("mean", "std"))
    for row in found.to_dict("records"):
        place = tuple(
            row[f"layer{one}"] * documents.n_heads + row[f"head{one}"] for one in ("", "_b")
        )
        n_units = row["n_texts"] * sizes.sum() / (sizes**2).sum()
        reach = t.ppf(0.975, n_units - 1) * std[place] / n_units**0.5
        assert row["low"] == pytest.approx(mean[place] - reach)
        assert row["high"] == pytest.approx(min(mean[place] + reach, 1))


def test_what_a_study_does_not_have_is_refused(study: mv.Study) -> None:
    measures = ["cka", "correlation", "hellinger", "jensen_shannon", "redundancy"]
    assert study.pair_measures == measures and study.manifest["settings"]["jensen_shannon"]
    with pytest.raises(ArgumentError, match=r"measure.*cka.*'charm'"):
        study.nearest_pairs("charm")
    with pytest.raises(ArgumentError, match=r"k .*0"):
        study.nearest_pairs(k=0)
