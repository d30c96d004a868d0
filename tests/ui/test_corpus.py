"""The Corpus page without a browser: its numbers are the study's, and what visitors may give it."""

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.compare import compare, compare_with_random
from mha_viz.corpus.followed import followed
from mha_viz.corpus.run import study as make_study
from mha_viz.corpus.speech import PARTS
from mha_viz.errors import ArgumentError
from mha_viz.ui.corpus import comparing
from mha_viz.ui.session import own_address, studies
from mha_viz.ui.session.views import DEFAULT, SAME_MODEL
from mha_viz.web.theme import format_number
from tests.ui.compare_app import check, figures, said, table
from tests.ui.corpus_app import corpus, made, making

TEXTS = "The cat sat on the mat.\nA dog ran home because it was late.\nBirds sing.\n"


@pytest.fixture(scope="module")
def page():
    return corpus("corpus-map-table", layer="1", head="2", from_word="because", any_head="1")


@pytest.fixture(scope="module")
def study(page):
    """The same study, opened again from its folder."""
    return mv.Study.load(making(page).folder)


def test_it_opens_on_a_study_of_the_sample_and_its_map_says_what_the_study_says(page, study):
    check(page)
    assert f"{study.n_texts:,} sentences of the sample" in said(page)
    title = METRICS["entropy"].title
    shown = table(page, "Head", title, "Low", "High")
    expected = study.heads.query("metric == 'entropy'")
    assert shown["Head"].tolist() == [f"L{i} H{j}" for i in range(4) for j in range(8)]
    for column, name in ((title, "mean"), ("Low", "low"), ("High", "high")):
        np.testing.assert_array_equal(shown[column], expected[name])


def test_the_labels_are_the_study_s_with_share_and_baseline(page, study):
    shown = table(page, "Label", "Share of texts", "Baseline")
    assert not study.labels.empty
    assert shown["Label"].tolist() == [LABELS[key].title for key in study.labels["label"]]
    for column, name in (("Share of texts", "share_of_texts"), ("Baseline", "baseline")):
        np.testing.assert_array_equal(shown[column], study.labels[name])


def test_a_head_s_profiles_are_the_study_s_in_the_order_in_which_kinds_are_told():
    app = corpus("corpus-offset-table", "corpus-kind-table", layer="1", head="2")
    study = making(app).study
    for axis in ("offset", "kind"):
        expected = study.profile_by(axis).query("layer == 1 and head == 2")
        shown = table(app, axis, "weight")
        assert shown[axis].tolist() == expected[axis].tolist()
        np.testing.assert_array_equal(shown["weight"], expected["weight"])
    kinds = ["itself", "same token", "special", "punctuation", "first", "other"]
    assert shown["kind"].tolist() == [kind for kind in kinds if kind in set(shown["kind"])]


def test_a_head_s_examples_are_the_strongest_with_a_link_that_opens_each(page, study):
    found = study.examples(1, 2, by="entropy", k=5)
    lines = [part.value for part in page.markdown if "&layer=1&head=2)" in part.value]
    examples = [line for line in lines if " – " in line]
    assert [line.split("**")[1] for line in examples] == [format_number(v) for v in found["value"]]
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
        assert drawn == pytest.approx(expected) and not line["below"]


def test_the_gold_tree_is_drawn_with_what_the_head_follows(study):
    app = corpus(gold="1", layer="1", head="0")
    check(app)
    found = study.examples(1, 0, by="entropy", k=5)
    model = mv.load("tiny-bert")
    for line, text in zip(lines_of(app), found["text_id"], strict=True):
        sentence = study.sentence(int(text))
        tree = followed(model.trace(sentence.text), sentence, 1, 0)
        assert [piece["text"] for piece in line["pieces"]] == [w.form for w in sentence.words]
        drawn = [(a["start"], a["end"], a["label"], a["marked"]) for a in line["above"]]
        arcs = [(a.head, a.dependent, a.relation, a.to_head or a.to_dependent) for a in tree.arcs]
        assert drawn == arcs
        assert [(a["start"], a["end"]) for a in line["below"]] == [look[:2] for look in tree.looks]
        hits = sum(arc[3] for arc in arcs)
        assert f"The head follows {hits} of {len(arcs)} arcs" in said(app).replace("\\", "")


