"""Lab 5, walked through in a real Chromium."""

import re

from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_the_lab_from_end_to_end(open_page, wait_idle, go_back):
    page = open_page("/lab-value-output?text=The+cat+sat.&layer=1&head=2")
    expect(page.get_by_text("What L1 H2 writes, computed both ways")).to_be_visible()
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Show the answer").first.click()
    expect(page.get_by_text("Yes. More.")).to_be_visible()
    wait_idle(page)
    slider = page.get_by_role("slider", name="Tokens n")
    slider.focus()
    slider.press("ArrowRight")
    expect(page).to_have_url(re.compile("n=256"))
    expect(page.get_by_text("At n = 256, d = 256")).to_be_visible()
    go_back(page)
    expect(page.get_by_text("At n = 128, d = 256")).to_be_visible()


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page):
    page = open_page("/lab-value-output?model=tiny-gpt2&rank=1&why-output=1", **PHONE)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
