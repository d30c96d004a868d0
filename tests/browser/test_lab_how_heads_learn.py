"""Lab 9, walked through in a real Chromium."""

import re

from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_the_lab_from_end_to_end(open_page, wait_idle):
    address = "/lab-how-heads-learn?steps=200&heads=2&rate=0.01"
    page = open_page(address, reduced_motion="no-preference")
    page.get_by_role("button", name="Train").click()
    expect(page.get_by_text("An induction head formed at step")).to_be_visible(timeout=400_000)
    wait_idle(page)
    expect(page.get_by_text("All heads at step 200")).to_be_visible()
    slider = page.get_by_role("slider", name="Step: 0 is the start")
    slider.focus()
    slider.press("Home")
    expect(page.get_by_text("All heads at step 0")).to_be_visible()
    expect(page).to_have_url(re.compile("moment=0"))
    wait_idle(page)
    page.get_by_role("button", name="Play: the film").click()
    expect(page.get_by_text("All heads at step 200")).to_be_visible()
    expect(page).not_to_have_url(re.compile("moment="))  # at its end, as it is opened
    wait_idle(page)
    page.get_by_text("Entropy", exact=True).click()
    expect(page).to_have_url(re.compile("aspect=entropy"))
    wait_idle(page)


def test_stop_ends_training_and_leaves_the_lab_usable(open_page, wait_idle):
    page = open_page("/lab-how-heads-learn?steps=1600")
    page.get_by_role("button", name="Train").click()
    page.get_by_test_id("stMain").get_by_role("button", name="Stop").click()
    expect(page.get_by_test_id("stMain").get_by_role("button", name="Stop")).to_have_count(0)
    wait_idle(page)
    expect(page.get_by_role("button", name="Train", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="The film")).to_have_count(0)


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page, wait_idle):
    page = open_page("/lab-how-heads-learn?steps=100", **PHONE)
    page.get_by_role("button", name="Train").click()
    expect(page.get_by_role("heading", name="The film")).to_be_visible(timeout=400_000)
    wait_idle(page)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
