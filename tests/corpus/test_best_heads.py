"""Best heads: chosen on one half, ranked by what their tests say, and said in words."""

import numpy as np
import pandas as pd
import pytest

from mha_viz.core.metrics.chance import RATE
from mha_viz.corpus.query.best_heads import BEATS, UNKNOWN, best_heads
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.run import study
from mha_viz.errors import ArgumentError


@pytest.fixture(scope="module")
def sample(bert, tmp_path_factory) -> Study:
    return study(bert, "sample", tmp_path_factory.mktemp("study") / "sample", sample=97)


def test_relations_have_the_head_chosen_on_the_other_half(sample: Study) -> None:
    best = sample.best_heads()
    every = sample.relations.query("n >= 20")
    assert len(best) == len(every[["relation", "direction"]].drop_duplicates()) > 5
    for row in best.to_dict("records"):
        rivals = every.query(
            f"relation == {row['relation']!r} and direction == {row['direction']!r}"
        )
        own = rivals.query(f"layer == {row['layer']} and head == {row['head']}").iloc[0]
        assert own["chosen_on"] == rivals["chosen_on"].max()
        for name in ("n", "accuracy", "low", "high", "offset_baseline", "random_baseline", "q"):
            assert row[name] == own[name]
        assert (row["verdict"] == BEATS) == (own["q"] <= RATE)
    order = list(zip(best["verdict"] != BEATS, -best["accuracy"], strict=True))
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("by", "score", "baselines"),
    [
        ("trees", "uuas", ["branching_baseline", "random_baseline"]),
        ("coreference", "accuracy", ["nearest_baseline", "same_word_baseline", "random_baseline"]),
    ],
)
def test_heads_beat_all_only_where_each_test_says_so(sample: Study, by, score, baselines) -> None:
    found = getattr(sample, by)
    best = best_heads(found.assign(n=20) if by == "coreference" else found, by)
    assert len(best) == sample.n_layers * sample.n_heads
    for row in best.to_dict("records"):
        qs = np.array([row[f"q_{name}"] for name in baselines])
        assert (row["verdict"] == BEATS) == bool((qs <= RATE).all())
        behind = [name for name in baselines if row[score] <= row[name]]
        assert row["verdict"].startswith("not above") == (
            bool(behind) and row["verdict"] not in (BEATS, UNKNOWN)
        )


def test_a_part_of_speech_has_the_head_farthest_above_an_even_spread(sample: Study) -> None:
    best = sample.best_heads("parts_of_speech")
    rows = sample.parts_of_speech.query("n_words >= 20")
    most = rows.groupby(["from_upos", "to_upos"])["difference"].max()
    found = best.set_index(["from_upos", "to_upos"])["difference"]
    pd.testing.assert_series_equal(found.sort_index(), most.sort_index())
    assert best["difference"].is_monotonic_decreasing


def test_too_few_units_have_no_verdict(bert, tmp_path) -> None:
    few = study(bert, "sample", tmp_path / "few", sample=7)
    relations = few.relations.assign(n=20)
    assert set(best_heads(relations, "relations")["verdict"]) == {UNKNOWN}


def test_an_unknown_question_is_named(sample: Study) -> None:
    with pytest.raises(ArgumentError, match="relations, trees, coreference, parts_of_speech"):
        sample.best_heads("charm")
