"""The Corpus page without a browser: its numbers are the study's, and what visitors may give it."""

import threading
from dataclasses import replace

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.run import study as make_study
from mha_viz.errors import ArgumentError
from mha_viz.ui.corpus import studies
from mha_viz.ui.session.views import DEFAULT
from mha_viz.web.theme import format_number
from tests.ui.compare_app import check, said, table
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
    np.testing.assert_array_equal(table(app, title)[title], expected["share_of_texts"])


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
    assert "sentences of the sample" in said(again.button(key="own-back").click().run())


def test_an_uploaded_table_is_studied():
    app = corpus("own-texts")
    table_of_texts = b"name,text\na,The cat sat on the mat.\nb," + b"Birds sing. " * 60 + b"\n"
    app.file_uploader(key="own-file").set_value(("Mine.CSV", table_of_texts, "text/csv"))
    app = made(app.button(key="own-study").click().run())
    check(app)
    assert "2 texts of your own" in said(app)
    told = [one.value for one in app.warning]  # the second text is too long for the model
    assert len(told) == 1 and "Cut to the 128 tokens" in told[0] and "1 of 2 texts" in told[0]


def test_what_cannot_be_studied_is_a_sentence():
    app = corpus("own-texts")
    app = app.button(key="own-study").click().run()
    assert [error.value for error in app.error] == [
        "There is no text yet\\: paste texts, one a line, or choose a file\\."
    ]
    app = app.run()  # all is there again
    check(app)
    keep = studies.Studies().give
    for content, suffix, words in (
        (b"x" * 3_000_000, ".txt", "at most 2 MB"),
        (b"x", ".exe", "must end in"),
        (b"x", ".gz", "must end in"),
    ):
        with pytest.raises(ArgumentError, match=words):
            keep(content, suffix)


def test_a_link_to_what_is_not_there_opens_on_what_is():
    app = corpus(corpus="own_gone", layer="99", head="0", metric="nothing", kind="nothing")
    assert not app.exception and not app.error
    assert "sentences of the sample" in said(app)
    view = app.session_state.view
    assert view.corpus == "" and view.layer < 4 and view.metric == "entropy" and view.kind == ""


def test_two_visitors_make_one_study_which_stops_and_goes_on():
    model, kept = mv.load("tiny-bert"), studies.Studies()
    view = replace(DEFAULT, corpus=kept.give(TEXTS.encode(), ".txt"))
    before = threading.active_count()
    kept.begin(view, model)
    kept.begin(view, model)
    found = kept.find(view)
    found.stop()
    assert threading.active_count() <= before + 1
    found.wait()
    assert found.study is None and found.error is None and not found.runs
    kept.begin(view, model)
    found.wait()
    assert found.study.n_texts == 3


def test_only_so_many_studies_are_kept():
    kept = studies.Studies()
    views = [
        replace(DEFAULT, corpus=kept.give(f"Text {i}.".encode(), ".txt"))
        for i in range(studies.KEPT + 2)
    ]
    assert [kept.find(view) is None for view in views] == [True] * 2 + [False] * studies.KEPT
