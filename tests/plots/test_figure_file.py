"""Any figure as files: captions and standalone pages, with texts that look like markup."""

import re
import xml.etree.ElementTree as ET

import plotly.graph_objects as go
import pytest

from mha_viz.plots.figure_file import captioned, figure_html
from mha_viz.web import theme

HOSTILE = "<script>alert(1)</script> <b>&amp;</b> $x$"


def figure(**layout: object) -> go.Figure:
    made = go.Figure(go.Scatter(x=[1, 2], y=[0.5, 0.25]))
    return made.update_layout(theme.layout(), **layout)


def caption_of(made: go.Figure) -> str:
    return made.layout.legend99.title.text or ""


@pytest.mark.parametrize("dark", [False, True])
def test_a_captioned_figure_is_opaque_and_of_a_fixed_size(dark: bool) -> None:
    made = captioned(figure(height=300), "model · text", dark=dark)
    assert made.layout.paper_bgcolor == theme.paper(dark)
    assert made.layout.width == 1000 and 300 < made.layout.height < 400
    assert "model · text" in caption_of(made)


def test_the_figure_itself_is_not_changed() -> None:
    original = figure(title="mine")
    before = original.to_json()
    captioned(original, HOSTILE, dark=True)
    assert original.to_json() == before


def test_a_caption_is_text_and_not_markup() -> None:
    text = caption_of(captioned(figure(), HOSTILE, dark=False, title="<i>name</i>"))
    assert "<script" not in text and "<i>" not in text and "$" not in text
    shown = ET.fromstring(f"<p>{text.replace('<br>', ' ')}</p>")  # as plotly reads it
    assert "".join(shown.itertext()) == f"<i>name</i> {HOSTILE}"


def test_long_captions_are_wrapped_and_the_picture_grows_with_them() -> None:
    one = captioned(figure(), "short", dark=False)
    many = captioned(figure(), "word " * 300 + "\n" + "東京" * 200, dark=False)
    lines = caption_of(many).split("<br>")
    assert max(len(line) for line in lines) < 170
    assert max(len(line) for line in lines if "東" in line) < 90  # each as wide as two letters
    added = many.layout.height - one.layout.height
    assert added == pytest.approx(15.6 * (len(lines) - 1), abs=1)


def test_the_title_names_the_figure_only_where_it_has_none() -> None:
    assert "my name" in caption_of(captioned(figure(), "c", dark=False, title="my name"))
    titled = captioned(figure(title="its own"), "c", dark=False, title="my name")
    assert "my name" not in caption_of(titled) and titled.layout.title.text == "its own"


def test_a_figure_without_a_legend_gets_none() -> None:
    single = captioned(figure(), "c", dark=False)
    assert [trace.showlegend for trace in single.data] == [False]
    cells = captioned(figure().add_heatmap(z=[[1]]), "c", dark=False)
    assert [trace.showlegend for trace in cells.data] == [False, False]
    two = figure().add_scatter(x=[1], y=[1])
    assert [trace.showlegend for trace in captioned(two, "c", dark=False).data] == [None, None]


def test_what_stands_at_the_lower_edge_makes_room_for_the_caption() -> None:
    made = figure(height=400, legend=dict(y=0, yref="container", yanchor="bottom"))
    kept = captioned(made, "c", dark=False)
    pixels = kept.layout.legend.y * kept.layout.height
    assert pixels == pytest.approx(kept.layout.height - 400)


def test_without_a_caption_only_size_and_ground_are_set() -> None:
    made = captioned(figure(height=300), "", dark=False)
    assert made.layout.height == 300 and not made.layout.shapes


def test_a_page_needs_no_network_and_shows_texts_as_they_are() -> None:
    page = figure_html(figure(), title=HOSTILE, caption=HOSTILE)
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert not re.search(r"<script[^>]+src=|<link", page)
    assert "default-src 'none'" in page
