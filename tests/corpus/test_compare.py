"""A study against its own random weights."""

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.corpus.query.comparison import (
    beyond_by_chance,
    compare,
    compare_distributions,
    compare_with_random,
)
from mha_viz.errors import StudyError
from tests.corpus.test_percentile import TEXTS
from tests.making.families import build

KEYS = ["layer", "head", "metric"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return mv.study(mv.load("tiny-bert"), TEXTS, tmp_path_factory.mktemp("trained") / "study")


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    out = tmp_path_factory.mktemp("untrained") / "study"
    return mv.study(untrained_copy(mv.load("tiny-bert")), TEXTS, out)


def test_compare_of_the_same_texts_averages_their_differences(trained, untrained):
    places = ["text_id", "layer", "head"]
    before, after = (one.texts.df().set_index(places) for one in (untrained, trained))
    found = compare(untrained, trained).set_index(KEYS).sort_index()
    for metric in ("entropy", "previous_token", "output_norm"):
        apart = (after[metric] - before[metric]).astype(float).groupby(["layer", "head"])
        own = found.xs(metric, level="metric")
        assert own["difference"].to_numpy() == pytest.approx(apart.mean().to_numpy(), rel=1e-5)
        error = apart.std() / apart.count() ** 0.5
        assert own["standard_error"].to_numpy() == pytest.approx(error.to_numpy(), rel=1e-5)


def test_random_weights_are_those_of_a_study_of_an_untrained_copy(trained, untrained):
    found, expected = (
        table.sort_values(KEYS, ignore_index=True)
        for table in (compare_with_random(trained), compare(untrained, trained))
    )
    pd.testing.assert_frame_equal(found, expected, rtol=1e-5)
    assert found["standard_errors"].abs().max() > 3


def test_a_study_without_random_weights_has_nothing_to_be_compared_with(tmp_path, monkeypatch):
    monkeypatch.setattr("mha_viz.corpus.run.run._untrained", lambda model: None)
    study = mv.study(mv.load("tiny-bert"), TEXTS, tmp_path / "study")
    with pytest.raises(StudyError, match="no random weights"):
        compare_with_random(study)


def test_so_many_are_far_out_by_chance_as_of_normal_numbers():
    drawn = np.abs(np.random.default_rng(0).standard_normal(100_000))
    for far in (1.0, 2.0, 3.0):
        assert beyond_by_chance(100_000, far) == pytest.approx((drawn > far).sum(), rel=0.15)


def test_distributions_are_of_the_heads_means_the_farthest_apart_first(trained, untrained):
    found = compare_distributions(untrained, trained).set_index("metric")
    assert list(found["apart"].abs()) == sorted(found["apart"].abs(), reverse=True)
    for metric in ("entropy", "previous_token"):
        first, second = (
            one.heads.query(f"metric == {metric!r}")["mean"] for one in (untrained, trained)
        )
        row = found.loc[metric]
        assert (row["min_a"], row["50%_a"], row["max_b"]) == (
            first.min(),
            first.median(),
            second.max(),
        )
        spread = np.sqrt((first.var() + second.var()) / 2)
        assert row["apart"] == pytest.approx((second.median() - first.median()) / spread)


def test_distributions_of_a_model_of_another_size_are_compared(trained, tmp_path):
    small = build("distilbert")
    assert (small.n_layers, small.n_heads) != (trained.n_layers, trained.n_heads)
    other = mv.study(small, TEXTS, tmp_path / "study")
    found = compare_distributions(trained, other)
    assert set(found["metric"]) == set(trained.heads["metric"]) & set(other.heads["metric"])
    assert found["metric"].size > 5
