"""The head grid in a real Chromium and a real Streamlit: its place on the page, and what travels.

What it draws, says and takes from keys is tried in tests/web/javascript/test_head_grid.js.
"""

from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, WebSocket, expect

from mha_viz.web import theme
from tests.browser.canvas import pixels, point_at, tile_box
from tests.browser.demo_components import WORDS, made_up


def grid(page: Page) -> Locator:
    root = page.locator(".head-grid[data-painted]")
    root.wait_for()
    return root


def assert_painted(page: Page, dark: bool) -> None:
    """Assert that some weights have their colours in the tiles between the names of the heads."""
    image, canvas = pixels(page, ".head-grid .cells"), page.locator(".head-grid .cells")
    box = canvas.bounding_box()
    assert box
    pattern = made_up(4, 8, 12, 12)
    for layer, head in ((0, 0), (1, 5), (3, 7)):
        tile = tile_box(page, layer, head)
        for query, key in ((0, 0), (6, 1), (11, 10)):
            x = tile["x"] - box["x"] + (key + 0.5) * tile["side"] / 12
            y = tile["y"] - box["y"] + (query + 0.5) * tile["side"] / 12
            weight = float(pattern[layer, head, query, key])
            colour = theme.rgb(theme.mix(theme.sequential(dark), weight**0.5))
            assert np.abs(image[int(y), int(x), :3].astype(int) - colour).max() <= 2


@pytest.mark.journey
def test_it_is_painted_in_both_themes_and_a_click_reruns_only_the_fragment(
    show: Callable[..., Page], wait_idle: Callable[[Page], None]
) -> None:
    page = show("only=grid", color_scheme="dark")
    root = grid(page)
    expect(root).to_have_attribute("data-theme", "dark")
    assert_painted(page, dark=True)
    page.emulate_media(color_scheme="light")  # without a reload
    expect(root).to_have_attribute("data-theme", "light")
    assert_painted(page, dark=False)
    point_at(page, 2, 5, 11, 10)
    weight = float(made_up(4, 8, 12, 12)[2, 5, 11, 10])
    expect(page.locator(".head-grid .tip .weight")).to_have_text(f"{weight:#.4g}")  # the server's
    tokens = page.locator(".head-grid .tip .token")
    assert tokens.all_text_contents() == [WORDS[11], WORDS[10]]
    expect(root).to_have_attribute("data-selected", "L1 H2")
    point_at(page, 3, 4, 5, 5)
    page.mouse.down()
    page.mouse.up()
    assert root.get_attribute("data-selected") == "L3 H4"
    expect(page.get_by_text("python: L3 H4 events 1 runs 2")).to_be_visible()
    wait_idle(page)
    # A second choice of another widget must not bring the click back.
    page.get_by_text("linear", exact=True).click()
    expect(page.get_by_text("python: L3 H4 events 1 runs 3")).to_be_visible()
    expect(page.get_by_text("app runs 1")).to_be_visible()
    assert root.get_attribute("data-selected") == "L3 H4"
    expect(page.locator(".head-grid .legend-kind")).to_have_text("linear")


def test_the_payload_travels_once(
    browser: Browser, demo_url: str, wait_idle: Callable[[Page], None]
) -> None:
    context = browser.new_context(viewport={"width": 1180, "height": 900})
    page = context.new_page()
    sizes: list[int] = []

    def listen(web: WebSocket) -> None:
        web.on("framereceived", lambda frame: sizes.append(len(frame)))

    page.on("websocket", listen)
    page.goto(f"{demo_url}/?only=grid&layers=12&heads=12&n=64")
    grid(page)
    wait_idle(page)
    assert max(sizes) > 12 * 12 * 64 * 64
    sizes.clear()
    point_at(page, 3, 4, 5, 5, n=64)
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_text("python: L3 H4 events 1")).to_be_visible()
    wait_idle(page)
    assert sum(sizes) < 100_000
    context.close()


def test_phone_scrolls_inside_and_taps(show: Callable[..., Page]) -> None:
    page = show("only=grid", viewport={"width": 390, "height": 844}, has_touch=True)
    root = grid(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    scroller = page.locator(".head-grid .scroller")
    assert scroller.evaluate("box => box.scrollWidth > box.clientWidth")
    tile = tile_box(page, 2, 1)
    assert tile["side"] >= 44  # large enough for a thumb
    page.touchscreen.tap(tile["x"] + 20, tile["y"] + 20)
    expect(root).to_have_attribute("data-selected", "L2 H1")
    expect(page.locator(".head-grid .tip")).to_contain_text("L2 H1")
