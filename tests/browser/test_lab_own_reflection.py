"""Lab 2, walked through in a real Chromium."""

import re

import pytest
from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_the_lab_from_end_to_end(open_page, wait_idle):
    page = open_page("/lab-own-reflection?steps=100&pointwise=1")
    expect(page.get_by_text("The diagonal does not win in 1 of 4 rows")).to_be_visible()
    page.get_by_text("Equal lengths", exact=True).click()
    expect(page.get_by_text("All 4 tokens look at themselves most")).to_be_visible()
    expect(page).to_have_url(re.compile("equal=1"))
    page.get_by_role("button", name="Train").click()
    expect(page.get_by_role("button", name="Train again")).to_be_visible(timeout=400_000)
    expect(page.get_by_text("texts outside of the training")).to_be_visible()
    wait_idle(page)
    page.get_by_text("Mask all others").click()
    expect(page.get_by_text("largest difference between the two outputs is 0")).to_be_visible()
    expect(page).to_have_url(re.compile("masked=1"))


@pytest.mark.journey
def test_stop_ends_training_and_leaves_the_lab_usable(open_page, wait_idle):
    page = open_page("/lab-own-reflection?steps=5000")
    page.get_by_role("button", name="Train").click()
    page.get_by_test_id("stMain").get_by_role("button", name="Stop").click()
    wait_idle(page)
    expect(page.get_by_role("button", name="Train", exact=True)).to_be_visible()
    expect(page.get_by_text("texts outside of the training")).to_have_count(0)


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page):
    page = open_page(
        "/lab-own-reflection?tokens=6&places=6&half-true=1&random=1&pointwise=1", **PHONE
    )
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
