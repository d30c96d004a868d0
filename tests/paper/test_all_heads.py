"""All heads of a study in two measures: its numbers, and nothing else."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.errors import ArgumentError
from mha_viz.paper.all_heads import (
    ScatterChoices,
    label_measure,
    metric_measure,
    relation_measure,
    scatter,
)


@pytest.fixture(scope="module")
def study() -> mv.Study:
    return mv.Study.load(shipped_folder() / "tiny-bert" / "sample_study")


def of_metric(rows, metric, column="mean"):
    return rows[rows["metric"] == metric].sort_values(["layer", "head"])[column].to_numpy()


def test_scatter_holds_the_means_and_intervals_of_both_models(study):
    entropy = metric_measure(study, "entropy")
    choices = ScatterChoices("distance", "self_token", entropy, intervals=True)
    made = scatter(study, choices, head=(1, 2), heads=[(0, 3), (2, 5)])
    untrained = study.sql("SELECT * FROM untrained_heads")
    random, heads, ringed, chosen = made.draw().data
    for trace, rows in ((heads, study.heads), (random, untrained)):
        np.testing.assert_array_equal(trace.x, of_metric(rows, "distance"))
        np.testing.assert_array_equal(trace.y, of_metric(rows, "self_token"))
    assert random.customdata is None and list(heads.customdata[11]) == [1, 3]
    np.testing.assert_array_equal(heads.marker.color, of_metric(study.heads, "entropy"))
    for bars, axis in ((heads.error_x, "distance"), (heads.error_y, "self_token")):
        mean, low, high = (of_metric(study.heads, axis, name) for name in ("mean", "low", "high"))
        np.testing.assert_allclose(bars.array, high - mean)
        np.testing.assert_allclose(bars.arrayminus, mean - low)
    assert [list(head) for head in ringed.customdata] == [[0, 3], [2, 5]]
    assert [list(head) for head in chosen.customdata] == [[1, 2]]
    table = made.table
    assert table["Head"].tolist() == [f"L{i} H{j}" for i in range(4) for j in range(8)]
    np.testing.assert_array_equal(
        table["Distance (tokens), low"], of_metric(study.heads, "distance", "low")
    )
    np.testing.assert_array_equal(
        table["Same position, random weights"], of_metric(untrained, "self_token")
    )
    bare = scatter(study, ScatterChoices("layer", "head", untrained=False)).draw()
    (heads,) = bare.data
    assert heads.x.tolist() == [i for i in range(4) for _ in range(8)]
    assert heads.y.tolist() == [*range(8)] * 4 and heads.error_x.array is None
    with pytest.raises(ArgumentError, match="charm"):
        scatter(study, ScatterChoices("charm", "head"))


def test_scatter_as_wide_as_a_column_is_a_file(study):
    assert scatter(study).image("pdf").startswith(b"%PDF")


def test_measures_of_labels_and_relations_are_those_of_the_study(study):
    shares = study.sql("SELECT * FROM labels WHERE label = 'previous_token'")
    measure = label_measure(study, "previous_token")
    expected = shares.sort_values(["layer", "head"])["share_of_texts"]
    np.testing.assert_array_equal(measure.values.ravel(), expected)
    assert (measure.low <= measure.values).all() and (measure.values <= measure.high).all()
    rows = study.relations.query("relation == 'det' and direction == 'to_head'")
    measure = relation_measure(study, "det.to_head")
    np.testing.assert_array_equal(measure.values[rows["layer"], rows["head"]], rows["accuracy"])
