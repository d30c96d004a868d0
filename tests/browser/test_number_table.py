"""Matrices of numbers in a real Chromium, on a lab's page: colours, hover, a finger.

Their words and keys are tested in test_number_table.js of tests/web.
"""

import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from mha_viz.web import theme
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


def test_number_table_answers_a_finger_until_it_touches_elsewhere(open_page: OpenPage) -> None:
    page = open_page(LOOKUP, **PHONE)
    softmax_cell(page, 2, 1).tap()
    expect(page.locator(TIP)).to_be_in_viewport(ratio=1)
    page.get_by_role("heading").first.tap()
    expect(page.locator(TIP)).to_have_count(0)
