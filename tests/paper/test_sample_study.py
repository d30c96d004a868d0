"""The shipped study in figures and sentences: all heads, the spaces of one, and its labels."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.core.amounts import format_number
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.sample_study import FOLDER
from mha_viz.errors import ArgumentError
from mha_viz.paper.all_heads import (
    ScatterChoices,
    label_measure,
    metric_measure,
    relation_measure,
    scatter,
)
from mha_viz.paper.head_sentence import head_sentence
from mha_viz.paper.space_figures import colourings, spaces_figure, token_colours


@pytest.fixture(scope="module")
def study() -> Study:
    return Study.load(shipped_folder() / "tiny-bert" / FOLDER)


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


def test_measures_of_labels_and_relations_are_those_of_the_study(study):
    shares = study.sql("SELECT * FROM labels WHERE label = 'previous_token'")
    measure = label_measure(study, "previous_token")
    expected = shares.sort_values(["layer", "head"])["share_of_texts"]
    np.testing.assert_array_equal(measure.values.ravel(), expected)
    assert (measure.low <= measure.values).all() and (measure.values <= measure.high).all()
    rows = study.relations.query("relation == 'det' and direction == 'to_head'")
    measure = relation_measure(study, "det.to_head")
    np.testing.assert_array_equal(measure.values[rows["layer"], rows["head"]], rows["accuracy"])


N = 211


@pytest.fixture(scope="module")
def spaces(study: Study) -> mv.HeadSpaces:
    model = mv.load("tiny-bert")
    return mv.head_spaces(model, study.sample_texts(43), 1, 3, max_tokens=N)


def test_parts_of_speech_are_those_of_the_gold_trees(study: Study, spaces: mv.HeadSpaces) -> None:
    colours = token_colours(study, spaces, "speech")
    ids = dict(study.sql("SELECT text, text_id FROM sentences").itertuples(index=False))
    checked = 0
    for token, text, shown in zip(spaces.tokens, spaces.text, colours.values, strict=True):
        name = colours.names[shown]
        if token.is_special:
            assert name in ("special token", "other")
            continue
        words = study.sentence(ids[spaces.texts[int(text)]]).words
        parts = {word.upos for word in words if word.start <= token.start < word.end}
        assert name in parts or (name == "other" and parts.isdisjoint(colours.names))
        checked += 1
    assert checked > N / 2 and len(colours.names) == 8


def test_frequent_tokens_have_a_colour_each(study: Study, spaces: mv.HeadSpaces) -> None:
    colours = token_colours(study, spaces, "token")
    labels = np.array([token.text for token in spaces.tokens])
    names, counts = np.unique(labels, return_counts=True)
    assert colours.names[-1] == "other"
    least = min(counts[names == name].item() for name in colours.names[:-1])
    assert least >= np.sort(counts)[-7]
    for name, shown in zip(labels, colours.values, strict=True):
        assert colours.names[shown] in (name, "other")


def test_kinds_positions_and_received_weights(study: Study, spaces: mv.HeadSpaces) -> None:
    kinds = token_colours(study, spaces, "kind")
    of_token = {token: kinds.names[i] for token, i in zip(spaces.tokens, kinds.values, strict=True)}
    for token, kind in of_token.items():
        assert (kind == "special token") == token.is_special
        assert (kind == "punctuation") == (not any(map(str.isalnum, token.text)))
    assert {"first piece of a word", "later piece of a word"} <= set(kinds.names)
    for by, numbers in {"position": spaces.position, "received": spaces.received}.items():
        colours = token_colours(study, spaces, by)
        assert colours.names == () and np.array_equal(colours.values, numbers.numpy())
    with pytest.raises(ArgumentError, match="colour"):
        token_colours(study, spaces, "colour")
    assert "speech" in colourings(study)


def test_the_figure_shows_the_coordinates_that_its_table_has(study, spaces) -> None:
    figure = spaces_figure(spaces, token_colours(study, spaces), (2, 4))
    drawn = figure.draw(dark=True)
    for trace, space in zip(drawn.data, ("queries", "keys", "values", "outputs"), strict=False):
        assert np.array_equal(trace.x, figure.table[f"{space} 3"])
        assert np.array_equal(trace.y, figure.table[f"{space} 5"])
    share = float(spaces.explained[0, 2])
    assert drawn.layout.xaxis.title.text == f"PC 3: {100 * share:.3g} %"
    assert "L1 H3" in figure.caption and f"{N} tokens" in figure.caption
    with pytest.raises(ArgumentError, match="several panels"):
        figure.image("svg")
    with pytest.raises(ArgumentError, match="component"):
        spaces_figure(spaces, token_colours(study, spaces), (0, 1), (0, 8))


def test_a_head_with_labels_is_named_by_the_clearest(study: Study) -> None:
    text = head_sentence(study, (0, 3), study.relations)
    label = study.labels.query("layer == 0 and head == 3 and label == 'previous_token'").iloc[0]
    numbers = [format_number(label[name]) for name in ("mean", "low", "high", "baseline")]
    assert text.startswith(f"L0 H3 looks at the previous token: {numbers[0]} of the weight")
    assert "(95 % interval {1} to {2}; baseline {3})".format(*numbers) in text
    assert f"{format_number(100 * label['share_of_texts'])} % of single texts" in text
    assert "“Local”" in text


def test_a_head_without_labels_is_named_by_its_most_unusual_metric(study: Study) -> None:
    text = head_sentence(study, (3, 2))
    wide = study.heads.pivot(index=["layer", "head"], columns="metric", values="mean").dropna(
        axis=1
    )
    apart = (wide - wide.median()).abs()
    metric = (apart.loc[(3, 2)] / apart.median()).idxmax()
    own, middle = wide.loc[(3, 2), metric], wide[metric].median()
    assert "earns no label" in text and mv.METRICS[metric].title in text
    assert f": {format_number(own)}" in text
    assert f"median of all heads {format_number(middle)}" in text


def test_a_relation_is_chosen_on_one_half_and_told_of_the_other(study: Study) -> None:
    rows = study.relations.query("layer == 3 and head == 2 and beats and relation != 'all'")
    best = rows.loc[rows["chosen_on"].idxmax()]
    text = head_sentence(study, (3, 2))
    numbers = [format_number(best[name]) for name in ("accuracy", "offset_baseline")]
    assert f"It finds {best['relation']} (" in text
    assert f"in {numbers[0]} of {best['n']} cases" in text and f"offset {numbers[1]}" in text


def test_few_texts_have_neither_labels_nor_intervals(tmp_path) -> None:
    few = mv.study(mv.load("tiny-gpt2"), ["The cat sat on the mat."], tmp_path / "few")
    text = head_sentence(few, (1, 5))
    assert "10 independent units" in text and "nan" not in text and "interval" not in text
    assert np.isnan(few.heads["low"]).all()
    with pytest.raises(ArgumentError, match="layer"):
        head_sentence(few, (4, 0))
