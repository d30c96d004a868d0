"""Lab 3, walked through in a real Chromium."""

import re

from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_the_lab_from_end_to_end(open_page, wait_idle):
    page = open_page("/lab-two-places?steps=100&width=8")
    page.get_by_role("button", name="Train 1 head and 2 heads").click()
    expect(page.get_by_role("button", name="Train 1 head and 2 heads again")).to_be_visible(
        timeout=400_000
    )
    wait_idle(page)
    slider = page.get_by_role("slider", name="An unseen text")
    slider.focus()
    slider.press("ArrowRight")
    expect(page).to_have_url(re.compile("example=2"))
    page.get_by_role("button", name="Train 4, 8 heads as well").click()
    expect(page.get_by_text("Best here:")).to_be_visible(timeout=400_000)
    wait_idle(page)


def test_stop_ends_training_and_leaves_the_lab_usable(open_page, wait_idle):
    page = open_page("/lab-two-places?steps=1600&width=32")
    page.get_by_role("button", name="Train 1 head and 2 heads").click()
    page.get_by_test_id("stMain").get_by_role("button", name="Stop").click()
    expect(page.get_by_test_id("stMain").get_by_role("button", name="Stop")).to_have_count(0)
    wait_idle(page)
    expect(page.get_by_text("Train 1 head and 2 heads above")).to_be_visible()


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page, wait_idle):
    page = open_page("/lab-two-places?steps=100", **PHONE)
    page.get_by_role("button", name="Train 1 head and 2 heads").click()
    expect(page.get_by_text("Where each head looks")).to_be_visible(timeout=400_000)
    wait_idle(page)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
