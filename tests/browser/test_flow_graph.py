"""The graph of a token in a real Chromium: its pixels, its place on a phone, its files.

Its drawing, its words and its keys are tried in test_flow_graph.js of tests/web.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from mha_viz.ui.widgets.components.flow_graph import graph_payload
from mha_viz.web import theme
from mha_viz.web.standalone import flow_html
from tests.browser.canvas import pixels
from tests.browser.demo_flow import made_up

Show = Callable[..., Page]
LAYERS, TOKENS = 2, 5
GUTTER, ABOVE = 34, 40  # of flow_layout.js


def shape(page: Page, painted: str | re.Pattern[str] = re.compile(r"\d+")) -> tuple[float, float]:
    """Return the width of a column and the height of a layer."""
    root = page.locator(".flow-graph")
    expect(root).to_have_attribute("data-painted", painted)
    column, rise = (root.get_attribute(f"data-{name}") for name in ("column", "rise"))
    assert column and rise
    return float(column), float(rise)


def spot(page: Page, token: int, level: int, layers: int = LAYERS) -> tuple[float, float]:
    """Where a residual position lies in the picture."""
    column, rise = shape(page)
    up = level // 2 + (0.56 if level % 2 else 0)
    return GUTTER + (token + 0.5) * column, ABOVE + (layers - up) * rise


def head_spot(page: Page, token: int, layer: int, head: int, heads: int = 3) -> tuple[float, float]:
    """Where a head lies under the position that it writes into."""
    column, rise = shape(page)
    x, y = spot(page, token, 2 * layer + 1)
    step = min(9, (column - 6) / heads)
    return x + (head - (heads - 1) / 2) * step, y + 0.24 * rise


def mlp_spot(page: Page, token: int, level: int) -> tuple[float, float]:
    column, rise = shape(page)
    x, y = spot(page, token, level)
    return x + min(11, 0.3 * column), y + 0.22 * rise


def colour(page: Page, x: float, y: float) -> str:
    """Of the pixel at a point."""
    red, green, blue, alpha = pixels(page, ".flow-graph .graph")[round(y), round(x)].tolist()
    return f"#{red:02x}{green:02x}{blue:02x}" if alpha == 255 else ""


@pytest.mark.extended
@pytest.mark.journey
def test_it_is_painted_and_a_click_on_a_head_comes_to_python(show_flow: Show) -> None:
    page = show_flow("", color_scheme="dark")
    heads, mlp = theme.qualitative(True)[:2]
    for level in range(2 * LAYERS + 1):
        assert colour(page, *spot(page, 4, level)) == theme.ink(True)
    assert colour(page, *mlp_spot(page, 4, 2 * LAYERS)) == mlp
    assert colour(page, *head_spot(page, 4, 1, 0)) == heads
    assert colour(page, *spot(page, 2, 1)) == ""  # nothing of it is in the last one
    slider = page.locator(".flow-graph input")
    slider.press("Home")
    expect(page.locator(".flow-graph .cut")).to_have_text(re.compile("; 100 % of “the” followed"))
    box = page.locator(".flow-graph .over").bounding_box()
    assert box
    x, y = head_spot(page, 4, 1, 2)
    page.mouse.move(box["x"] + x, box["y"] + y)
    expect(page.locator(".flow-graph .tip")).to_contain_text("L1 H2 at “the”, from 2 tokens")
    page.mouse.click(box["x"] + x, box["y"] + y)
    expect(page.get_by_text(re.compile(r"python: \(1, 2, 4, [04]\) events 1"))).to_be_visible()
    expect(slider).to_have_value("0")
    picture = page.get_by_role("application")
    for key in ("Home", "ArrowDown", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        picture.press(key)
    expect(page.get_by_text("events 2")).to_be_visible()


def test_a_phone_scrolls_it_and_takes_its_files(show_flow: Show) -> None:
    page = show_flow("hostile=1&n=30&layers=3", viewport={"width": 390, "height": 800})
    shape(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    wide, seen = page.locator(".flow-graph .scroller").evaluate(
        "e => [e.scrollWidth, e.clientWidth]"
    )
    assert wide > 30 * 26 > seen
    picture = page.get_by_role("application")
    picture.press("Home")  # the last token, far to the right, comes into sight
    assert page.locator(".flow-graph .scroller").evaluate("e => e.scrollLeft") > 0
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    text = Path(download.value.path()).read_text("utf-8")
    assert "&lt;img src=x" in text and "<img" not in text and "\u202e" not in text
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_a_file_needs_no_server(show_flow: Show, tmp_path: Path) -> None:
    page = show_flow("")
    file = tmp_path / "flow.html"
    file.write_text(flow_html(graph_payload(made_up()), title="A <title>", caption="& a text"))
    page.goto(file.as_uri())
    shape(page)
    expect(page.get_by_role("heading", name="A <title>")).to_be_visible()
    page.get_by_role("application").press("ArrowDown")
    expect(page.locator(".flow-graph .live")).to_contain_text("chosen")
