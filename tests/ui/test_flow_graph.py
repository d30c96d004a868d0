"""The widget of what flows into a token: what it packs, and what it believes of a browser."""

from dataclasses import replace

import numpy as np
import pytest

from mha_viz.circuits.attribution.pins import Pin
from mha_viz.ui.widgets.components.flow_graph import (
    DrawnNode,
    HeadPair,
    chosen,
    describe,
    graph_payload,
    pinned,
    prediction_payload,
)
from mha_viz.web.payload import unpack
from tests.making.flow_graphs import made_up, made_up_prediction

GRAPH = made_up(layers=3, n=6, heads=2)


def test_the_payload_holds_every_part_from_the_top_down():
    header, body = unpack(graph_payload(GRAPH))
    n = header["parts"]
    assert n == len(GRAPH.edges) and len(body) == 17 * n
    share = np.frombuffer(body, "<f4", n)
    level, head, query, key = np.frombuffer(body, "<u2", 4 * n, 8 * n).reshape(4, n)
    kind = np.frombuffer(body, "u1", n, 16 * n)
    assert (np.diff(level.astype(int)) <= 0).all() and level.max() == 6
    assert np.allclose(np.bincount(level * 6 + query, share)[6:], 1)
    sources = GRAPH.edges[GRAPH.edges.kind == "source"]
    packed = {
        (int(a) // 2, *map(int, rest))
        for a, *rest, k in zip(level, head, query, key, kind, strict=True)
        if k == 1
    }
    rows = sources[["layer", "head", "query", "key"]].itertuples(index=False)
    assert packed == {tuple(map(int, row)) for row in rows}
    assert (header["position"], header["step"], header["start"]) == (5, 1, 0.02)


def test_labels_are_cut_and_made_visible():
    header, _ = unpack(graph_payload(made_up(n=6, hostile=True)))
    assert header["labels"][0].startswith("<img src=x") and header["labels"][0].endswith("…")
    assert "\u202e" not in "".join(header["labels"])


def test_a_click_is_believed_where_there_is_such_an_edge():
    sent = {"layer": 2, "head": 1, "query": 5, "key": 0}
    assert chosen({"choose": sent}, GRAPH) == HeadPair(2, 1, 5, 0)
    assert chosen({"choose": sent | {"query": -1, "key": -1}}, GRAPH) == HeadPair(2, 1, -1, -1)
    assert describe(GRAPH).startswith("“mat” at position 5")
    graph = replace(made_up_prediction(), names={(1, 2): "all heads"})
    sent = {"layer": 1, "query": 4, "key": 1}
    assert chosen({"choose": sent | {"head": 1}}, graph) == HeadPair(1, 1, 4, 1)
    assert chosen({"choose": sent | {"head": 2}}, graph) is None  # it stands for several


@pytest.mark.parametrize(
    "sent",
    [
        None,
        [2, 1, 5, 0],
        {"layer": 3, "head": 1, "query": 5, "key": 0},
        {"layer": 2, "head": 1, "query": True, "key": 0},
        {"layer": 2, "head": 1, "query": 5},
        {"layer": 2, "head": [], "query": -1, "key": -1},
    ],
)
def test_anything_else_is_not(sent):
    assert chosen({"choose": sent}, GRAPH) is None
    assert chosen(sent, GRAPH) is None


def test_a_predictions_payload_holds_every_edge_and_its_pins():
    graph = made_up_prediction()
    pins = [Pin.of(name) for name in ("L1 H2 @4", "L0 in @1", "L1 mid @*", "L0 MLP @3")]
    header, body = unpack(prediction_payload(graph, pins))
    flow = np.frombuffer(body, "<f4", header["parts"])
    assert sorted(flow) == sorted(graph.edges.flow)
    signed = header["signed"]
    assert (signed["held"], signed["value"], signed["rest"]) == (1.5, 1.75, 0.25)
    assert signed["name"] == "“mat” less “dog”"
    assert signed["pins"] == [[3, 1, 2, 4], [0, 0, -1, 1], [3, 0, -1, -1], [2, 2, -1, 3]]


@pytest.mark.parametrize(
    ("sent", "node"),
    [
        ((1, 1, 3, 2, 4), DrawnNode(1, "H", 2, 4)),
        ((1, 2, 4, -1, 0), DrawnNode(1, "MLP", -1, 0)),
        ((2, 0, 4, -1, 4), None),
        ((1, 1, 3, 3, 4), None),
        ((1, 0, 4, -1, 4), None),
        ((True, 0, 2, -1, 4), None),
    ],
)
def test_a_pin_is_believed_where_there_may_be_such_a_node(sent, node):
    names = ("layer", "kind", "level", "head", "position")
    event = {"pin": dict(zip(names, sent, strict=True))}
    assert pinned(event, made_up_prediction()) == node
