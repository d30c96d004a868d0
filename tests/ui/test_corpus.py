"""The Corpus page without a browser: its numbers are the study's."""

import base64
import json
import re

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.run.sample_study import shipped_steps
from mha_viz.corpus.run.study_set import formed
from mha_viz.corpus.treebank.parts_of_speech import PARTS
from mha_viz.corpus.treebank.relations import head_vs_tree
from mha_viz.ui.run.studies import studies
from mha_viz.web.theme import format_number
from tests.making.comparing import near
from tests.ui.compare_app import NAMES, check, figures, said, table
from tests.ui.corpus_app import corpus, making

TEXTS = "The cat sat on the mat.\nA dog ran home because it was late.\nBirds sing.\n"


@pytest.fixture(scope="module")
def page():
    return corpus("corpus-map-table", layer="1", head="2", from_word="because", any_head="1")


@pytest.fixture(scope="module")
def study(page):
    """The same study, opened again from its folder."""
    shown = making(page).study
    assert shown is not None
    return mv.Study.load(shown.folder)


INTERVAL = {"Low": "low", "High": "high"}
NSUBJ = "relation == 'nsubj' and direction == 'to_head'"
PREVIOUS = f"{LABELS['previous_token'].title}: share of texts"
HEAD = "layer == 1 and head == 2"
# The key of the table, the link, what the study says, and its columns by those of the table.
TABLES = {
    "map": (
        "corpus-map-table",
        {},
        lambda study: study.heads.query("metric == 'entropy'"),
        {METRICS["entropy"].title: "mean"} | INTERVAL,
    ),
    "map of a relation": (
        "corpus-map-table",
        dict(kind="relation", arc="nsubj.to_head"),
        lambda study: study.relations.query(NSUBJ).sort_values(["layer", "head"]),
        {"nsubj: dependent looks at head: accuracy": "accuracy"} | INTERVAL,
    ),
    "map of a label": (
        "corpus-map-table",
        dict(kind="previous_token"),
        lambda study: study.sql("SELECT * FROM labels WHERE label = 'previous_token'"),
        {PREVIOUS: "share_of_texts"},
    ),
    "nearest pairs": (
        "corpus-pairs-table",
        dict(measure="cka"),
        lambda study: study.nearest_pairs("cka"),
        {"Mean": "mean"} | INTERVAL,
    ),
    "matrix of pairs": (
        "corpus-pairs-table",
        dict(measure="cka"),
        lambda study: pd.DataFrame(study.pairs("cka"), columns=NAMES),
        {name: name for name in NAMES},
    ),
    "quantiles": (
        "corpus-quantiles-table",
        dict(metric="distance"),
        lambda study: study.heads.query("metric == 'distance'"),
        {name: name for name in ("layer", "head", "n_texts", "q05", "q50", "q95")},
    ),
    "offsets": (
        "corpus-offset-table",
        dict(layer="1", head="2"),
        lambda study: study.profile_by("offset").query(HEAD),
        {"offset": "offset", "weight": "weight"},
    ),
    "kinds": (
        "corpus-kind-table",
        dict(layer="1", head="2"),
        lambda study: study.profile_by("kind").query(HEAD),
        {"kind": "kind", "weight": "weight"},
    ),
}
BEST_HEADS = {  # columns of the first table, by what it answers
    "relations": {"Accuracy": "accuracy", "Offset": "offset_baseline", "q": "q", "n": "n"},
    "trees": {"UUAS": "uuas", "Neighbours": "branching_baseline", "n": "n_arcs"},
    "coreference": {"Accuracy": "accuracy", "Nearest": "nearest_baseline", "Low": "low"},
    "parts_of_speech": {"Weight": "weight", "Spread evenly": "expected", "n": "n_words"},
}


def head_names(frame, side=""):
    heads = zip(frame[f"layer{side}"], frame[f"head{side}"], strict=True)
    return [f"L{layer} H{head}" for layer, head in heads]


def check_columns(shown, expected, columns):
    for title, column in columns.items():
        np.testing.assert_array_equal(shown[title], expected[column])
    if "Head" in shown and "layer" in expected:
        assert shown["Head"].tolist() == head_names(expected)


@pytest.mark.parametrize("case", TABLES)
def test_table_holds_the_numbers_of_the_study(study, case):
    key, link, read, columns = TABLES[case]
    app = corpus(key, **link)
    check(app)
    expected = read(study)
    shown = table(app, *columns, *(["Other head"] if case == "nearest pairs" else []))
    check_columns(shown, expected, columns)
    if case == "nearest pairs":
        assert shown["Other head"].tolist() == head_names(expected, "_b")
    if case == "map of a relation":
        best = expected[expected["chosen"]].iloc[0]
        assert f"L{best['layer']} H{best['head']} " in said(app)
    if case == "map of a label":
        assert (shown["Low"] < shown["High"]).all()
        assert shown[PREVIOUS].between(shown["Low"], shown["High"]).all()


