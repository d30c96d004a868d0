"""Circuits of edges: where parts stand, and what lines and middles tell."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.errors import ArgumentError
from mha_viz.plots.edge_graph import edge_graph
from tests.making.comparing import close

EDGES = [("embedding", "L0 H2 value", -3.0), ("L0 H2", "L1 H0 key", -1.5), ("MLP 1", "logits", 0.5)]


def test_lines_join_the_places_of_their_parts_and_say_their_score() -> None:
    figure = edge_graph(EDGES, 2, 3, title="Circuit", unit="logits")
    lines = [one for one in figure.data if one.mode == "lines"]
    assert [list(zip(one.x, one.y, strict=True)) for one in lines] == [
        [(0.5, -1), (2.5 / 4, 0)],
        [(2.5 / 4, 0), (0.5 / 4, 1)],
        [(1.0, 1.5), (0.5, 2)],
    ]
    widths = [one.line.width for one in lines]
    assert widths == [5.0, 3.0, pytest.approx(1 + 4 / 6)]
    assert lines[0].line.color == lines[1].line.color != lines[2].line.color
    middles, parts = figure.data[-2:]
    assert list(middles.x) == [(0.5 + 2.5 / 4) / 2, 1.5 / 4, 0.75]
    assert "L0 H2 → L1 H0 key" in middles.hovertext[1] and "-1.5" in middles.hovertext[1].replace(
        "−", "-"
    )
    assert list(parts.text) == ["embedding", "L0 H2", "L1 H0", "MLP 1", "logits"]


def test_columns_hold_the_edges_of_their_position() -> None:
    edges = [("embedding", "L0 H2 value", -3.0, 1), ("L0 H2", "logits", 1.5, 0)]
    figure = edge_graph(edges, 2, 3, columns=["0 a", "1 <b>"])
    lines = [one for one in figure.data if one.mode == "lines"]
    assert [list(one.x) for one in lines] == [
        pytest.approx([1.4, 1.5]),
        pytest.approx([0.5, 0.4]),
    ]
    assert list(figure.layout.xaxis.tickvals) == [0.4, 1.4]
    assert figure.layout.xaxis.ticktext[1] == "1 &lt;b&gt;"
    parts = figure.data[-1]
    assert parts.mode == "markers" and len(parts.x) == 4  # L0 H2 stands in both columns
    assert "1 &lt;b&gt;" in figure.data[-2].hovertext[0]


def test_what_is_no_edge_is_refused() -> None:
    with pytest.raises(ArgumentError, match="edge"):
        edge_graph([], 2, 3)
    with pytest.raises(ArgumentError, match="must join"):
        edge_graph([("<b>", "logits", 1.0)], 2, 3)


TEXTS = ["The cat <b>sat</b> $x$.", "A %{x} dog."]


def test_dots_lie_where_the_map_says_and_tell_of_their_tokens():
    found = mv.query_key_map(mv.load("tiny-gpt2"), TEXTS)
    figure = found.figure(1, 3)
    for kind, trace in enumerate(figure.data):
        close(np.stack([trace.x, trace.y], 1), found.points[1, 3, kind])
    hovers = figure.data[0].hovertext
    assert hovers[0].startswith("query The, position 0 of text 1; looks at The (1.00)")
    assert not any("<" in text or "%{" in text for text in hovers)
