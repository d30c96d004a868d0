"""The Corpus page without a browser: its numbers are the study's, and what visitors may give it."""

from dataclasses import replace

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.compare import compare, compare_with_random
from mha_viz.corpus.run import study as make_study
from mha_viz.errors import ArgumentError
from mha_viz.ui.corpus import comparing
from mha_viz.ui.session import own_address, studies
from mha_viz.ui.session.views import DEFAULT, SAME_MODEL
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
    menu = again.selectbox(key="ask_corpus")
    assert menu.options == ["The sample", "“The cat sat on the mat. A dog ran …”"]
    assert "sentences of the sample" in said(menu.select("").run())


def test_an_uploaded_table_is_studied():
    app = corpus("own-texts")
    table_of_texts = b"name,text\na,The cat sat on the mat.\nb,Birds sing.\n"
    app.file_uploader(key="own-file").set_value(("Mine.CSV", table_of_texts, "text/csv"))
    app = made(app.button(key="own-study").click().run())
    check(app)
    assert "2 texts of your own" in said(app)


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
