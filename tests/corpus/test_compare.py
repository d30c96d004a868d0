"""A study against its own random weights."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.corpus.query.comparison import (
    beyond_by_chance,
    compare,
    compare_distributions,
    compare_matched,
    compare_with_random,
    percentiles,
    scores_of_head,
)
from mha_viz.errors import StudyError
from tests.making.families import build

KEYS = ["layer", "head", "metric"]

TEXTS = [
    "The cat sat on the mat because it was tired.",
    "Rain fell all night, and the river rose.",
    "She said that he had gone home because he was ill.",
    "Birds sing.",
]


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
    monkeypatch.setattr("mha_viz.corpus.run.study_builder.random_weights", lambda model: None)
    study = mv.study(mv.load("tiny-bert"), TEXTS, tmp_path / "study")
    with pytest.raises(StudyError, match="random"):
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


@pytest.mark.extended
def test_matched_heads_are_the_nearest_one_to_one(trained, tmp_path):
    found = compare_matched(trained, trained)
    assert (found["layer_a"] == found["layer_b"]).all() and (
        found["head_a"] == found["head_b"]
    ).all()
    assert len(found) == 32 and found["distance"].max() == pytest.approx(0, abs=1e-6)

    other = mv.study(build("distilbert"), TEXTS, tmp_path / "study")
    n_all = other.n_layers * other.n_heads
    assert 1 < n_all < 32
    apart = np.array([[_apart(trained, i, other, j) for j in range(n_all)] for i in range(32)])
    rows, columns = linear_sum_assignment(apart)
    for a, b in ((trained, other), (other, trained)):
        found = compare_matched(a, b)
        assert list(found["distance"]) == sorted(found["distance"])
        ours, theirs = ("_a", "_b") if a is trained else ("_b", "_a")
        i = found[f"layer{ours}"] * 8 + found[f"head{ours}"]
        j = found[f"layer{theirs}"] * other.n_heads + found[f"head{theirs}"]
        assert len(set(i)) == len(set(j)) == n_all
        assert found["distance"].sum() == pytest.approx(apart[rows, columns].sum())
        assert found["distance"].to_numpy() == pytest.approx(apart[i, j])
        share = [(apart <= one + 1e-9).mean() for one in apart[i, j]]
        assert found["as_near"].to_numpy() == pytest.approx(share)


def _apart(a, i, b, j):
    squares = []
    for axis in ("offset", "kind"):
        first, second = (
            rows.set_index(axis)["weight"].loc[lambda of: of > 0]
            for study, at in ((a, i), (b, j))
            for rows in [study.profile_by(axis)]
            for rows in [rows[rows["layer"] * study.n_heads + rows["head"] == at]]
        )
        both = first.index.intersection(second.index)
        shared = np.sqrt(first[both] / first.sum() * second[both] / second.sum()).sum()
        squares.append(1 - shared)
    return np.sqrt(max(np.mean(squares), 0))


def test_a_text_of_the_study_stands_where_its_own_score_is(trained):
    """Counted in the reports of the single texts, which the study has not seen."""
    model = mv.load("tiny-bert")
    reports = [
        mv.head_report(model.trace(text)).set_index(["layer", "head"]).loc[(2, 5)] for text in TEXTS
    ]
    rows = scores_of_head(trained, 2, 5)
    for here in reports:
        scores = {name: here[name] for name in rows if name in here}
        found = percentiles(rows, scores)
        for metric, value in scores.items():
            others = [report.get(metric, np.nan) for report in reports]
            others = [other for other in others if not np.isnan(other)]
            if np.isnan(value):
                assert np.isnan(found.loc[metric, "lower"])
                continue
            close = np.isclose(others, value, rtol=1e-4)
            lower, higher = (
                np.mean(sign * (np.array(others) - value) > 0 & ~close) for sign in (-1, 1)
            )
            assert found.loc[metric, "n_texts"] == len(others)
            assert found.loc[metric, "lower"] == pytest.approx(lower)
            assert found.loc[metric, "higher"] == pytest.approx(higher)


def test_what_always_is_the_same_is_neither_lower_nor_higher_where_it_is_so_again():
    rows = pd.DataFrame({"duplicate_token": [0.0, 0.0, 0.0], "sink": [np.nan] * 3})
    found = percentiles(rows, {"duplicate_token": 1e-9, "sink": 0.5, "unknown": 1.0})
    assert found.loc["duplicate_token", ["lower", "higher"]].tolist() == [0.0, 0.0]
    assert found.loc["sink", "n_texts"] == 0 and np.isnan(found.loc["sink", "lower"])
    assert "unknown" not in found.index
