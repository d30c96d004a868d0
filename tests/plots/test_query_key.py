"""The figure of one head's queries and keys."""

import numpy as np

import mha_viz as mv
from mha_viz.plots.column_image import column_image
from mha_viz.web import theme
from tests.making.comparing import close

TEXTS = ["The cat <b>sat</b> $x$.", "A %{x} dog."]


def test_dots_lie_where_the_map_says_and_tell_of_their_tokens():
    found = mv.query_key_map(mv.load("tiny-gpt2"), TEXTS)
    for dark in (False, True):
        figure = found.figure(1, 3, dark=dark)
        assert [trace.name for trace in figure.data] == ["queries", "keys"]
        for kind, trace in enumerate(figure.data):
            close(np.stack([trace.x, trace.y], 1), found.points[1, 3, kind])
            assert trace.marker.color == theme.qualitative(dark)[kind]
        assert figure.layout.yaxis.scaleanchor == "x"
    hovers = figure.data[0].hovertext
    assert hovers[0].startswith("query The, position 0 of text 1; looks at The (1.000)")
    assert not any("<" in text or "%{" in text for text in hovers)
    assert "Nearness and score" in figure.layout.title.text


def test_it_can_be_a_picture_for_a_paper():
    figure = mv.query_key_map(mv.load("tiny-gpt2"), TEXTS).figure(1, 3)
    assert column_image(figure, file_format="png").startswith(b"\x89PNG")
