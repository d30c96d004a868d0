"""The token lines of the workbench in a real Chromium, inside a small app of their own."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.canvas import pixels
from tests.browser.demo_components import made_up

LINES = "only=bench&show=lines&lines=3"  # of the first three heads


def lines(page: Page) -> Locator:
    root = page.locator(".token-lines[data-painted]")
    root.wait_for()
    return root


def test_lines_show_exact_weights_of_a_query(show: Callable[..., Page]) -> None:
    page = show(LINES, viewport={"width": 1600, "height": 900})
    lines(page)
    assert (pixels(page, ".token-lines canvas")[..., 3] > 0).mean() > 0.02
    expect(page.locator(".head-view")).to_have_attribute("data-exact", "true")
    page.locator(".token-lines .queries .row").nth(3).hover()
    row = page.locator(".token-lines .values.keys .value-row").nth(2)
    pattern = made_up(4, 8, 12, 12)
    expected = [f"{pattern[0, head, 3, 2]:#.4g}" for head in range(3)]
    expect(row.locator(".number")).to_have_text(expected)
    page.locator(".token-lines .keys .row").nth(0).hover()
    row = page.locator(".token-lines .values.queries .value-row").nth(5)
    expect(row.locator(".number").nth(1)).to_have_text(f"{pattern[0, 1, 5, 0]:#.4g}")


@pytest.mark.journey
def test_lines_pin_pair_and_escape(show: Callable[..., Page]) -> None:
    page = show(LINES)
    lines(page)
    page.locator(".token-lines .queries .row").nth(3).click()
    expect(page.locator(".token-lines .pinned")).to_have_count(1)
    page.locator(".token-lines .keys .row").nth(8).click()
    expect(page.get_by_text("pair (3, 8)")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".token-lines .pinned")).to_have_count(0)
    expect(page.get_by_text("pair (-1, -1)")).to_be_visible()


def test_lines_from_the_keyboard(show: Callable[..., Page]) -> None:
    page = show(LINES)
    lines(page)
    page.locator(".token-lines .head").last.focus()
    page.keyboard.press("Tab")  # to the slider
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".token-lines .live")).to_contain_text("The looks at L0 H0:")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_text("pair (1, 2)")).to_be_visible()


def test_lines_say_how_many_are_hidden_and_heads_toggle(show: Callable[..., Page]) -> None:
    page = show(LINES)
    lines(page)
    pattern = made_up(4, 8, 12, 12)[0, :3]
    ranked = -np.sort(-pattern, axis=-1)
    before = ranked.cumsum(-1) - ranked
    kept = (before < 0.9 - 1e-6).sum((1, 2))
    drawn = (pattern > 0).sum((1, 2))
    hidden = page.locator(".token-lines .hidden")
    expect(hidden).to_have_text(f"{(drawn - kept).sum()} fainter lines not drawn")
    page.locator(".token-lines .head").first.click()
    expect(hidden).to_have_text(f"{(drawn - kept)[1:].sum()} fainter lines not drawn")
    page.locator(".token-lines input[type=range]").fill("100")
    expect(hidden).to_contain_text(re.compile("All lines drawn|fainter"))


def test_lines_fit_a_phone(show: Callable[..., Page]) -> None:
    page = show(LINES, viewport={"width": 390, "height": 844}, has_touch=True)
    lines(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator(".token-lines .queries .row").nth(2).tap()
    expect(page.locator(".token-lines .values.keys .number").first).to_be_visible()
