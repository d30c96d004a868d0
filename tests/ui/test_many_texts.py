"""The page Many texts without a browser: its numbers are the study's."""

import json

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.core.metrics import METRICS
from mha_viz.corpus.query.comparison import (
    compare_matched,
    compare_trees,
    compare_with_random,
)
from mha_viz.corpus.run.sample_study import shipped_steps
from mha_viz.corpus.run.study_set import formed
from mha_viz.corpus.treebank.parts_of_speech import PARTS
from mha_viz.corpus.treebank.relations import head_vs_tree
from mha_viz.ui.many_texts import two_studies
from mha_viz.ui.run import memory, studies
from mha_viz.ui.state.views import TITLES
from tests.making.comparing import close, near
from tests.ui.compare_app import check, figures, numbers, said, table
from tests.ui.many_texts_app import making, many_texts
from tests.ui.opening import components

TEXTS = "The cat sat on the mat.\nA dog ran home because it was late.\nBirds sing.\n"


@pytest.fixture(scope="module")
def page():
    return many_texts(tab="grammar", layer="1", head="2")


@pytest.fixture(scope="module")
def study(page):
    """The same study, opened again from its folder."""
    shown = making(page).study
    assert shown is not None
    return mv.Study.load(shown.folder)


def test_the_tabs_switch_between_five_views_of_one_study(study):
    app = many_texts("fold-spread", "fold-pairs")
    drawn = {}
    for tab in TITLES["tabs"]:
        check(app.segmented_control(key="ask_tab").set_value(tab).run())
        assert app.session_state.view.tab == tab
        drawn[tab] = {json.dumps(figure["data"]) for figure in figures(app)}
        labelled = study.labels.drop_duplicates(["layer", "head"])
        assert f"{len(labelled)} of 32 heads earn a label" in said(app)
    assert len(drawn["heads"]) == 3  # the scatter, the spread, the pairs
    assert not set.intersection(*drawn.values())


def test_the_scatter_follows_its_menus_and_the_lasso_filters_the_labels(study):
    app = many_texts(lasso="0.3,2.6,9.9", x_axis="distance", y_axis="charm", untrained="0")
    check(app)
    view = app.session_state.view
    assert view.lasso == ((0, 3), (2, 6)) and view.y_axis == "first_token"
    _, ringed, chosen = figures(app)[0]["data"]
    assert ringed["customdata"] == [[0, 3], [2, 6]] and chosen["customdata"] == [list(view.chosen)]
    shown = table(app, "Label", "Share of texts")
    assert set(shown["Head"]) <= {"L0 H3", "L2 H6"} and "2 heads selected" in said(app)
    app.selectbox(key="colour").set_value("label previous_token").run()
    check(app)
    shares = study.sql("SELECT * FROM labels WHERE label = 'previous_token' ORDER BY layer, head")
    colours = numbers(figures(app)[0]["data"][0]["marker"]["color"])
    np.testing.assert_array_equal(colours, shares["share_of_texts"])
    app.button(key="many-clear").click().run()
    assert app.session_state.view.lasso == () and len(table(app, "Label")) == len(study.labels)


INTERVAL = {"Low": "low", "High": "high"}
NSUBJ = "relation == 'nsubj' and direction == 'to_head'"
# The key of the table, the link, what the study says, and its columns by those of the table.
TABLES = {
    "map": (
        "many-map-table",
        dict(picture="map"),
        lambda study: study.heads.query("metric == 'entropy'"),
        {METRICS["entropy"].title: "mean"} | INTERVAL,
    ),
    "map of a relation": (
        "many-map-table",
        dict(picture="map", kind="relation", arc="nsubj.to_head"),
        lambda study: study.relations.query(NSUBJ).sort_values(["layer", "head"]),
        {"nsubj: dependent looks at head: accuracy": "accuracy"} | INTERVAL,
    ),
}


