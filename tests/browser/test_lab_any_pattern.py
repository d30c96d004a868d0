"""Lab 7, walked through in a real Chromium."""

import re

import pytest
from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.mark.extended
@pytest.mark.journey
def test_paint_fit_and_another_seed(open_page, wait_idle):
    page = open_page("/lab-any-pattern?tokens=4")
    grid = page.locator(".number-table").first

    def click(row, column):
        grid.locator("tbody tr").nth(row).locator("td").nth(column).click()

    click(1, 3)
    expect(page).to_have_url(re.compile("own4=9000-0909-0090-0009"))
    wait_idle(page)
    expect(page.get_by_label("Or type it")).to_have_value("9000\n0909\n0090\n0009")
    click(1, 3)  # the same cell again: its weight goes
    expect(page).to_have_url(re.compile("pattern=own"))
    expect(page.get_by_label("Or type it")).to_have_value("9000\n0900\n0090\n0009")
    wait_idle(page)
    page.get_by_role("button", name="Fit heads of width 1 to 4").click()
    expect(page.get_by_text("The narrowest head that comes within")).to_be_visible()
    wait_idle(page)
    page.get_by_role("spinbutton", name="Seed").fill("7")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("seed=7"))
    wait_idle(page)
    expect(page.get_by_text("The narrowest head that comes within")).to_have_count(0)


def test_painting_by_keyboard(open_page, wait_idle):
    page = open_page("/lab-any-pattern?tokens=4")
    page.locator(".number-table .frame").first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile("own4=9090-0900-0090-0009"))
    wait_idle(page)
    page.keyboard.press("ArrowLeft")  # the focus stayed
    page.keyboard.press(" ")
    expect(page).to_have_url(re.compile("own4=9990-0900-0090-0009"))


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page):
    page = open_page("/lab-any-pattern?tokens=12", **PHONE)
    page.get_by_role("button", name="Fit heads").click()
    expect(page.get_by_text("The narrowest head that comes within")).to_be_visible()
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
