"""The nearest pairs of heads over a corpus, and how sure their means are."""

import numpy as np
import pytest
import torch
from scipy.stats import t

import mha_viz as mv
from mha_viz.core.measure import as_distances, head_similarity
from mha_viz.errors import ArgumentError

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
