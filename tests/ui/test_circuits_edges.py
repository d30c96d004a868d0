"""Edges and reports of a task on the page, and the way through it."""

import io
import zipfile

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.ui.circuits import TEXTS
from tests.ui.circuits_app import circuits
from tests.ui.compare_app import check, said, table

OWN = """\
The boy took | The girl took | his | her
The girl took | The boy took | her | his
The man lost | The woman lost | his | her
The woman lost | The man lost | her | his
"""


@pytest.mark.extended
def test_edges_are_those_of_the_library() -> None:
    link = dict(text="the cat sat", circuit="edges", task="own", pairs=OWN)
    app = circuits("edge_curve", model="tiny-gpt2", **link)
    assert not app.get("plotly_chart")
    app.button(key="find_edges").click().run()
    check(app)
    model = mv.load("tiny-gpt2")
    scores = mv.edge_effects(model, mv.make_task(model, OWN))
    scores.measure()
    curve = mv.edge_faithfulness(scores)
    shown = table(app, "edges", "share", "faithfulness", "complement", "random")
    np.testing.assert_allclose(shown["faithfulness"], curve.faithfulness, rtol=1e-3, atol=1e-4)
    size = curve.size_for()
    assert size is not None and f"{size} edges of {scores.n_edges:,} carry" in said(app)
    assert len(app.get("plotly_chart")) == 2


def test_edges_of_a_family_without_them_are_refused_before_anyone_begins() -> None:
    app = circuits(model="tiny-bert", text="the cat sat", circuit="edges", task="closing")
    check(app)
    assert any("edges of the bert family cannot" in one.value for one in app.info)
    assert "find_edges" not in [one.key for one in app.button]


@pytest.mark.extended
def test_a_report_is_offered_as_a_file() -> None:
    app = circuits(model="tiny-gpt2", text="the cat sat", circuit="test", task="own", pairs=OWN)
    app.button(key="report_task").click().run()
    check(app)
    assert TEXTS("faithfulness.report") in said(app)
    made = next(iter(app.session_state["measured_report"].values()))
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        names = set(archive.namelist())
        assert {"index.html", "index.md", "pairs.csv", "tables/heads.csv"} <= names
        assert b"What was not explained" in archive.read("index.html")


def test_the_steps_lead_through_the_page() -> None:
    app = circuits(model="tiny-gpt2", text="the cat sat", circuit="weights")
    app.session_state["way"] = True
    app.run()
    app.button(key="way-writes").click().run()
    check(app)
    assert (app.session_state.view.circuit, app.session_state.view.averaged) == ("writes", True)
    app.button(key="way-task").click().run()
    check(app)
    assert app.query_params["circuit"] == "test"
