"""Lab 12's page: measuring, the table, one relation with its sentences, links, other models."""

import shutil
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

import mha_viz as mv
from mha_viz.learn.annotated_sentences import relations
from mha_viz.learn.labs.what_heads_learn import numbers
from mha_viz.learn.labs.what_heads_learn.page import best_step
from mha_viz.ui.state.views import from_params
from mha_viz.web.labels import head_name
from tests.making.comparing import near
from tests.ui.compare_app import check, figures, table
from tests.ui.lab_app import answers, done_once, lab, link, warns_of

pytestmark = pytest.mark.slow

NAME = "what-heads-learn"
PRONOUN = next(n for n, one in enumerate(relations()) if one.title == "pronoun → antecedent")


@pytest.fixture(scope="module", autouse=True)
def once():
    """One untrained copy says as much of the page as five do; a model is measured once."""
    with (
        done_once("mha_viz.learn.labs.what_heads_learn.numbers.measure"),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(numbers, "measure", partial(numbers.measure, n_seeds=1))
        yield


@pytest.fixture(scope="module")
def measured():
    app = lab(NAME, "map", "summary", sentences="1")
    app.button(key=f"{NAME}-measure").click().run()
    return app


@pytest.fixture(scope="module")
def found():
    """The first relation and one that is not found, as the library measures them."""
    asked = [relations()[0], relations()[PRONOUN]]
    return numbers.measure(mv.load("tiny-bert"), asked)


def pick(app, kind: str):
    return app.button_group(key=f"{NAME}-kind").set_value(kind).run()


def sentences(app) -> list[str]:
    """The lines of the chosen head's sentences."""
    return next(m.value for m in app.markdown if m.value.startswith("- [")).split("\n- ")


def test_what_is_stored_is_there_at_once_and_best_heads_find_what_a_count_finds():
    app = lab(NAME, "summary")
    check(app)
    assert app.button(key=f"{NAME}-measure").label == "Run it yourself" and link(app) == {}
    rows, labels = table(app, "From → to", "Best head"), figures(app)[0]["layout"]["annotations"]
    assert len(rows) == len(labels) == len(relations())
    asked, record_of = relations()[0], mv.load("tiny-bert").trace
    layer, head = 2, 3
    hits = pairs = 0
    for sentence in asked.sentences:
        merged = record_of(sentence.text).merge_words()
        at = {t.text: i for i, t in enumerate(merged.tokens)}
        others = [at[word] for word in sentence.words]
        for query, key in sentence.pairs:
            row = merged.pattern[layer, head, at[sentence.words[query]]]
            right = at[sentence.words[key]]
            hits += row[right] > max(row[i] for i in others if i not in (right, others[query]))
            pairs += 1
    assert rows["Best head"][0] == "L2 H3" and rows["It finds"][0] == f"{float(hits) / pairs:.0%}"


def test_every_relation_is_in_the_table_with_both_opponents(measured, found):
    pick(measured, "syntactic")
    check(measured)
    shown = table(measured, "From → to", "Best step", "Random weights")
    assert list(shown["From → to"]) == [one.title for one in relations()]
    for one in found:
        row = shown[shown["From → to"] == one.relation.title].iloc[0]
        assert row["Best head"] == head_name(*one.best)
        assert row["It finds"] == f"{float(one.score[one.best]):.0%}"
        assert row["Best step"].startswith(f"{one.offset_score:.0%} (")
        assert row["Random weights"] == f"{one.random_score:.0%}"
        assert one.verdict in row["Here"]


def test_the_map_and_the_sentences_are_those_of_the_best_head(measured, found):
    pick(measured, "syntactic")
    one = found[0]
    layer, head = one.best
    text = check(measured)
    assert "**Found.**" in text and f"The sentences of {head_name(layer, head)}" in text
    heads = table(measured, "Head", "found", "ahead by")
    assert list(heads["found"]) == near(one.score.flatten().tolist())
    assert list(heads["ahead by"]) == near(one.lead.flatten().tolist())
    lines = sentences(measured)
    assert len(lines) == len(one.relation.sentences)
    marks = "".join(lines)
    assert marks.count("✓") == int(one.attended.hits[:, layer, head].sum())
    assert marks.count("✓") + marks.count("✗") == len(one.attended.pairs)


def test_none_here_is_said_plainly_and_the_choice_is_in_the_link(measured):
    pick(measured, "coreference")
    assert "**There is none here**" in check(measured)
    assert link(measured)["kind"] == "coreference"
    measured.selectbox(key=f"{NAME}-relation-coreference").select_index(2).run()
    assert "noun said again → noun said first" in check(measured)
    assert link(measured)["relation-coreference"] == str(PRONOUN + 2)


def test_a_sentence_leads_to_its_head_in_explore(measured, found):
    pick(measured, "syntactic")
    address = sentences(measured)[0].split("](")[1].split(")")[0]
    view, problems = from_params(dict(parse_qsl(urlsplit(address).query)))
    assert address.startswith("./?") and not problems
    assert (view.layer, view.head) == found[0].best
    assert view.model == "tiny-bert" and view.words
    assert view.text == found[0].relation.sentences[0].text


def test_the_head_of_a_link_is_shown_and_one_that_is_not_there_is_told(models):
    app = lab(NAME, model=models["two"], sentences="1", **{"head-0": "0.1"})
    app.button(key=f"{NAME}-measure").click().run()
    assert "**The sentences of L0 H1**" in check(app)
    app = lab(NAME, model=models["two"], **{"head-0": "7.1"})
    app.button(key=f"{NAME}-measure").click().run()
    assert "There is no L7 H1" in check(app)


def test_a_causal_model_is_asked_only_what_it_sees(models):
    app = lab(NAME, model=models["gpt2"], kind="coreference")
    app.button(key=f"{NAME}-measure").click().run()
    text = check(app)
    assert "which this model does not see" in text
    assert len(figures(app)[0]["layout"]["annotations"]) == len(relations()) // 2
    options = app.selectbox(key=f"{NAME}-relation-coreference").options
    assert "pronoun → antecedent" in options and "antecedent → pronoun" not in options


def test_a_published_model_is_offered_where_the_machine_has_it(models, tmp_path: Path, monkeypatch):
    text = check(app := lab(NAME, larger="1", counting="1"))
    assert "offers to fetch it" in text and "more weight than any other word" in text
    assert not app.warning  # the names of folds are no fields of a view
    snapshot = tmp_path / "models--bert-base-uncased" / "snapshots" / ("1" * 40)
    shutil.copytree(models["two"], snapshot)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    app = lab(NAME, larger="1")
    assert "offers to fetch it" not in check(app)
    app.button(key=f"{NAME}-take-bert-base-uncased").click().run()
    check(app)
    assert app.selectbox(key="ask_model").value == "bert-base-uncased"
    assert link(app)["model"] == "bert-base-uncased"
    assert app.button(key=f"{NAME}-take-bert-base-uncased").disabled


def test_what_a_link_says_in_vain_is_told():
    warns_of(NAME, kind="<b>")
    for kind, number in (("local", "0"), ("semantic", "99")):  # of another kind, of none
        app = lab(NAME, **{f"relation-{kind}": number})
        check(app)
        assert [kind in warning.value for warning in app.warning] == [True]


def test_the_answer_is_what_is_measured():
    (said,) = answers(NAME, "step")
    step, share = best_step(relations()[0])
    assert said.startswith("**More than half") and f"{share:.0%}" in said
    assert step == 1 and share > 0.5
