"""Lab 1, walked through in a real Chromium."""

import re

from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_the_lab_from_end_to_end(open_page, wait_idle, go_back):
    page = open_page("/lab-soft-lookup")
    page.get_by_text("Weight 1 for the key with the largest score").click()
    page.get_by_role("button", name="Show the answer").first.click()
    expect(page.get_by_text("Yes. Weight 1 for the key")).to_be_visible()
    slider = page.get_by_role("slider", name="Temperature T")
    slider.focus()
    slider.press("ArrowRight")
    expect(page).to_have_url(re.compile("temperature=1.05"))
    page.get_by_text("Variance of the scores").first.click()
    expect(page).to_have_url(re.compile("aspect=variance"))
    go_back(page)
    expect(page).to_have_url(re.compile("temperature=1.05$"))
    wait_idle(page)
    slider = page.get_by_role("slider", name="Temperature T")
    expect(slider).to_have_value("1.05")
    go_back(page)  # to how the lab was opened
    expect(slider).to_have_value("1")
    expect(page).to_have_url(re.compile("/lab-soft-lookup$"))
    assert page.get_by_role("alert").filter(has_text="makes no sense").count() == 0


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page):
    page = open_page("/lab-soft-lookup?tokens=8&width=8", **PHONE)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