@pytest.mark.parametrize("question", BEST_HEADS)
def test_first_table_names_the_best_heads_of_the_study(study, question):
    app = corpus(question=question)
    check(app)
    expected = study.best_heads(question)
    check_columns(app.dataframe[0].value, expected, BEST_HEADS[question])
    if "verdict" in expected:
        n_best = int((expected["verdict"] == "beats all").sum())
        assert any(f": {n_best} of {len(expected)}**" in part.value for part in app.markdown)


def test_histogram_of_a_head_counts_its_texts(study):
    app = corpus("corpus-histogram-table", metric="distance", head="2", layer="1")
    check(app)
    bins = table(app, "from", "to", "texts")
    values = study.texts.filter("layer = 1 and head = 2").df()["distance"].to_numpy()
    for low, high, n in bins.itertuples(index=False):
        assert n == ((values >= low) & (values < high)).sum()
    assert bins["texts"].sum() == study.n_texts
    stored = study.sql("SELECT * FROM histogram WHERE metric = 'distance'")
    assert len(bins) > 2 * len(stored.query("layer == 1 and head == 2")) > 0


def test_the_labels_are_the_study_s_with_share_and_baseline(page, study):
    shown = table(page, "Label", "Share of texts", "Baseline")
    assert not study.labels.empty
    assert shown["Label"].tolist() == [LABELS[key].title for key in study.labels["label"]]
    for column, name in (("Share of texts", "share_of_texts"), ("Baseline", "baseline")):
        np.testing.assert_array_equal(shown[column], study.labels[name])


@pytest.mark.parametrize("any_length", ["", "1"])
def test_a_head_s_examples_are_the_strongest_with_a_link_that_opens_each(study, any_length):
    app = corpus(layer="1", head="2", **({"any_length": any_length} if any_length else {}))
    found = study.examples(1, 2, by="entropy", k=5, match_length=not any_length)
    lines = [part.value for part in app.markdown if "&layer=1&head=2)" in part.value]
    examples = [line for line in lines if " – " in line]
    values, means = ([format_number(v) for v in found[name]] for name in ("value", "class_mean"))
    assert [line.split("**")[1] for line in examples] == values
    baselines = [re.search(r"\((.+): (.+?)\)", line) for line in examples]
    assert [match[2] for match in baselines if match] == means
    lengths = [
        [] if any_length else [str(low), str(high)] if low < high else [str(low)]
        for low, high in zip(found["class_from"], found["class_to"], strict=True)
    ]
    assert [re.findall(r"\d+", match[1]) for match in baselines if match] == lengths
    n_tokens = [int(line.split("**, ")[1].split(" ")[0]) for line in examples]
    assert n_tokens == found["n_tokens"].tolist()
    assert all("](./?model=tiny-bert&text=" in line for line in examples)


def lines_of(app):
    """The sentences with arcs on the page, as the browser gets them."""
    shown = [part.proto for part in app.get("bidi_component")]
    lines = [one for one in shown if one.component_name == "mha_viz.sentence_arcs"]
    return [json.loads(one.json) for one in lines]


def test_an_example_is_drawn_with_the_heaviest_weights_of_that_head(page, study):
    found = study.examples(1, 2, by="entropy", k=5)
    lines = lines_of(page)
    assert len(lines) == len(found) == 5
    for line, text in zip(lines, found["text_id"], strict=True):
        tokens = study.sql(f"SELECT tokens FROM sentences WHERE text_id = {text}")["tokens"][0]
        assert [piece["text"] for piece in line["pieces"]] == list(tokens)
        edges = study.sql(
            f"SELECT * FROM edges WHERE text_id = {text} AND layer = 1 AND head = 2"
        ).nlargest(24, "weight", keep="all")
        drawn = {(arc["start"], arc["end"]): arc["weight"] for arc in line["above"]}
        expected = {(e.query, e.key): e.weight for e in edges.itertuples()}
        assert drawn == near(expected) and not line["below"]


def test_the_gold_tree_is_drawn_with_what_the_head_follows(study):
    app = corpus(gold="1", layer="1", head="0")
    check(app)
    found = study.examples(1, 0, by="entropy", k=5)
    model = mv.load("tiny-bert")
    for line, text in zip(lines_of(app), found["text_id"], strict=True):
        sentence = study.sentence(int(text))
        tree = head_vs_tree(model.trace(sentence.text), sentence, 1, 0)
        assert [piece["text"] for piece in line["pieces"]] == [w.form for w in sentence.words]
        drawn = [(a["start"], a["end"], a["label"], a["marked"]) for a in line["above"]]
        arcs = [(a.head, a.dependent, a.relation, a.to_head or a.to_dependent) for a in tree.arcs]
        assert drawn == arcs
        assert [(a["start"], a["end"]) for a in line["below"]] == [look[:2] for look in tree.looks]
        hits = sum(arc[3] for arc in arcs)
        assert f"{hits} of {len(arcs)} arcs" in said(app).replace("\\", "")


