"""Matrices of numbers in a real Chromium, on a lab's page: colours, hover, a finger.

Their words and keys are tested in test_number_table.js of tests/web.
"""

import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from mha_viz.web import theme
from tests.browser.canvas import pixels
from tests.browser.compare_page import PHONE
from tests.browser.tabs import OpenPage

LOOKUP = "/lab-soft-lookup?tokens=3&width=2"
TIP = ".number-table .tip:popover-open"


def softmax_cell(page: Page, row: int, column: int) -> Locator:
    table = page.locator(".number-table", has_text="softmax").first
    return table.locator("tbody tr").nth(row).locator("td").nth(column)


def test_number_table_colours_its_cells_and_follows_the_slider(open_page: OpenPage) -> None:
    page = open_page(LOOKUP, color_scheme="dark")
    cell = softmax_cell(page, 0, 0)
    cell.hover()
    exact = float(page.locator(TIP).locator("b").inner_text())
    assert cell.inner_text() == f"{exact:.2f}"
    colour = theme.rgb(theme.mix(theme.sequential(True), exact))
    painted = re.findall(r"\d+", cell.evaluate("cell => getComputedStyle(cell).backgroundColor"))
    assert np.array(painted, dtype=int) == pytest.approx(np.array(colour), abs=1)
    before = cell.inner_text()
    cell.evaluate("cell => { cell.mine = true; }")
    slider = page.get_by_role("slider", name="Temperature")
    slider.focus()
    slider.press("ArrowLeft")
    expect(cell).not_to_have_text(before)
    assert cell.evaluate("cell => cell.mine")  # changed in place


def test_number_table_small_cells_are_pixels_of_the_same_colours(open_page: OpenPage) -> None:
    page = open_page("/lab-step-by-step?step=softmax&model=tiny-gpt2")
    canvas = page.locator(".number-table canvas").first
    painted = pixels(page, ".number-table canvas >> nth=0")
    assert painted.shape[0] == painted.shape[1] > 8
    low, high = (theme.rgb(theme.sequential()[end]) for end in (0, -1))
    assert tuple(painted[0, 1, :3]) == low and tuple(painted[0, 0, :3]) == high
    box = canvas.bounding_box()
    assert box
    side = box["width"] / len(painted)
    canvas.hover(position={"x": 0.5 * side, "y": 0.5 * side})
    expect(page.locator(TIP)).to_contain_text(re.compile(r"0\s*1$"))


def test_number_table_answers_a_finger_until_it_touches_elsewhere(open_page: OpenPage) -> None:
    page = open_page(LOOKUP, **PHONE)
    softmax_cell(page, 2, 1).tap()
    expect(page.locator(TIP)).to_be_in_viewport(ratio=1)
    page.get_by_role("heading").first.tap()
    expect(page.locator(TIP)).to_have_count(0)
