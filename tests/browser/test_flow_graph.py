"""What flows into a token, drawn in a real Chromium: a small app of its own, and a file."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from mha_viz.ui.widgets.flow_graph import payload_of
from mha_viz.web import theme
from mha_viz.web.standalone import flow_html
from tests.browser.canvas import pixels
from tests.browser.demo_flow import made_up

Show = Callable[..., Page]
LAYERS, TOKENS = 2, 5
GUTTER, ABOVE = 34, 40  # of flow_layout.js


def shape(page: Page, painted: str | re.Pattern[str] = re.compile(r"\d+")) -> tuple[float, float]:
    """How wide a column is, and how high a layer."""
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


def live(page: Page) -> str:
    return page.locator(".flow-graph .live").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_drawn_is_what_the_payload_says(show_flow: Show, scheme: str) -> None:
    page, dark = show_flow("", color_scheme=scheme), scheme == "dark"
    heads, mlp = theme.qualitative(dark)[:2]
    for level in range(2 * LAYERS + 1):
        assert colour(page, *spot(page, 4, level)) == theme.ink(dark)
    assert colour(page, *mlp_spot(page, 4, 2 * LAYERS)) == mlp
    assert colour(page, *head_spot(page, 4, 1, 0)) == heads
    assert colour(page, *spot(page, 0, 2)) == theme.ink(dark)  # heads take from the first token
    assert colour(page, *spot(page, 2, 1)) == ""  # nothing of it is in the last one
    x, y = spot(page, 4, 2 * LAYERS)
    middle = pixels(page, ".flow-graph .graph")[round(y + 15), round(x)]
    assert middle[3] > 100  # the edge from one position to the next


def test_the_slider_cuts_and_says_how_much(show_flow: Show) -> None:
    page = show_flow("")
    cut, slider = page.locator(".flow-graph .cut"), page.locator(".flow-graph input")
    slider.press("Home")
    expect(cut).to_have_text(re.compile("; 100 % of “the” followed, 0.0 % cut"))
    everything = page.locator(".flow-graph").get_attribute("data-painted")
    slider.press("End")
    # Of each layer's sums 0.75 and 0.5 come from the position below: 0.375 squared.
    expect(cut).to_have_text("4 parts; 14 % of “the” followed, 86 % cut")
    shape(page, "4")
    assert colour(page, *spot(page, 4, 0)) == theme.ink()
    assert colour(page, *mlp_spot(page, 4, 2 * LAYERS)) == ""
    slider.press("Home")
    shape(page, str(everything))


def test_arrow_keys_walk_and_say_where_they_are(show_flow: Show) -> None:
    page = show_flow("")
    picture = page.get_by_role("application")
    picture.press("ArrowDown")
    assert live(page) == "“the” behind the last layer, chosen"
    picture.press("ArrowDown")
    assert live(page).startswith("L1: “the” passes the MLP, 75 % of the sum at “the”")
    picture.press("ArrowRight")
    assert live(page).startswith("L1 MLP at “the”, 25 % of the sum")
    picture.press("ArrowDown")
    assert live(page) == "“the” behind attention of L1, 100 % of the chosen state"
    for key in ("ArrowDown", "ArrowRight"):
        picture.press(key)
    said = re.match(r"L1 H(\d): “the” takes from “(\w+)”", live(page))
    assert said and "attention weight 0.4000" in live(page)
    picture.press("Enter")
    key = {"The": 0, "the": 4}[said[2]]
    expect(page.get_by_text(f"python: (1, {said[1]}, 4, {key}) events 1")).to_be_visible()
    picture.press("Home")
    assert "chosen" in live(page)
    picture.press("Escape")
    expect(page.locator(".flow-graph .tip")).to_be_hidden()


@pytest.mark.journey
def test_a_click_on_a_head_comes_to_python_and_the_slider_stays(show_flow: Show) -> None:
    page = show_flow("")
    page.locator(".flow-graph input").press("Home")
    box = page.locator(".flow-graph .over").bounding_box()
    assert box
    x, y = head_spot(page, 4, 1, 2)
    page.mouse.move(box["x"] + x, box["y"] + y)
    expect(page.locator(".flow-graph .tip")).to_contain_text("L1 H2 at “the”, from 2 tokens")
    page.mouse.click(box["x"] + x, box["y"] + y)
    expect(page.get_by_text(re.compile(r"python: \(1, 2, 4, [04]\) events 1"))).to_be_visible()
    expect(page.locator(".flow-graph input")).to_have_value("0")
    x, y = spot(page, 4, 3)
    page.mouse.click(box["x"] + x, box["y"] + y)  # no head
    expect(page.locator(".flow-graph .tip")).to_contain_text("“the” behind attention of L1")
    expect(page.get_by_text("events 1")).to_be_visible()


def test_tokens_stay_text_on_a_phone_and_in_files(show_flow: Show) -> None:
    page = show_flow("hostile=1&n=30&layers=3", viewport={"width": 390, "height": 800})
    shape(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    wide, seen = page.locator(".flow-graph .scroller").evaluate(
        "e => [e.scrollWidth, e.clientWidth]"
    )
    assert wide > 30 * 26 > seen
    assert page.locator(".flow-graph img, .flow-graph script").count() == 0
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
    file.write_text(flow_html(payload_of(made_up()), title="A <title>", caption="& a text"))
    page.goto(file.as_uri())
    shape(page)
    expect(page.get_by_role("heading", name="A <title>")).to_be_visible()
    page.get_by_role("application").press("ArrowDown")
    assert "chosen" in live(page)