def test_a_head_s_relations_stand_beside_their_baselines_those_that_beat_both_first(page, study):
    shown = table(page, "Relation", "Accuracy", "Offset", "Random", "Beats both")
    own = study.relations.query("layer == 1 and head == 2 and n >= 20")
    assert len(shown) == min(12, len(own))
    beats = own["beats"]
    assert shown["Beats both"].tolist()[: int(beats.sum())] == [True] * min(12, int(beats.sum()))
    best = own[~beats].sort_values("accuracy", ascending=False).iloc[0]
    row = shown[~shown["Beats both"]].iloc[0]
    columns = ["n", "accuracy", "low", "high", "offset_baseline", "random_baseline"]
    assert row[["n", "Accuracy", "Low", "High", "Offset", "Random"]].tolist() == (
        best[columns].tolist()
    )


def test_its_tree_and_its_antecedents_stand_beside_their_baselines(page, study):
    tree = study.trees.query("layer == 1 and head == 2").iloc[0]
    mentions = study.coreference.query("layer == 1 and head == 2").iloc[0]
    ours = [tree[c] for c in ("uuas", "low", "high", "branching_baseline", "random_baseline")]
    columns = ("accuracy", "low", "high", "nearest_baseline", "same_word_baseline")
    theirs = [mentions[c] for c in (*columns, "random_baseline")]
    for numbers in (ours, theirs):
        texts = [format_number(value) for value in numbers]
        assert any(all(text in part.value for text in texts) for part in page.markdown)


def test_parts_of_speech_are_the_study_s_17_by_17_with_their_numbers(page, study):
    own = study.parts_of_speech.query("layer == 1 and head == 2").set_index(
        ["from_upos", "to_upos"]
    )
    (figure,) = (one for one in figures(page) if "part of speech" in str(one["layout"]["title"]))
    heat = figure["data"][0]
    shown = np.frombuffer(base64.b64decode(heat["z"]["bdata"]), heat["z"]["dtype"])
    shown = shown.reshape(len(PARTS), len(PARTS))
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
    asked = dict(any_head="1", min_weight="0.5")
    app = corpus(from_upos="VERB", along="obj.to_dependent", **asked)
    check(app)
    found = study.search(
        relation="obj", direction="to_dependent", query_upos="VERB", min_weight=0.5
    )
    assert f": **{len(found)}**" in said(app) and len(found)
    for row in found.head(20).to_dict("records"):
        assert f"&query={row['query']}&key={row['key']}" in said(app)
    app = corpus(to_word=",", previous="1", **asked)
    check(app)
    found = study.search(key=",", previous=True, min_weight=0.5)
    assert f": **{len(found)}**" in said(app) and len(found)


def test_texts_without_trees_say_so_and_leave_out_what_asks_for_them():
    key = studies().add_texts(TEXTS.encode(), "")
    app = corpus(corpus=key, kind="relation", from_upos="VERB", along="obj.to_head", gold="1")
    check(app)
    assert app.info and not app.session_state.view.along and len(lines_of(app)) == 3


def test_the_search_marks_both_words_of_what_the_study_finds(page, study):
    found = study.search(query="because", limit=100)
    assert f": **{len(found)}**" in said(page)
    rows = [part.value for part in page.markdown if "because → " in part.value]
    assert len(rows) == min(20, len(found)) > 0
    for line, row in zip(rows, found.to_dict("records"), strict=False):
        assert line.startswith(f"**{format_number(row['weight'])}** L{row['layer']} H{row['head']}")
        assert ":violet-background[because]" in line.lower()
        assert f"&query={row['query']}&key={row['key']}" in line


def test_a_metric_over_the_steps_of_a_training_is_that_of_the_table():
    steps = shipped_steps("tiny-gpt2")
    named = dict(model="tiny-gpt2", layer="2", head="3", over="induction")
    app = corpus("corpus-steps-table", **named)
    check(app)
    shown = table(app, "step", "mean", "holds")
    expected = steps[steps["name"] == "induction"].drop(columns="name")
    np.testing.assert_array_equal(shown["mean"], expected["mean"])
    first = formed(steps, "induction")
    assert f" {first['step']:,} (L{first['layer']} H" in said(app)
    assert "L2 H3" in [trace.get("name") for trace in figures(app)[-1]["data"]]
    app = corpus(model="tiny-gpt2", over="charm")  # which no training has
    check(app)
    assert app.session_state.view.over == "previous_token"