def test_a_head_s_relations_stand_beside_their_baselines_those_that_beat_both_first(page, study):
    shown = table(page, "Relation", "Accuracy", "Offset", "Random", "Beats both")
    own = study.relations.query("layer == 1 and head == 2 and n >= 20")
    assert len(shown) == min(12, len(own))
    beats = own["low"] > own[["offset_baseline", "random_baseline"]].max(axis=1)
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
    for numbers, words in ((ours, "gold arcs"), (theirs, "mentions it looks")):
        (line,) = (part.value for part in page.markdown if words in part.value)
        assert all(format_number(value) in line for value in numbers)


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
                assert shown[i, j] == pytest.approx(own.difference[start, end], abs=1e-6)
            else:
                assert np.isnan(shown[i, j])
    n_nouns = own["n_words"].xs("NOUN").iloc[0]
    assert f"NOUN {n_nouns:,}" in figure["layout"]["yaxis"]["ticktext"]


def test_the_spread_over_texts_is_of_the_chosen_metric(study):
    app = corpus(
        "corpus-quantiles-table", "corpus-histogram-table", metric="distance", head="2", layer="1"
    )
    check(app)
    shown = table(app, "layer", "head", "q05", "q95")
    expected = study.heads.query("metric == 'distance'")
    for name in ("n_texts", "q05", "q50", "q95"):
        np.testing.assert_array_equal(shown[name], expected[name])
    bins = table(app, "from", "to", "texts")
    values = study.texts.filter("layer = 1 and head = 2").df()["distance"].to_numpy()
    for low, high, n in bins.itertuples(index=False):
        assert n == ((values >= np.float32(low)) & (values < np.float32(high))).sum()
    assert bins["texts"].sum() == study.n_texts


def test_a_relation_colours_the_heads_by_their_accuracy_with_its_interval(study):
    app = corpus("corpus-map-table", kind="relation", arc="nsubj.to_head")
    check(app)
    title = "nsubj: dependent looks at head: accuracy"
    shown = table(app, "Head", title, "Low", "High")
    rows = study.relations.query("relation == 'nsubj' and direction == 'to_head'")
    rows = rows.sort_values(["layer", "head"])
    for column, name in ((title, "accuracy"), ("Low", "low"), ("High", "high")):
        np.testing.assert_array_equal(shown[column], rows[name])
    offered = study.relations[["relation", "direction"]].drop_duplicates()
    (menu,) = (one for one in app.selectbox if one.label == "Relation")
    assert len(menu.options) == len(offered)
    best = rows[rows["chosen"]].iloc[0]
    assert f"L{best['layer']} H{best['head']} was chosen" in said(app)


def test_the_search_asks_for_parts_of_speech_relations_and_the_previous_one(study):
    asked = dict(any_head="1", min_weight="0.5")
    app = corpus(from_upos="VERB", along="obj.to_dependent", **asked)
    check(app)
    found = study.search(
        relation="obj", direction="to_dependent", query_upos="VERB", min_weight=0.5
    )
    assert f"Found: **{len(found)}**" in said(app) and len(found)
    for row in found.head(20).to_dict("records"):
        assert f"&query={row['query']}&key={row['key']}" in said(app)
    app = corpus(to_word=",", previous="1", **asked)
    check(app)
    found = study.search(key=",", previous=True, min_weight=0.5)
    assert f"Found: **{len(found)}**" in said(app) and len(found)


def test_texts_without_trees_say_so_and_leave_out_what_asks_for_them():
    app = corpus("own-texts")
    app.text_area(key="own-typed").set_value(TEXTS)
    app = made(app.button(key="own-study").click().run())
    key = app.session_state.view.corpus
    again = corpus(corpus=key, kind="relation", from_upos="VERB", along="obj.to_head", gold="1")
    check(again)
    assert "These texts have no gold trees" in said(again)
    assert not again.session_state.view.along and len(lines_of(again)) == 3
    assert "Along the relation" not in [menu.label for menu in again.selectbox]


