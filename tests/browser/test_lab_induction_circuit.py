"""Lab 13, walked through in a real Chromium."""

import re

from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
LAB = "/lab-induction-circuit?words=6&word=1&score=1&cut=1"


def test_the_lab_from_end_to_end(open_page, wait_idle, go_back):
    page = open_page(LAB)
    page.get_by_text("It hardly moves").click()
    wait_idle(page)
    page.get_by_role("button", name="Show the answer").nth(1).click()  # the last is the exit's
    expect(page.get_by_text("one by one misses circuits").first).to_be_visible()
    wait_idle(page)
    slider = page.get_by_role("slider", name="Word of a copy")
    slider.focus()
    slider.press("ArrowRight")
    expect(page).to_have_url(re.compile("word=2"))
    wait_idle(page)
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(5)
    go_back(page)
    expect(page).to_have_url(re.compile("word=1"))


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page, wait_idle):
    page = open_page(LAB, **PHONE)
    expect(page.get_by_text("Cut the path").first).to_be_visible(timeout=400_000)
    wait_idle(page)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
