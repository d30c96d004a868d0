"""Pictures, figures and pages as files: valid, described, and deaf to hostile tokens."""

import base64
import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import plotly.graph_objects as go
import pytest
from PIL import Image

from mha_viz.core.compare.twins import head_order
from mha_viz.core.record.fields import Token
from mha_viz.errors import ArgumentError
from mha_viz.plots.bars import histogram_bars, token_bars
from mha_viz.plots.column_image import column_image
from mha_viz.plots.difference import difference_heatmap, head_changes
from mha_viz.plots.figure_file import captioned, figure_html
from mha_viz.plots.head_values import head_quantiles, importance_map
from mha_viz.plots.heatmap import head_html
from mha_viz.plots.printed import (
    WIDTHS_MM,
    PrintOptions,
    printed_grid_and_head,
    printed_head,
    printed_lines,
)
from mha_viz.plots.similarity_matrix import HeadPairs, similarity_matrix
from mha_viz.plots.static import grid_image, head_image, tiles_of
from mha_viz.text.from_weights import record
from mha_viz.web import theme
from mha_viz.web.payload import grid_payload
from mha_viz.web.standalone import fragment, grid_html
from tests.plots.drawn import softmax_rows

TOKENS = ["<b>x</b>", "</script><script>alert(1)", "$\\frac{", "السلام", "東京", "👍", "a\x00\x07b"]
CAPTION = 'tiny-bert · L0 H1 · "<b>&</b>"\nsquare-root colours'


def test_png_shows_masked_cells_in_grey() -> None:
    seen, weights = np.tri(2, dtype=bool), np.eye(2, dtype=np.float32)
    zero, one = theme.rgb(theme.sequential()[0]), theme.rgb(theme.sequential()[-1])
    grey = theme.rgb(theme.missing())
    names = (["a", "b"], ["a", "b"])
    for data, expected in (
        (head_image(weights, names, visible=seen), {zero, one, grey}),
        (grid_image(np.tile(weights, (1, 3, 1, 1)), visible=seen[None]), {zero, one, grey}),
        (head_image(weights, names), {zero, one}),
    ):
        with Image.open(io.BytesIO(data)) as image:
            counts = {c: n for n, c in image.convert("RGB").getcolors(1 << 20)}
        large = {colour for colour in (zero, one, grey) if counts.get(colour, 0) > 1000}
        assert large == expected


def test_svg_is_xml_and_described() -> None:
    data = head_image(
        softmax_rows(7, 7), (TOKENS, TOKENS), file_format="svg", title="<L0>", caption=CAPTION
    )
    root = ET.fromstring(data)
    texts = " ".join(root.itertext())
    assert "<L0>" in texts and 'tiny-bert · L0 H1 · "<b>&</b>"' in texts
    assert not root.findall(".//{http://www.w3.org/2000/svg}script")


NOT_XML = ["\x00", "\x1f", "\ud800", "\uffff"]


@pytest.mark.parametrize("sign", NOT_XML, ids=ascii)
def test_signs_that_xml_has_no_place_for(sign: str) -> None:
    texts, named = [f"a{sign}b", "c"], dict(title=f"t{sign}", caption=f"c{sign}d")
    head, grid = softmax_rows(2, 2), softmax_rows(1, 1, 2, 2)
    for picture in (
        head_image(head, (texts, texts), file_format="svg", **named),
        grid_image(grid, file_format="svg", **named),
    ):
        shown = "".join(ET.fromstring(picture).itertext())
        assert sign not in shown and re.search("c[ \ufffd\u2400-\u241f]d", shown)
    payload = grid_payload(record(grid, [Token(text, 7) for text in texts]))
    for page in (grid_html(payload, **named), head_html(head, (texts, texts), **named)):
        assert "<h1>t\ufffd</h1>" in page and "<p>c\ufffdd</p>" in page
        page.encode()  # half a character has no bytes


def test_files_refuse() -> None:
    names = ["a", "b"], ["a", "b"]
    with pytest.raises(ArgumentError, match="png"):
        head_image(softmax_rows(2, 2), names, file_format="gif")
    for width_mm in (0, -1, float("nan"), 10**6):
        with pytest.raises(ArgumentError, match="mm"):
            PrintOptions(width_mm=width_mm)
    with pytest.raises(ArgumentError, match="name"):
        printed_lines(softmax_rows(3, 2, 2), names, ["L0 H1"], PrintOptions(width_mm=85))


@pytest.mark.parametrize("width_mm", WIDTHS_MM)
def test_printed_pictures_are_as_wide_as_asked_and_say_what_they_are(width_mm: int) -> None:
    labels = [f"{token}{at}" for at, token in enumerate(TOKENS)], TOKENS[:5]
    grid, head = softmax_rows(2, 3, 7, 5), softmax_rows(7, 5)
    options = PrintOptions(width_mm=width_mm, file_format="svg", title="L1 H2", caption=CAPTION)
    for picture in (
        printed_head(head, labels, options, visible=np.tri(7, 5, dtype=bool)),
        printed_lines(grid[1], labels, ["L1 H0", "L1 H1", "L1 H2"], options),
        printed_grid_and_head(tiles_of(grid), head, labels, (1, 2), options),
    ):
        root = ET.fromstring(picture)
        assert float(root.attrib["width"].removesuffix("pt")) == pytest.approx(width_mm / 25.4 * 72)
        texts = " ".join(root.itertext())
        assert "L1 H2" in texts and "tiny-bert" in texts


