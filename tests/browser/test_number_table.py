"""Matrices of numbers in a real Chromium, on a lab's page: their colours and places, a finger.

What they show, say, and take from keys is tried in test_number_table.js of tests/web.
"""

import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from mha_viz.web import theme
from tests.browser.canvas import pixels

LOOKUP = "/lab-soft-lookup?tokens=3&width=2"


def cell(page: Page, title: str, row: int, column: int) -> Locator:
    table = page.locator(".number-table", has_text=title).first
    return table.locator("tbody tr").nth(row).locator("td").nth(column)


@pytest.mark.journey
def test_cells_are_coloured_followed_and_said_on_a_labs_page(open_page, wait_idle) -> None:
    page = open_page(LOOKUP, color_scheme="dark")
    said = page.locator(".number-table .tip:popover-open")
    shown = cell(page, "softmax", 0, 0)
    shown.hover()
    exact = float(said.locator("b").inner_text())
    assert shown.inner_text() == f"{exact:.2f}"
    colour = theme.rgb(theme.mix(theme.sequential(True), exact))
    painted = re.findall(r"\d+", shown.evaluate("cell => getComputedStyle(cell).backgroundColor"))
    assert np.array(painted, dtype=int) == pytest.approx(np.array(colour), abs=1)
    before = shown.inner_text()
    shown.evaluate("cell => { cell.mine = true; }")
    slider = page.get_by_role("slider", name="Temperature")
    slider.focus()
    slider.press("ArrowLeft")
    expect(shown).not_to_have_text(before)
    assert shown.evaluate("cell => cell.mine")  # changed in place
    wait_idle(page)
    table = page.locator(".number-table", has_text="softmax")
    table.locator(".frame").focus()
    page.mouse.move(0, 0)  # the page need not have moved away from below the pointer
    expect(said).to_have_count(0)
    page.keyboard.press("ArrowDown")
    expect(said).to_contain_text("softmax")
    assert table.locator(".live").inner_text()
    page.get_by_role("slider", name="Tokens").focus()
    expect(said).to_have_count(0)
    page.keyboard.press("ArrowRight")
    expect(table.locator("tbody tr")).to_have_count(4)


def test_small_cells_are_pixels_with_the_same_colours(open_page) -> None:
    page = open_page("/lab-step-by-step?step=softmax&model=tiny-gpt2")
    page.get_by_text("All of weights").wait_for()
    table = page.locator(".number-table", has_text="All of weights")
    canvas = table.locator("canvas")
    drawn = pixels(page, ".number-table canvas >> nth=0")
    n = drawn.shape[0]
    assert drawn.shape == (n, n, 4) and n > 8
    empty = theme.rgb(theme.sequential()[0])
    assert tuple(drawn[0, 1, :3]) == empty and tuple(drawn[0, 0, :3]) == theme.rgb(
        theme.sequential()[-1]
    )  # the first token sees itself alone
    side = canvas.bounding_box()["width"] / n
    canvas.hover(position={"x": 0.5 * side, "y": 0.5 * side})
    said = page.locator(".number-table .tip:popover-open")
    expect(said).to_contain_text(re.compile(r"0\s*1$"))
    names = table.locator("th[scope=row]")
    expect(names).to_have_count(n)
    last, box = names.last.bounding_box(), canvas.bounding_box()  # each beside its own line
    assert abs(last["y"] + last["height"] - box["y"] - box["height"]) < side


def test_a_finger_is_answered_and_elsewhere_ends_it(open_page) -> None:
    page = open_page(LOOKUP, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    cell(page, "softmax", 2, 1).tap()
    said = page.locator(".number-table .tip:popover-open")
    expect(said).to_contain_text("softmax")
    box = said.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    page.get_by_text("Each row of weights sums").tap()
    expect(said).to_have_count(0)
