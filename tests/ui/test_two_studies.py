"""Two studies beside each other on the page Many texts, head by head."""

import pytest

import mha_viz as mv
from mha_viz.corpus.query.comparison import (
    compare_matched,
    compare_trees,
    compare_with_random,
)
from mha_viz.ui.many_texts import two_studies
from mha_viz.ui.run import studies
from tests.making.comparing import close
from tests.ui.compare_app import check, said, table
from tests.ui.many_texts_app import making, many_texts

COLUMNS = {
    "Standard errors": "standard_errors",
    "Difference": "difference",
    "This study": "mean_b",
    "The other": "mean_a",
    "Standard error": "standard_error",
    "Texts": "n_texts",
}


@pytest.fixture(scope="module")
def page():
    return many_texts(tab="change")


@pytest.fixture(scope="module")
def study(page):
    """The same study, opened again from its folder."""
    shown = making(page).study
    assert shown is not None
    return mv.Study.load(shown.folder)


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
    names = [f"L{i} H{j}" for i, j in zip(rows["layer"], rows["head"], strict=True)]
    assert shown["Head"].tolist() == names
    for name, column in COLUMNS.items():
        close(shown[name], rows[column])
    far = (rows["standard_errors"].abs() >= 3).sum()
    assert f"{far} of {len(rows)} heads" in said(app)


def test_a_study_is_compared_with_random_weights_on_the_same_texts(page, study):
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
            heads = zip(expected[f"layer{side}"], expected[f"head{side}"], strict=True)
            assert shown[title].tolist() == [f"L{layer} H{head}" for layer, head in heads]
        close(shown["Distance"], expected["distance"])
        return
    expected = compare_trees(theirs, ours, by)
    shown = table(app, "This study", "Better")
    for title, column in {"This study": "accuracy_b", "The other": "accuracy_a"}.items():
        close(shown[title], expected[column])
    for title, column in {
        "Difference": "difference",
        "Low": "low",
        "High": "high",
    }.items():
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
