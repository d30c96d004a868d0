"""Any figure as files: captions and standalone pages, with texts that look like markup."""

import re
import xml.etree.ElementTree as ET

import plotly.graph_objects as go

from mha_viz.plots.figure_file import captioned, figure_html
from mha_viz.web import theme

HOSTILE = "<script>alert(1)</script> <b>&amp;</b> $x$"


def figure(**layout: object) -> go.Figure:
    made = go.Figure(go.Scatter(x=[1, 2], y=[0.5, 0.25]))
    return made.update_layout(theme.layout(), **layout)


def caption_of(made: go.Figure) -> str:
    return made.layout.legend99.title.text or ""


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


def test_a_page_needs_no_network_and_shows_texts_as_they_are() -> None:
    page = figure_html(figure(), title=HOSTILE, caption=HOSTILE)
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert not re.search(r"<script[^>]+src=|<link", page)
    assert "default-src 'none'" in page