def test_the_search_marks_both_words_of_what_the_study_finds(page, study):
    found = study.search(query="because", limit=100)
    assert f"Found: **{len(found)}**" in said(page)
    rows = [part.value for part in page.markdown if "because → " in part.value]
    assert len(rows) == min(20, len(found)) > 0
    for line, row in zip(rows, found.to_dict("records"), strict=False):
        assert line.startswith(f"**{format_number(row['weight'])}** L{row['layer']} H{row['head']}")
        assert ":violet-background[because]" in line.lower()
        assert f"&query={row['query']}&key={row['key']}" in line


def test_a_label_colours_the_heads_by_its_share_of_texts(page, study):
    app = corpus("corpus-map-table", kind="previous_token")
    check(app)
    title = f"{LABELS['previous_token'].title}: share of texts"
    expected = study.sql("SELECT * FROM labels WHERE label = 'previous_token'")
    shown = table(app, title, "Low", "High")
    np.testing.assert_array_equal(shown[title], expected["share_of_texts"])
    assert (shown["Low"] <= shown[title]).all() and (shown[title] <= shown["High"]).all()
    assert (shown["Low"] < shown["High"]).all()


def test_texts_of_one_s_own_are_studied_and_the_link_finds_them_again(tmp_path):
    app = corpus("own-texts")
    app.text_area(key="own-typed").set_value(TEXTS)
    app = made(app.button(key="own-study").click().run())
    check(app)
    assert "3 texts of your own" in said(app)
    key = app.session_state.view.corpus
    (tmp_path / "texts.txt").write_text(TEXTS)
    expected = make_study(mv.load("tiny-bert"), tmp_path / "texts.txt", tmp_path / "study")
    shown = making(app).study
    np.testing.assert_allclose(shown.heads["mean"], expected.heads["mean"], atol=1e-6)
    again = corpus("own-texts", corpus=key)
    assert "3 texts of your own" in said(again)
    menu = again.selectbox(key="ask_corpus")
    assert menu.options == ["The sample", "“The cat sat on the mat. A dog ran …”"]
    assert "sentences of the sample" in said(menu.select("").run())


def test_an_uploaded_table_is_studied():
    app = corpus("own-texts")
    table_of_texts = b"name,text\na,The cat sat on the mat.\nb," + b"Birds sing. " * 60 + b"\n"
    app.file_uploader(key="own-file").set_value(("Mine.CSV", table_of_texts, "text/csv"))
    app = made(app.button(key="own-study").click().run())
    check(app)
    assert "2 texts of your own" in said(app)
    told = [one.value for one in app.warning]  # the second text is too long for the model
    assert len(told) == 1 and "Cut to the 128 tokens" in told[0] and "1 of 2 texts" in told[0]


def test_of_one_text_nothing_is_said_that_takes_two():
    app = corpus(corpus=studies.studies().give(b"The cat sat on the mat.", ""))
    check(app)
    assert "neither a spread nor an interval" in said(app)
    assert "it takes two texts or more" in said(app)


def test_what_cannot_be_studied_is_a_sentence():
    app = corpus("own-texts")
    app = app.button(key="own-study").click().run()
    assert [error.value for error in app.error] == [
        "There is no text yet\\: paste texts, one a line, or choose a file\\."
    ]
    app = app.run()  # all is there again
    check(app)
    keep = studies.Studies().give
    for content, name, words in (
        (b"x" * 3_000_000, "a.txt", "at most 2 MB"),
        (b"x" * 3_000_000, "", "at most 2 MB"),
        (b"x", "a.exe", "must end in"),
        (b"x", "a.txt.gz", "must end in"),
        (b"x", "txt", "must end in"),
    ):
        with pytest.raises(ArgumentError, match=words):
            keep(content, name)


def test_a_link_to_what_is_not_there_opens_on_what_is():
    app = corpus(corpus="own_gone", layer="99", head="0", metric="nothing", kind="nothing")
    assert not app.exception and not app.error
    assert "sentences of the sample" in said(app)
    view = app.session_state.view
    assert view.corpus == "" and view.layer < 4 and view.metric == "entropy" and view.kind == ""


