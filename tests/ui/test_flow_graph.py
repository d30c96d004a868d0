"""The widget of what flows into a token: what it packs, and what it believes of a browser."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.ui.widgets.components.flow_graph import HeadPair, chosen, describe, graph_payload
from mha_viz.web.payload import unpack
from tests.browser.demo_flow import made_up

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


def test_a_graph_of_nothing_but_its_token_is_drawn():
    graph = mv.flow_graph(mv.load("tiny-gpt2"), "The cat", -1, threshold=1)
    header, body = unpack(graph_payload(graph))
    assert (header["parts"], header["labels"], len(body)) == (0, ["The", "cat"], 0)
    assert header["start"] == 1 and (graph.kept, graph.cut) == (0, 1)


def test_labels_are_cut_and_made_visible():
    header, _ = unpack(graph_payload(made_up(n=6, hostile=True)))
    assert header["labels"][0].startswith("<img src=x") and header["labels"][0].endswith("…")
    assert "\u202e" not in "".join(header["labels"])


def test_a_click_is_believed_where_there_is_such_an_edge():
    sent = {"layer": 2, "head": 1, "query": 5, "key": 0}
    assert chosen({"choose": sent}, GRAPH) == HeadPair(2, 1, 5, 0)
    assert describe(GRAPH).startswith("“mat” at position 5")


@pytest.mark.parametrize(
    "sent",
    [
        None,
        "0",
        [2, 1, 5, 0],
        {"layer": 3, "head": 1, "query": 5, "key": 0},
        {"layer": 2, "head": -1, "query": 5, "key": 0},
        {"layer": 2, "head": 1, "query": True, "key": 0},
        {"layer": 2, "head": 1, "query": 5},
        {"layer": 2, "head": 1, "query": 5, "key": "0"},
    ],
)
def test_anything_else_is_not(sent):
    assert chosen({"choose": sent}, GRAPH) is None
    assert chosen(sent, GRAPH) is None
