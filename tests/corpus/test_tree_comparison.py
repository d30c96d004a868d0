"""Two studies of a treebank compared: the same words, unit by unit, and best head by best head."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.metrics.chance import RATE
from mha_viz.core.metrics.units import jackknife, t_quantile
from mha_viz.corpus.query.best_heads import BEATS, MODEL, UNKNOWN, beside_published, best_heads
from mha_viz.corpus.query.comparison import TREE_QUESTIONS, compare_trees
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.split_half import in_units
from mha_viz.errors import ArgumentError
from tests.corpus.small_studies import changed

NAMES = {"n_arcs": "n", "uuas": "accuracy"}


@pytest.fixture(scope="module")
def trained(bert, tmp_path_factory) -> Study:
    return mv.study(bert, "sample", tmp_path_factory.mktemp("trained") / "study", sample=127)


@pytest.fixture(scope="module")
def untrained(bert, tmp_path_factory) -> Study:
    out = tmp_path_factory.mktemp("untrained") / "study"
    return mv.study(untrained_copy(bert), "sample", out, sample=127)


@pytest.fixture(scope="module")
def narrow(untrained: Study, tmp_path_factory) -> Study:
    """The second study as that of a model with fewer heads: 4 layers of 7."""
    folder = tmp_path_factory.mktemp("narrow") / "study"
    shutil.copytree(untrained.folder, folder)
    narrow = {**untrained.manifest, "model": {**untrained.manifest["model"], "n_heads": 7}}
    columns = "SELECT table_name AS t FROM duckdb_columns() WHERE column_name = '{}'"
    both = " INTERSECT ".join(columns.format(name) for name in ("layer", "head"))
    with_heads = untrained.sql(f"{both} INTERSECT SELECT table_name FROM duckdb_tables()")["t"]
    less = [f"DELETE FROM {table} WHERE head >= 7" for table in with_heads]
    content = json.dumps(narrow).replace("'", "''")
    return Study.load(changed(folder, *less, f"UPDATE manifest SET content = '{content}'"))


@pytest.mark.parametrize("by", TREE_QUESTIONS)
def test_heads_have_both_scores_and_their_difference(trained, untrained, by) -> None:
    found = compare_trees(untrained, trained, by)
    where = ["layer", "head", *(["relation", "direction"] if by == "relations" else [])]
    for study, side in ((untrained, "a"), (trained, "b")):
        own = getattr(study, by).rename(columns=NAMES).set_index(where)
        both = found.set_index(where).join(own[["accuracy", "n"]])
        np.testing.assert_array_equal(both[f"accuracy_{side}"], both["accuracy"])
        np.testing.assert_array_equal(both[f"n_{side}"], both["n"])
    np.testing.assert_allclose(found["difference"], found["accuracy_b"] - found["accuracy_a"])
    known = found[found["q"].notna()]
    assert known["q"].is_monotonic_increasing
    assert ((known["p"] <= 0.05) == ((known["low"] > 0) | (known["high"] < 0))).all()
    said = np.where(known["difference"] > 0, "b", "a")
    assert (known["better"] == np.where(known["q"] <= RATE, said, "neither")).all()
    assert (found[found["q"].isna()]["better"] == UNKNOWN).all()
    assert by == "coreference" or (known["better"] == "b").any()


def test_the_error_is_that_of_the_differences_unit_by_unit(trained, untrained) -> None:
    found = compare_trees(untrained, trained, "trees").set_index(["layer", "head"])
    for place in ((0, 3), (2, 5)):
        rows = pd.MultiIndex.from_tuples([place], names=["layer", "head"])
        hits, n = [], []
        for study in (untrained, trained):
            counts = study.sql("SELECT * FROM trees").rename(columns=NAMES)
            hits.append(in_units(counts, rows, "hits")[0])
            n.append(in_units(counts, rows, "n")[0])
        apart, n = (hits[1] - hits[0])[n[0] > 0], n[0][n[0] > 0]
        left = (apart.sum() - apart) / (n.sum() - n)  # the same words: leave out one unit
        error = np.sqrt((len(n) - 1) * ((left - left.mean()) ** 2).mean())
        row = found.loc[place]
        assert row["high"] - row["difference"] == pytest.approx(t.ppf(0.975, len(n) - 1) * error)
        assert row["p"] == pytest.approx(2 * t.sf(abs(row["difference"]) / error, len(n) - 1))


def test_the_best_heads_are_those_chosen_on_the_other_half(trained, narrow) -> None:
    found = compare_trees(narrow, trained, "best")
    assert {"trees", "coreference"} <= set(found["relation"])
    relations = found[~found["relation"].isin(["trees", "coreference"])]
    for study, side in ((narrow, "a"), (trained, "b")):
        for by, rows in (("relations", relations), ("trees", found.query("relation == 'trees'"))):
            own = getattr(study, by).rename(columns=NAMES).query("chosen")
            own = own if by == "relations" else own.assign(relation="trees", direction="")
            names = {name: f"{name}_{side}" for name in ("layer", "head", "accuracy", "n")}
            keys = ["relation", "direction"]
            both = rows.merge(own[[*keys, *names]], on=keys)
            assert len(both) == len(rows) > 0
            for name, ours in names.items():
                np.testing.assert_array_equal(both[ours], both[name])
    assert found["layer_a"].max() < 4 and found["head_a"].max() < 7


def test_studies_of_other_sentences_are_independent(trained, bert, tmp_path: Path) -> None:
    other = mv.study(bert, "sample", tmp_path / "other", sample=113, seed=5)
    found = compare_trees(trained, other, "trees")
    rows = pd.MultiIndex.from_frame(found[["layer", "head"]])
    sides = []
    for study in (trained, other):
        counts = study.sql("SELECT * FROM trees").rename(columns=NAMES)
        sides.append(jackknife(*(in_units(counts, rows, name) for name in ("hits", "n"))))
    reach = t_quantile(np.minimum(*(side.n_units for side in sides)))
    error = np.hypot(*(side.error for side in sides))
    np.testing.assert_allclose(found["high"] - found["difference"], reach * error)
    assert set(found["better"]) == {"neither"}


def test_what_cannot_be_compared_is_refused(trained: Study, narrow: Study) -> None:
    with pytest.raises(ArgumentError, match='by="best"'):
        compare_trees(trained, narrow)
    with pytest.raises(ArgumentError, match="relations, trees, coreference, best"):
        compare_trees(trained, trained, "charm")
    with pytest.raises(ArgumentError, match="relations, trees, coreference, parts_of_speech"):
        trained.best_heads("charm")
    with pytest.raises(ArgumentError, match=r"bert-base-uncased.*tiny-bert"):
        trained.best_heads("published")


def test_relations_have_the_head_chosen_on_the_other_half(trained: Study) -> None:
    best = trained.best_heads()
    every = trained.relations.query("n >= 20")
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
def test_heads_beat_all_only_where_each_test_says_so(trained: Study, by, score, baselines) -> None:
    found = getattr(trained, by)
    best = best_heads(found.assign(n=20) if by == "coreference" else found, by)
    assert len(best) == trained.n_layers * trained.n_heads
    for row in best.to_dict("records"):
        qs = np.array([row[f"q_{name}"] for name in baselines])
        assert (row["verdict"] == BEATS) == bool((qs <= RATE).all())
        behind = [name for name in baselines if row[score] <= row[name]]
        assert row["verdict"].startswith("not above") == (
            bool(behind) and row["verdict"] not in (BEATS, UNKNOWN)
        )


def test_a_part_of_speech_has_the_head_farthest_above_an_even_spread(trained: Study) -> None:
    best = trained.best_heads("parts_of_speech")
    rows = trained.parts_of_speech.query("n_words >= 20")
    most = rows.groupby(["from_upos", "to_upos"])["difference"].max()
    found = best.set_index(["from_upos", "to_upos"])["difference"]
    pd.testing.assert_series_equal(found.sort_index(), most.sort_index())
    assert best["difference"].is_monotonic_decreasing


def test_too_few_units_have_no_verdict(bert, tmp_path) -> None:
    few = mv.study(bert, "sample", tmp_path / "few", sample=7)
    relations = few.relations.assign(n=20)
    assert set(best_heads(relations, "relations")["verdict"]) == {UNKNOWN}


def test_published_figures_stand_beside_those_of_the_same_model(trained: Study) -> None:
    paper = trained.manifest["model"] | {"name": f"google-bert/{MODEL}"}
    found = Study(trained.folder, {**trained.manifest, "model": paper}).best_heads("published")
    own = trained.best_heads()
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
