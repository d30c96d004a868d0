"""The graph of a token in a real Chromium: pointer, a phone, its files.

Its drawing, its words and its keys are tested in test_flow_graph.js of tests/web.
"""

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from mha_viz.ui.widgets.components.flow_graph import graph_payload
from mha_viz.web.standalone import flow_html
from tests.browser.compare_page import PHONE
from tests.browser.demo_flow import made_up
from tests.browser.tabs import OpenPage

LAYERS, HEADS = 2, 3
GUTTER, ABOVE = 34, 40  # of flow_layout.js


def head_point(page: Page, token: int, layer: int, head: int) -> tuple[float, float]:
    """Return the point of a head, below the position that it writes into."""
    root = page.locator(".flow-graph[data-painted]")
    column, rise = (float(root.get_attribute(f"data-{name}") or 0) for name in ("column", "rise"))
    box = page.locator(".flow-graph .over").bounding_box()
    assert box
    across = (head - (HEADS - 1) / 2) * min(9, (column - 6) / HEADS)
    x = GUTTER + (token + 0.5) * column + across
    return box["x"] + x, box["y"] + ABOVE + (LAYERS - layer - 0.56 + 0.24) * rise


def test_flow_graph_click_on_a_head_comes_to_python(show_flow: OpenPage) -> None:
    page = show_flow()
    page.locator(".flow-graph input").press("Home")
    point = head_point(page, 4, 1, 2)
    page.mouse.move(*point)
    expect(page.locator(".flow-graph .tip")).to_contain_text("L1 H2 at “the”, from 2 tokens")
    page.mouse.click(*point)
    expect(page.get_by_text(re.compile(r"python: \(1, 2, 4, [04]\) events 1"))).to_be_visible()
    expect(page.locator(".flow-graph input")).to_have_value("0")
    picture = page.get_by_role("application")
    for key in ("Home", "ArrowDown", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        picture.press(key)
    expect(page.get_by_text("events 2")).to_be_visible()


def test_flow_graph_on_a_phone_scrolls_and_hands_out_files(show_flow: OpenPage) -> None:
    page = show_flow("hostile=1&n=30&layers=3", **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    scroller = page.locator(".flow-graph .scroller")
    assert scroller.evaluate("e => e.scrollWidth > e.clientWidth")
    page.get_by_role("application").press("Home")  # the last token, far to the right
    assert scroller.evaluate("e => e.scrollLeft") > 0
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    text = Path(download.value.path()).read_text("utf-8")
    assert "&lt;img src=x" in text and "<img" not in text and "\u202e" not in text
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_flow_graph_file_needs_no_server(show_flow: OpenPage, tmp_path: Path) -> None:
    page = show_flow()
    file = tmp_path / "flow.html"
    file.write_text(flow_html(graph_payload(made_up()), title="A <title>", caption="& a text"))
    page.goto(file.as_uri())
    expect(page.get_by_role("heading", name="A <title>")).to_be_visible()
    page.get_by_role("application").press("ArrowDown")
    expect(page.locator(".flow-graph .live")).to_contain_text("chosen")
