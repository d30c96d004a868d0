"""The panels of a head's spaces: their points, colours and places."""

import numpy as np
import pytest

from mha_viz.errors import ShapeError
from mha_viz.plots.space_scatter import SpacePanel, TokenColours, space_scatter
from mha_viz.web import theme

N = 13
RNG = np.random.default_rng(17)
PANELS = [
    SpacePanel(name, RNG.standard_normal((N, 2)).astype(np.float32), (f"{name} 1", f"{name} 2"))
    for name in ("Queries", "Keys", "<b>Values</b>")
]
TOKENS = ["<i>a</i>", *map(str, range(N - 1))]
PLACES = np.stack([np.arange(N) % 5, np.arange(N)], 1)


def _drawn(colours: TokenColours, dark: bool = False):
    return space_scatter(PANELS, colours, TOKENS, PLACES, dark=dark)


@pytest.mark.parametrize("dark", [False, True])
def test_each_panel_has_its_points_and_the_colours_of_all(dark: bool) -> None:
    names = tuple("abcdefgh")
    figure = _drawn(TokenColours("kind", np.arange(N) % 8, names), dark)
    dots = [trace for trace in figure.data if not trace.showlegend]
    axes = {trace.xaxis or "x" for trace in dots}
    assert len(dots) == len(axes) == len(PANELS)
    for trace, panel in zip(dots, PANELS, strict=True):
        assert np.stack([trace.x, trace.y], 1) == pytest.approx(panel.points)
        assert np.array_equal(trace.customdata, PLACES)
        assert trace.marker.color.tolist() == (np.arange(N) % 8).tolist()
    legend = {trace.name: trace.marker.color for trace in figure.data if trace.showlegend}
    assert list(legend) == list(names) and legend["h"] == theme.muted(dark)
    steps = dict(dots[0].marker.colorscale[1::2])  # the upper end of each step
    assert list(steps.values()) == list(legend.values())


def test_numbers_are_a_scale_and_text_is_no_markup() -> None:
    figure = _drawn(TokenColours("weight", np.linspace(0.25, 0.75, N)))
    marker = figure.data[0].marker
    assert (marker.cmin, marker.cmax) == (0.25, 0.75) and marker.showscale
    assert not any(trace.showlegend for trace in figure.data)
    assert figure.data[0].text[0] == "&lt;i&gt;a&lt;/i&gt;"
    assert any("&lt;b&gt;Values" in one.text for one in figure.layout.annotations)


def test_panels_of_other_tokens_are_refused() -> None:
    with pytest.raises(ShapeError):
        _drawn(TokenColours("weight", np.zeros(N - 1)))
    with pytest.raises(ShapeError):
        space_scatter([], TokenColours("weight", np.zeros(N)), TOKENS, PLACES)