def head_names(frame, side=""):
    heads = zip(frame[f"layer{side}"], frame[f"head{side}"], strict=True)
    return [f"L{layer} H{head}" for layer, head in heads]


@pytest.mark.parametrize("case", TABLES)
def test_table_holds_the_numbers_of_the_study(study, case):
    key, link, read, columns = TABLES[case]
    app = many_texts(key, **link)
    check(app)
    expected = read(study)
    shown = table(app, *columns)
    for title, column in columns.items():
        np.testing.assert_array_equal(shown[title], expected[column])
    assert shown["Head"].tolist() == head_names(expected)
    if case == "map of a relation":
        best = expected[expected["chosen"]].iloc[0]
        assert f"L{best['layer']} H{best['head']} " in said(app)


def test_the_gold_tree_is_drawn_with_what_the_head_follows(study):
    app = many_texts(tab="find", gold="1", layer="1", head="0")
    check(app)
    found = study.examples(1, 0, by="entropy", k=5)
    model = mv.load("tiny-bert")
    for proto, text in zip(components(app, "sentence_arcs"), found["text_id"], strict=True):
        line = json.loads(proto.json)
        sentence = study.sentence(int(text))
        tree = head_vs_tree(model.trace(sentence.text), sentence, 1, 0)
        assert [piece["text"] for piece in line["pieces"]] == [w.form for w in sentence.words]
        drawn = [(a["start"], a["end"], a["label"], a["marked"]) for a in line["above"]]
        arcs = [(a.head, a.dependent, a.relation, a.to_head or a.to_dependent) for a in tree.arcs]
        assert drawn == arcs
        below = [(arc["start"], arc["end"]) for arc in line["below"]]
        assert below == [key[:2] for key in tree.strongest]
        hits = sum(arc[3] for arc in arcs)
        assert f"{hits} of {len(arcs)} arcs" in said(app).replace("\\", "")


def test_parts_of_speech_are_the_study_s_17_by_17_with_their_numbers(page, study):
    own = study.parts_of_speech.query("layer == 1 and head == 2").set_index(
        ["from_upos", "to_upos"]
    )
    (figure,) = (one for one in figures(page) if "part of speech" in str(one["layout"]["title"]))
    shown = numbers(figure["data"][0]["z"]).reshape(len(PARTS), len(PARTS))
    for i, start in enumerate(PARTS):
        for j, end in enumerate(PARTS):
            if (start, end) in own.index:
                assert shown[i, j] == near(own.difference[start, end])
            else:
                assert np.isnan(shown[i, j])
    n_nouns = own["n_words"].xs("NOUN").iloc[0]
    assert f"NOUN {n_nouns:,}" in figure["layout"]["yaxis"]["ticktext"]
    words = own["n_words"].groupby("from_upos").first()
    pale = {one["y0"] + 0.5 for one in figure["layout"]["shapes"] if one["layer"] == "above"}
    assert pale == {PARTS.index(part) for part in words.index if words[part] < 20} != set()


def test_the_search_asks_for_parts_of_speech_relations_and_the_previous_one(study):
    asked = dict(tab="find", find="pairs", any_head="1", min_weight="0.5")
    app = many_texts(from_upos="VERB", along="obj.to_dependent", **asked)
    check(app)
    found = study.search(
        relation="obj", direction="to_dependent", query_upos="VERB", min_weight=0.5
    )
    assert f": **{len(found)}**" in said(app) and len(found)
    for row in found.head(20).to_dict("records"):
        assert f"&query={row['query']}&key={row['key']}" in said(app)
    app = many_texts(to_word=",", previous="1", **asked)
    check(app)
    found = study.search(key=",", previous=True, min_weight=0.5)
    assert f": **{len(found)}**" in said(app) and len(found)