def test_printed_lines_hold_the_share_of_each_row() -> None:
    weights = softmax_rows(1, 7, 5)
    names = [str(at) for at in range(7)], [str(at) for at in range(5)]
    options = PrintOptions(width_mm=85, file_format="svg")
    drawn = printed_lines(weights, names, ["L0 H0"], options, share=0.8)
    expected = 0
    for row in np.sort(weights[0])[:, ::-1]:
        expected += int(np.searchsorted(np.cumsum(row), 0.8 * row.sum() - 1e-6)) + 1
    curves = re.findall(rb'<path d="M [^"]*" clip-path="[^"]*" style="fill: none; stroke: #', drawn)
    assert len(curves) == expected


def test_grid_page_needs_no_network_and_holds_tokens_as_data() -> None:
    facts = {"</script><script>": np.zeros((2, 3))}  # a metric of one's own may have any name
    payload = grid_payload(record(softmax_rows(2, 3, 7, 7), TOKENS), facts)
    page = grid_html(payload, title="</title><script>x", caption="<i>c</i>", dark=True)
    assert not re.search(r"(src|href)=|https?://", page)
    assert page.count("<script") == 1 and page.count("</script>") == 1
    assert "alert(1)" not in page and "<i>c</i>" not in page
    assert base64.b64encode(payload).decode() in page
    assert "connect-src" not in page and "default-src 'none'" in page
    with pytest.raises(ArgumentError):
        grid_html(b"nothing")


def test_fragment_keeps_a_page_inside_its_frame() -> None:
    payload = grid_payload(record(softmax_rows(1, 1, 7, 7), TOKENS))
    frame = fragment(grid_html(payload), title='a"b')
    assert frame.startswith("<iframe srcdoc=") and frame.endswith("</iframe>")
    assert frame.count("<") == 2  # the frame's own tags
    assert "allow-same-origin" not in frame


def test_head_page_shows_tokens_literally() -> None:
    page = head_html(softmax_rows(7, 7), (TOKENS, TOKENS), title="<L0>")
    assert "<b>x</b>" not in page and "</script><script>alert" not in page
    assert "&lt;L0&gt;" in page
    assert not re.search(r"<script[^>]+src=", page)


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


DICE = np.random.default_rng(7)
SVG = "{http://www.w3.org/2000/svg}"


def pairs(n_heads: int, layers: int) -> go.Figure:
    table = DICE.random((n_heads * layers,) * 2)
    table = table + table.T
    np.fill_diagonal(table, 0)
    names = [f"L{i // n_heads} H{i % n_heads}" for i in range(len(table))]
    return similarity_matrix(HeadPairs(table, names, head_order(table), n_heads), title="Distance")


FIGURES = {
    "map": importance_map(DICE.random((3, 7)), "Entropy", "nats", selected=(1, 3)),
    "signed": head_changes(DICE.normal(size=(13, 11)), "Entropy", "nats", diverging=True),
    "quantiles": head_quantiles(np.sort(DICE.random((5, 3, 7)), 0), "Entropy", "nats"),
    "bars": token_bars({"L0 H1": DICE.random(5)}, TOKENS[:5], "weight"),
    "histogram": histogram_bars(np.arange(12.0), DICE.integers(1, 9, 11), "Entropy", "nats"),
    "speech": difference_heatmap(
        (DICE.random((5, 5)), DICE.random((5, 5))), (TOKENS[:5], TOKENS[:5]), title="<b>$x$"
    ),
    "pairs": pairs(11, 11),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_kind_of_figure_is_a_picture_without_a_script(name: str):
    root = ET.fromstring(column_image(FIGURES[name], file_format="svg", column="double"))
    assert float(root.attrib["width"].removesuffix("pt")) == pytest.approx(72 * 6.75)
    assert len(list(root.iter(f"{SVG}path"))) > 5 and not root.findall(f".//{SVG}script")


def test_pdf_has_its_width_and_embeds_truetype_and_says_what_it_is():
    data = column_image(FIGURES["map"], title="Entropy (all)", caption="tiny-bert\n196 texts")
    box = re.search(rb"/MediaBox \[([^\]]*)\]", data)
    assert box and [float(n) for n in box[1].split()][2] == pytest.approx(72 * 3.25)
    assert b"/FontFile2" in data and b"/Type3" not in data  # TrueType, no shapes of letters
    assert b"/Title (Entropy \\(all\\))" in data and b"/Subject (tiny-bert 196 texts)" in data
