"""Best heads: chosen on one half, ranked by what their tests say, and said in words."""

import numpy as np
import pandas as pd
import pytest

from mha_viz.core.metrics.chance import RATE
from mha_viz.corpus.query.best_heads import BEATS, MODEL, UNKNOWN, beside_published, best_heads
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


def test_published_figures_stand_beside_those_of_the_same_model(sample: Study) -> None:
    paper = sample.manifest["model"] | {"name": f"google-bert/{MODEL}"}
    found = Study(sample.folder, {**sample.manifest, "model": paper}).best_heads("published")
    own = sample.best_heads()
    for row in found.to_dict("records"):
        one = own.query(f"relation == {row['relation']!r} and direction == {row['direction']!r}")
        assert (row["accuracy"], row["layer"], row["head"]) == tuple(
            one[["accuracy", "layer", "head"]].iloc[0]
        )
        assert np.isnan(row["published_head_here"])  # this model has no layer of that number
    determiners = found.set_index("relation").loc["det"]
    assert determiners["published_accuracy"] == pytest.approx(0.943)
    assert determiners["published_offset_baseline"] == pytest.approx(0.517)
    assert (determiners["published_layer"], determiners["published_head"]) == (7, 10)
    assert list(found["relation"])[:4] == ["case", "det", "nsubj", "obj"]  # in the paper's order


def test_the_published_head_is_asked_on_this_treebank_too() -> None:
    rows = [("det", "to_head", 7, 10, 0.83), ("det", "to_head", 3, 2, 0.89)]
    rows += [("det", "to_dependent", 7, 10, 0.11), ("iobj", "to_head", 5, 1, 0.7)]
    relations = pd.DataFrame(rows, columns=["relation", "direction", "layer", "head", "accuracy"])
    best = relations.iloc[[1, 2, 3]].assign(n=23, low=0.5, high=0.95, offset_baseline=0.47)
    (row,) = beside_published(best, relations, f"/models/{MODEL}/").to_dict("records")
    assert (row["layer"], row["head"], row["published_head_here"]) == (3, 2, 0.83)


def test_figures_of_another_model_are_not_put_beside(sample: Study) -> None:
    with pytest.raises(ArgumentError, match=r"bert-base-uncased.*tiny-bert"):
        sample.best_heads("published")
