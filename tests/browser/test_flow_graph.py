"""The graph of a token in a real Chromium: a phone, its files.

Its drawing, its clicks and its keys are tested in test_flow_graph.js of tests/web.
"""

from pathlib import Path

from tests.browser.compare_page import PHONE
from tests.browser.tabs import OpenPage


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
