"""The head grid in a real Chromium, inside a small app of its own."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, WebSocket, expect

from tests.browser.canvas import pixels, point_at, tile_box
from tests.browser.demo_components import WORDS, made_up


def grid(page: Page) -> Locator:
    root = page.locator(".head-grid[data-painted]")
    root.wait_for()
    return root


def test_grid_is_painted_in_the_colours_of_the_weights(show: Callable[..., Page]) -> None:
    page = show("only=grid&layers=2&heads=3&n=5&keys=7")
    grid(page)
    image = pixels(page, ".head-grid .cells")
    assert (image[..., 3] > 0).mean() > 0.5
    # Dark where attention is strong: the darkest pixels of each tile are where its maximum lies.
    pattern = made_up(2, 3, 5, 7)
    lightness = np.where(image[..., 3] > 0, image[..., :3].sum(-1), 999)
    columns = np.flatnonzero((image[..., 3] > 0).any(0))
    rows = np.flatnonzero((image[..., 3] > 0).any(1))
    across = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
    down = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    assert (len(down), len(across)) == (2, 3)
    for layer, head in np.ndindex(2, 3):
        tile = lightness[np.ix_(down[layer], across[head])]
        y, x = np.unravel_index(tile.argmin(), tile.shape)
        cell = (y * 5 // tile.shape[0], x * 7 // tile.shape[1])
        best = np.unravel_index(pattern[layer, head].argmax(), (5, 7))
        assert pattern[layer, head][cell] == pytest.approx(pattern[layer, head][best], rel=0.02)


def test_hover_names_head_tokens_and_the_exact_weight(show: Callable[..., Page]) -> None:
    page = show("only=grid")
    grid(page)
    pattern = made_up(4, 8, 12, 12)
    for layer, head, query, key in ((0, 0, 1, 0), (3, 7, 10, 4), (2, 5, 11, 10)):
        point_at(page, layer, head, query, key)
        tip = page.locator(".head-grid .tip")
        expect(tip.locator(".tip-title b")).to_have_text(f"L{layer} H{head}")
        weight = float(pattern[layer, head, query, key])
        text = f"{weight:#.4g}" if weight >= 1e-4 else f"{weight:.3e}"
        expect(tip.locator(".weight")).to_have_text(text)
        assert tip.locator(".token").all_text_contents() == [WORDS[query], WORDS[key]]
    assert page.locator(".head-grid .tip script, .head-grid .tip .token b").count() == 0


def test_without_exact_weights_no_more_digits_than_known(show: Callable[..., Page]) -> None:
    page = show("only=grid&coded=1")
    grid(page)
    point_at(page, 0, 1, 3, 0)
    shown = page.locator(".head-grid .tip .weight").text_content()
    assert shown and shown.startswith("≈ ") and len(shown) <= len("≈ 0.12")
    assert float(shown[2:]) == pytest.approx(made_up(4, 8, 12, 12)[0, 1, 3, 0], abs=0.006)


@pytest.mark.journey
def test_click_selects_at_once_and_reruns_only_the_fragment(
    show: Callable[..., Page], wait_idle: Callable[[Page], None]
) -> None:
    page = show("only=grid")
    root = grid(page)
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


def test_the_payload_travels_once(browser: Browser, demo_url: str, show: Any) -> None:
    context = browser.new_context(viewport={"width": 1180, "height": 900})
    page = context.new_page()
    sizes: list[int] = []

    def listen(web: WebSocket) -> None:
        web.on("framereceived", lambda frame: sizes.append(len(frame)))

    page.on("websocket", listen)
    page.goto(f"{demo_url}/?only=grid&layers=12&heads=12&n=64")
    grid(page)
    page.wait_for_timeout(500)
    assert max(sizes) > 12 * 12 * 64 * 64
    sizes.clear()
    point_at(page, 3, 4, 5, 5, n=64)
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_text("python: L3 H4 events 1")).to_be_visible()
    assert sum(sizes) < 100_000
    context.close()


def test_keyboard_moves_and_selects(show: Callable[..., Page]) -> None:
    page = show("only=grid")
    root = grid(page)
    page.locator(".head-grid .cells").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".head-grid .live")).to_contain_text("L1 H3, entropy")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    expect(page.locator(".head-grid .live")).to_contain_text("L2 H0")
    expect(page.locator(".head-grid .focused")).to_be_visible()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(root).to_have_attribute("data-selected", "L2 H7")
    expect(page.get_by_text("python: L2 H7")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    expect(page.get_by_text("python: L2 H6 events 2")).to_be_visible()


def test_scale_changes_colours_only(show: Callable[..., Page]) -> None:
    page = show("only=grid")
    grid(page)
    before = pixels(page, ".head-grid .cells")
    page.get_by_text("log", exact=True).click()
    expect(page.locator(".head-grid .legend-kind")).to_have_text("logarithmic")
    after = pixels(page, ".head-grid .cells")
    assert after.shape == before.shape and (after != before).any()
    assert page.locator(".head-grid .tick").all_text_contents()[-1] == "1"


def test_dark_mode_follows_without_reload(show: Callable[..., Page]) -> None:
    page = show("only=grid", color_scheme="dark")
    root = grid(page)
    expect(root).to_have_attribute("data-theme", "dark")
    dark = pixels(page, ".head-grid .cells")
    page.emulate_media(color_scheme="light")
    expect(root).to_have_attribute("data-theme", "light")
    light = pixels(page, ".head-grid .cells")
    assert dark[..., :3].mean() < light[..., :3].mean() - 60


def test_ranked_tiles_flow_with_names_and_values(show: Callable[..., Page]) -> None:
    page = show("only=grid&ranked=1")
    grid(page)
    captions = page.locator(".head-grid .caption").all_text_contents()
    assert len(captions) == 32
    values = [float(re.sub(r"^L\d H\d", "", caption)) for caption in captions]
    assert values == sorted(values)
    page.locator(".head-grid .cells").click(position={"x": 40, "y": 60})
    name = re.match(r"L\d H\d", captions[0])
    assert name
    expect(page.get_by_text(f"python: {name[0]} events 1")).to_be_visible()


def test_pooled_tiles_say_so(show: Callable[..., Page]) -> None:
    page = show("only=grid&layers=2&heads=3&n=300")
    grid(page)
    expect(page.locator(".head-grid .note")).to_have_text(
        "Each cell is the largest of 3 × 3 weights."
    )
    point_at(page, 1, 1, 10, 20, n=100)
    tip = page.locator(".head-grid .tip")
    expect(tip).to_contain_text("largest of 3×3")
    expect(tip.locator(".position").first).to_have_text("30–32")
    block = made_up(2, 3, 300, 300)[1, 1, 30:33, 60:63]
    expect(tip.locator(".weight")).to_have_text(f"{block.max():#.4g}")


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


def test_a_broken_payload_is_told_in_words(show: Callable[..., Page]) -> None:
    page = show("only=grid&bad=1")
    expect(page.locator(".head-grid .message")).to_contain_text("cannot be drawn")
