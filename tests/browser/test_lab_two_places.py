"""Lab 3, walked through in a real Chromium."""

import re

from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_the_lab_from_end_to_end(open_page, wait_idle):
    page = open_page("/lab-two-places?steps=100&width=8&texts=1")
    page.get_by_role("button", name="Train").click()
    expect(page.get_by_role("button", name="Train again")).to_be_visible(timeout=400_000)
    wait_idle(page)
    slider = page.get_by_role("slider", name="An unseen text")
    slider.focus()
    slider.press("ArrowRight")
    expect(page).to_have_url(re.compile("example=2"))
    expect(page.get_by_text("Best here:")).to_be_visible()
    wait_idle(page)


def test_stop_ends_training_and_leaves_the_lab_usable(open_page, wait_idle):
    page = open_page("/lab-two-places?steps=1600&width=32")
    page.get_by_role("button", name="Train").click()
    page.get_by_test_id("stMain").get_by_role("button", name="Stop").click()
    expect(page.get_by_test_id("stMain").get_by_role("button", name="Stop")).to_have_count(0)
    wait_idle(page)
    expect(page.get_by_text("press Train below")).to_be_visible()


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page, wait_idle):
    page = open_page(
        "/lab-two-places?texts=1&rank=1", **PHONE
    )  # the stored run: nothing to wait for
    expect(page.get_by_text("Where each head looks")).to_be_visible()
    wait_idle(page)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
