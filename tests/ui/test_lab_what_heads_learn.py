"""Lab 12's page: measuring, the table, one relation with its sentences, links, other models."""

from functools import partial
from urllib.parse import parse_qsl, urlsplit

import pytest

from mha_viz.core.amounts import format_share
from mha_viz.core.stored_runs import read
from mha_viz.learn.annotated_sentences import relations
from mha_viz.learn.labs.what_heads_learn import numbers
from mha_viz.ui.state.links import from_params
from mha_viz.web.labels import head_name
from tests.making.comparing import near
from tests.ui.compare_app import check, figures, table
from tests.ui.lab_app import lab

pytestmark = pytest.mark.slow

NAME = "what-heads-learn"


@pytest.fixture(scope="module")
def stored():
    """The page under its default model, whose measurement is stored."""
    return lab(NAME, "map", "summary", sentences="1")


@pytest.fixture(scope="module")
def findings():
    """The stored findings of all relations."""
    return read(numbers.STORED[0])


def pick(app, kind: str):
    return app.button_group(key=f"{NAME}-kind").set_value(kind).run()


def sentences(app) -> list[str]:
    """Return the lines of the chosen head's sentences."""
    return next(m.value for m in app.markdown if m.value.startswith("- [")).split("\n- ")


def test_table_has_the_best_head_and_both_baselines(stored, findings):
    pick(stored, "syntactic")
    check(stored)
    shown = table(stored, "From → to", "Best step", "Random weights")
    assert list(shown["From → to"]) == [relation.title for relation in relations()]
    for finding in findings:
        row = shown[shown["From → to"] == finding.relation.title].iloc[0]
        assert row["Best head"] == head_name(*finding.best)
        assert format_share(finding.score[finding.best]) in row["It finds"]
        assert format_share(finding.offset_score) in row["Best step"]
        assert row["Random weights"] == format_share(finding.random_score)
        assert finding.verdict in row["Here"]


def test_map_and_sentences_are_those_of_the_best_head(stored, findings):
    pick(stored, "syntactic")
    finding = findings[0]
    layer, head = finding.best
    check(stored)
    heads = table(stored, "Head", "found", "ahead by")
    assert list(heads["found"]) == near(finding.score.flatten().tolist())
    assert list(heads["ahead by"]) == near(finding.lead.flatten().tolist())
    lines = sentences(stored)
    assert len(lines) == len(finding.relation.sentences)
    marks = "".join(lines)
    assert marks.count("✓") == int(finding.attended.hits[:, layer, head].sum())
    assert marks.count("✓") + marks.count("✗") == len(finding.attended.pairs)
    address = lines[0].split("](")[1].split(")")[0]  # leads to the head in Heads
    view, problems = from_params(dict(parse_qsl(urlsplit(address).query)))
    assert address.startswith("./?") and not problems
    assert (view.layer, view.head, view.model, view.words) == (layer, head, "tiny-bert", True)
    assert view.text == finding.relation.sentences[0].text


def test_a_causal_model_is_asked_only_what_it_sees(models, monkeypatch):
    monkeypatch.setattr(numbers, "measure", partial(numbers.measure, n_seeds=1))
    app = lab(NAME, model=models["gpt2"], kind="coreference")
    app.button(key=f"{NAME}-measure").click().run()
    check(app)
    assert len(figures(app)[0]["layout"]["annotations"]) == len(relations()) // 2
    assert sum(f" {len(relations()) // 2} " in f" {one.value} " for one in app.caption) == 1
    options = app.selectbox(key=f"{NAME}-relation-coreference").options
    assert "pronoun → antecedent" in options and "antecedent → pronoun" not in options