def test_a_metric_over_the_steps_of_a_training_is_that_of_the_table():
    steps = shipped_steps("tiny-gpt2")
    named = dict(tab="change", change="training", model="tiny-gpt2", layer="2", head="3")
    app = many_texts("many-steps-table", over="induction", **named)
    check(app)
    shown = table(app, "step", "mean", "holds")
    expected = steps[steps["name"] == "induction"].drop(columns="name")
    np.testing.assert_array_equal(shown["mean"], expected["mean"])
    first = formed(steps, "induction")
    assert f" {first['step']:,} (L{first['layer']} H" in said(app)
    assert "L2 H3" in [trace.get("name") for trace in figures(app)[-1]["data"]]
    app = many_texts(over="charm", **named)  # which no training has
    check(app)
    assert app.session_state.view.over == "previous_token"


def test_the_menu_of_the_atlas_offers_to_make_it_then_to_download_it(study):
    app = many_texts("atlas")
    check(app)
    assert app.button(key="make-atlas").label == "Make the atlas"
    key = "atlas", app.session_state.view.checkpoint, str(study.folder)
    memory.cache().get(key, lambda: b"PK\5\6" + 18 * b"\0", len)
    check(app.run())
    assert not [button for button in app.button if button.key == "make-atlas"]
    (download,) = (one for one in app.get("download_button") if "atlas" in one.proto.label)
    assert download.proto.label == "Download the atlas"


COLUMNS = {
    "Standard errors": "standard_errors",
    "Difference": "difference",
    "This study": "mean_b",
    "The other": "mean_a",
    "Standard error": "standard_error",
    "Texts": "n_texts",
}


def two(**params):
    """The page with a second study, once that is there, too."""
    app = many_texts(tab="change", **params)
    other = studies.studies().find(two_studies.other_view(app.session_state.view))
    other.wait()
    return app.run()


def check_table(app, expected):
    """The table of the second study has these rows of `compare`, of the metric shown."""
    rows = expected[expected["metric"] == app.session_state.view.metric]
    shown = table(app, "Head", "This study", "The other", "Standard errors")
    assert shown["Head"].tolist() == head_names(rows)
    for name, column in COLUMNS.items():
        close(shown[name], rows[column])
    far = (rows["standard_errors"].abs() >= 3).sum()
    assert f"{far} of {len(rows)} heads" in said(app)


def test_a_study_is_compared_with_random_weights_on_the_same_texts(study):
    page = many_texts(tab="change")
    check_table(page, compare_with_random(study))
    assert "0.1 of 32" in said(page) and " 1.5 " in said(page)  # by chance alone


@pytest.mark.parametrize("by", ["trees", "best", "matched"])
def test_two_studies_are_compared_by_what_heads_find_in_trees(by):
    app = two(corpus_model_b="tiny-gpt2", compared=by)
    check(app)
    view = app.session_state.view
    ours, theirs = (
        studies.studies().find(one).study for one in (view, two_studies.other_view(view))
    )
    if by == "matched":
        expected, shown = compare_matched(theirs, ours), table(app, "Head", "As near")
        for title, side in (("Head", "_b"), ("The other’s head", "_a")):
            assert shown[title].tolist() == head_names(expected, side)
        close(shown["Distance"], expected["distance"])
        return
    expected = compare_trees(theirs, ours, by)
    shown = table(app, "This study", "Better")
    sides = {"This study": "accuracy_b", "The other": "accuracy_a", "Difference": "difference"}
    for title, column in (sides | INTERVAL).items():
        close(shown[title], expected[column])
    for text, q in zip(shown["q"], expected["q"], strict=True):
        assert (
            text == "< 0.001"
            if q < 0.001
            else float(text) == pytest.approx(q, abs=5e-4, nan_ok=True)
        )
    sure, known = (expected["q"] <= 0.05).sum(), expected["q"].notna().sum()
    assert f": {sure} of {known} differ" in said(app)
    better = {"a": "the other", "b": "this study"}
    assert shown["Better"].tolist() == [better.get(one, one) for one in expected["better"]]
