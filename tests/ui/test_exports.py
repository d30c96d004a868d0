"""Files of the chosen head and of figures, and the link that is handed out."""

import csv
import json
import socket

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.core.amounts import of_bytes
from mha_viz.core.record.visible import visible_keys
from mha_viz.errors import ArgumentError
from mha_viz.ui.state.own_address import in_network, seen_by_others
from mha_viz.ui.state.views import View
from mha_viz.ui.widgets.exports import downloads, figures
from mha_viz.ui.widgets.exports.figures import newly_clicked
from mha_viz.ui.widgets.exports.share_link import qr_svg
from tests.faults.disk import full_disk
from tests.making.comparing import close
from tests.ui.heads_app import heads_page


def test_the_files_hold_the_part_that_is_shown():
    record = mv.load("tiny-gpt2").trace("The cat sat on the mat.")
    view = View(layer=1, head=2, window=((3, 5), (0, 4)))
    lines = downloads.csv(record, view).decode("utf-8-sig").splitlines()
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    assert rows[0][1:] == [f"{i}:{label}" for i, label in enumerate(record.key_labels[:5])]
    assert [row[0] for row in rows[1:]] == [f"{i}:{record.labels[i]}" for i in range(3, 6)]
    cells = np.array([[float(cell or "nan") for cell in row[1:]] for row in rows[1:]])
    expected = record.head(1, 2).numpy()[3:6, :5].copy()
    expected[0, 4] = np.nan
    close(cells, expected)
    assert any("queries 3–5, keys 0–4" in line for line in lines)
    made = downloads.head_file(lambda weights, labels, **more: (weights, labels, more), view)(
        record
    )
    close(made[0], record.head(1, 2).numpy()[3:6, :5])
    assert made[1] == (list(record.labels[3:6]), list(record.key_labels[:5]))


def test_a_record_is_handed_out_where_the_disk_takes_nothing(tmp_path):
    record = mv.load("tiny-gpt2").trace("The cat sat.")
    record.save(tmp_path / "record")
    with full_disk(0):
        assert downloads._record_file(record) == (tmp_path / "record").read_bytes()


def test_csv_of_very_many_weights_is_offered_after_an_answer(monkeypatch):
    def files(app) -> list[str]:
        return [button.proto.label for button in app.get("download_button")]

    params = dict(text="The cat sat on the mat.", model="tiny-gpt2")
    app = heads_page(export=True, **params)
    assert "Head as CSV" in files(app) and not app.checkbox
    record = mv.load("tiny-gpt2").trace(params["text"])
    n = len(record.tokens)
    monkeypatch.setattr(downloads, "MOST_UNASKED", n * n - 1)
    app = heads_page(export=True, **params)
    assert "Head as CSV" not in files(app) and "PNG" in files(app)
    (question,) = app.checkbox
    app = question.check().run()
    assert "Head as CSV" in files(app)


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2"])
def test_csv_confirmed_estimates_the_size_of_the_file(name, monkeypatch):
    record = mv.load(name).trace("The quick brown fox jumps over the lazy dog. " * 20)
    labels = []
    monkeypatch.setattr(downloads, "MOST_UNASKED", 0)
    monkeypatch.setattr(downloads.st, "checkbox", lambda label, **_: labels.append(label))
    assert not downloads._csv_confirmed(record, View(layer=1, head=2))
    number, unit = labels[0].rpartition("about ")[2].split()
    n_bytes = len(downloads.csv(record, View(layer=1, head=2)))
    assert unit == "kB" and 1000 * float(number) == pytest.approx(n_bytes, rel=0.2)
    monkeypatch.setattr(downloads, "CELL_BYTES", 0)
    downloads._csv_confirmed(record, View(layer=1, head=2))
    n_hidden = int((~visible_keys(record, 1)).sum())  # each takes the comma behind it
    assert labels[1].rpartition("about ")[2] == of_bytes(n_hidden)


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
    (trace,) = json.loads(app.get("plotly_chart")[0].proto.spec)["data"]
    assert trace["unselected"]["marker"]["opacity"] == 1  # a click dims nothing
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


HERE = "http://localhost:8501/base/learn"
LOOPBACK = tuple(HERE.replace("localhost", name) for name in ("localhost", "127.0.0.1", "[::1]"))
OWN = "http://10.0.0.7:8501/base/learn"


@pytest.mark.parametrize(
    ("opened", "listens", "expected"),
    [
        *((HERE, address, HERE) for address in ("127.0.0.1", "localhost", "::1")),
        *((url + "?a=b", every, OWN) for url in LOOPBACK for every in ("", "0.0.0.0", "::")),
        (HERE, "10.1.1.1", "http://10.1.1.1:8501/base/learn"),
        (HERE, "fd00::7", "http://[fd00::7]:8501/base/learn"),
        *((url, "127.0.0.1", url) for url in ("https://a.example/learn", "http://10.0.0.9/learn")),
    ],
)
def test_the_address_handed_out_is_one_that_others_can_open(opened, listens, expected):
    found = seen_by_others(opened, listens, lambda: "10.0.0.7")
    assert found.url == expected
    assert ("0.0.0.0" in found.problem) == bool(found.problem) == (opened == expected == HERE)


@pytest.mark.parametrize(
    ("way", "own"), [("10.0.0.7", "10.0.0.7"), ("127.0.0.1", None), ("0.0.0.0", None), ("", None)]
)
def test_the_own_address_is_that_of_the_way_out(way, own, monkeypatch):
    class Socket(socket.socket):
        def connect(self, address):
            assert self.type == socket.SOCK_DGRAM  # with which nothing is sent
            if not way:
                raise OSError("Network is unreachable")

        def getsockname(self):
            return way, 4711

    monkeypatch.setattr(socket, "socket", Socket)
    assert in_network() == own


def test_a_link_too_long_for_a_code_is_refused():
    with pytest.raises(ArgumentError):
        qr_svg("http://10.0.0.7/?" + "x" * 3000)
