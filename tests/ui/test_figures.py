"""A figure with its table, files and clicks, without a browser."""

import pandas as pd
import plotly.graph_objects as go
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.exports.figures import newly_clicked


def demo() -> None:
    """Runs as an app of its own, so it imports what it needs."""
    import pandas as pd
    import plotly.graph_objects as go
    import streamlit as st

    from mha_viz.ui.widgets.exports import figures

    @st.fragment
    def part() -> None:
        figure = go.Figure(go.Scatter(x=[1, 2], y=[1, 2], customdata=[[0, 1], [2, 3]]))
        figures.show(
            figure,
            key="fig",
            how_to_read="Read <b>bold</b> $x$",
            on_click=print,
            table=pd.DataFrame({"a": [1, 2]}),
            caption="model · text",
            name="my figure",
        )

    part()


def test_show_makes_table_and_files_only_while_they_are_open():
    app = AppTest.from_function(demo, default_timeout=300).run()
    assert not app.exception and not app.dataframe and not app.get("download_button")
    n_components = len(app.get("bidi_component"))
    assert r"\<b\>bold" in app.caption[0].value and r"\$x\$" in app.caption[0].value
    app.session_state["fig-table"] = app.session_state["fig-export"] = True
    app.run()
    assert not app.exception
    pd.testing.assert_frame_equal(app.dataframe[0].value, pd.DataFrame({"a": [1, 2]}))
    assert len(app.get("download_button")) == 4
    assert len(app.get("bidi_component")) == n_components + 1


@pytest.mark.parametrize(
    ("before", "now", "clicked"),
    [
        ([], [(0, 1)], (0, 1)),
        ([(0, 1)], [(0, 2)], (0, 2)),
        ([(0, 1)], [], (0, 1)),  # the second click takes it out of the selection
        ([(0, 1)], [(0, 1)], (0, 1)),  # the figure was drawn anew in between
        ([(0, 1)], [(0, 1), (1, 0)], (1, 0)),  # with Shift
        ([(0, 1), (0, 2)], [], None),
    ],
)
def test_which_point_was_clicked(before, now, clicked):
    assert newly_clicked(before, now) == clicked


def listen(monkeypatch: pytest.MonkeyPatch, event: object) -> list[object]:
    """Return what the listener hands on of an event that the browser sent."""
    monkeypatch.setattr(st, "session_state", {"k": event})
    made = go.Figure(go.Scatter(x=[1, 2], y=[1, 2], customdata=[["a", 0], ["b", 1]]))
    made.add_scatter(x=[1], y=[1])
    got: list[object] = []
    figures._listener("k", made, got.append)()
    return got


def event(*points: object) -> dict[str, object]:
    return {"selection": {"points": list(points)}}


def test_lasso_hands_on_all_points_within_it_and_clearing_it_none(monkeypatch):
    heads, clicks, figure = list[object](), list[object](), go.Figure()
    figure.add_scatter(x=[1, 2, 3], y=[1, 2, 3], customdata=[[0, 1], [0, 2], [0, 3]])
    figure.add_scatter(x=[1], y=[1])  # answers no click
    listener = figures._listener("k", figure, clicks.append, heads.append)

    def send(lasso: object, *points: tuple[int, int]) -> None:
        named = [{"curve_number": curve, "point_index": at} for curve, at in points]
        sent = {"k": {"selection": {"points": named, "lasso": lasso}}}
        monkeypatch.setattr(st, "session_state", {**st.session_state, **sent})
        listener()

    monkeypatch.setattr(st, "session_state", {})
    send([{"x": [0, 4], "y": [0, 4]}], (0, 0), (0, 2), (1, 0), (0, 99))
    assert heads == [[[0, 1], [0, 3]]] and clicks == []
    send([])
    assert heads[1:] == [[]] and clicks == []
    send([], (0, 1))
    assert len(heads) == 2 and clicks == [[0, 2]]


def test_data_come_from_the_figure_and_not_from_the_browser(monkeypatch):
    forged = {"curve_number": 0, "point_index": 1, "customdata": ["forged"]}
    assert listen(monkeypatch, event(forged)) == [["b", 1]]


@pytest.mark.parametrize(
    "sent",
    [
        None,
        {},
        event("x"),
        event({"curve_number": 0}),
        event({"curve_number": 0, "point_index": 9}),
        event({"curve_number": -1, "point_index": -1}),
        event({"curve_number": "0", "point_index": [0]}),
        event({"curve_number": 1, "point_index": 0}),  # a trace without customdata
    ],
)
def test_what_is_no_click_is_ignored(monkeypatch, sent):
    assert listen(monkeypatch, sent) == []
