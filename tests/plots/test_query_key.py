"""The figure of one head's queries and keys."""

import numpy as np

import mha_viz as mv
from tests.making.comparing import close

TEXTS = ["The cat <b>sat</b> $x$.", "A %{x} dog."]


def test_dots_lie_where_the_map_says_and_tell_of_their_tokens():
    found = mv.query_key_map(mv.load("tiny-gpt2"), TEXTS)
    figure = found.figure(1, 3)
    for kind, trace in enumerate(figure.data):
        close(np.stack([trace.x, trace.y], 1), found.points[1, 3, kind])
    hovers = figure.data[0].hovertext
    assert hovers[0].startswith("query The, position 0 of text 1; looks at The (1.00)")
    assert not any("<" in text or "%{" in text for text in hovers)
