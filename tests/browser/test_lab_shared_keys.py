"""Lab 14, walked through in a real Chromium."""

import re

from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_the_lab_from_end_to_end(open_page, wait_idle):
    page = open_page("/lab-shared-keys")
    expect(page.get_by_text("of cases: sharing keys does not make heads")).to_be_visible()
    page.get_by_text("Layer 2", exact=True).click()
    expect(page).to_have_url(re.compile("of_layer=2"))
    expect(page.get_by_text("L2 H1, keys 0")).to_be_visible()
    wait_idle(page)
    page.get_by_text("Against an RNN, which keeps").click()
    expect(page.get_by_text("steps must run in sequence")).to_be_visible()
    expect(page).to_have_url(re.compile("against-rnn=1"))
    wait_idle(page)
    page.get_by_role("button", name="Run it yourself").click()
    expect(page.get_by_role("button", name="Measure again")).to_be_visible(timeout=400_000)


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page):
    page = open_page("/lab-shared-keys", **PHONE)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