def test_two_visitors_make_one_study_which_stops_and_goes_on():
    model, kept = mv.load("tiny-bert"), studies.Studies()
    view = replace(DEFAULT, corpus=kept.give(TEXTS.encode(), ""))
    kept.begin(view, model)
    found = kept.find(view)
    found.stop()
    begun = found._thread
    kept.begin(view, model)
    assert found._thread is begun or not begun.is_alive()
    found.stop()
    found.wait()
    assert found.study is None and found.error is None and not found.runs
    kept.begin(view, model)
    found.wait()
    assert found.study.n_texts == 3


def test_only_so_many_studies_are_kept():
    kept = studies.Studies()
    views = [
        replace(DEFAULT, corpus=kept.give(f"Text {i}.".encode(), ""))
        for i in range(studies.KEPT + 2)
    ]
    assert [kept.find(view) is None for view in views] == [True] * 2 + [False] * studies.KEPT


def test_what_waits_for_its_turn_can_be_stopped_before_it_begins():
    model, kept = mv.load("tiny-bert"), studies.Studies()
    view = replace(DEFAULT, corpus=kept.give(TEXTS.encode(), ""))
    with kept._turn:  # somebody else's study is made
        kept.begin(view, model)
        found = kept.find(view)
        found.stop()
        found.wait()
    assert found.study is None and found.error is None and not found.folder.exists()


def test_only_who_sits_at_the_machine_is_offered_the_texts_of_earlier_visits(monkeypatch):
    key = studies.studies().give(b"Given by another visit.", "earlier.txt")
    assert "earlier.txt" not in corpus().selectbox(key="ask_corpus").options
    assert "earlier.txt" in corpus(corpus=key).selectbox(key="ask_corpus").options  # has the link
    monkeypatch.setattr(own_address, "only_here", lambda: True)
    assert "earlier.txt" in corpus().selectbox(key="ask_corpus").options


# -- two studies -----------------------------------------------------------------------------------


def two(**params):
    """The page with a second study, once that is there, too."""
    app = corpus(**params)
    other = studies.studies().find(comparing._other(app.session_state.view))
    other.wait()
    return app.run()


def check_table(app, expected):
    """The table of the second study has these rows of `compare`, of the metric shown."""
    rows = expected[expected["metric"] == app.session_state.view.metric]
    shown = table(app, "Head", "This study", "The other", "Standard errors")
    names = [f"L{i} H{j}" for i, j in zip(rows["layer"], rows["head"], strict=True)]
    assert shown["Head"].tolist() == names
    for column, name in comparing._COLUMNS.items():
        np.testing.assert_allclose(shown[name], rows[column], rtol=1e-6)
    far = (rows["standard_errors"].abs() >= 3).sum()
    assert f"{far} of {len(rows)} heads differ by 3 standard errors or more" in said(app)


def test_a_study_is_compared_with_random_weights_on_the_same_texts(page, study):
    check_table(page, compare_with_random(study))
    assert "about 0.1 of 32 would by chance alone, and 1.5 by 2 or more" in said(page)


def test_a_study_is_compared_with_another_model_s_on_the_same_texts_under_a_link(study):
    app = two(corpus_model_b="tiny-gpt2", metric="distance")
    check(app)
    other = studies.studies().find(replace(DEFAULT, model="tiny-gpt2")).study
    check_table(app, compare(other, study))


def test_a_study_is_compared_with_the_same_model_s_on_other_texts(study):
    key = studies.studies().give(TEXTS.encode(), "mine.txt")
    app = two(corpus_model_b=SAME_MODEL, corpus_b=key)
    check(app)
    assert "Of 3 texts a standard error is itself uncertain" in said(app)
    other = studies.studies().find(replace(DEFAULT, corpus=key)).study
    check_table(app, compare(other, study))


def test_what_is_not_there_to_compare_with_is_said():
    app = corpus(corpus_model_b="nobody/nothing", corpus_b="own_gone")
    assert not app.exception and not app.error
    assert "'nobody/nothing', to compare with, is not on this" in said(app).replace("\\", "")
    assert "no longer on this server" in said(app)
    view = app.session_state.view
    assert (view.corpus_model_b, view.corpus_b) == ("", "")
    same = app.selectbox(key="ask_corpus_model_b").select(SAME_MODEL).run()
    assert "Choose another model, or other texts" in said(same)
