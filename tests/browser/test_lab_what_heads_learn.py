"""Lab 12, walked through in a real Chromium: measuring, Stop, a head's sentences, Explore."""

import re

from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
LAB = "/lab-what-heads-learn?kind=coreference"


def test_the_lab_from_end_to_end_on_a_phone(open_page, wait_idle):
    page = open_page(f"{LAB}&sentences=1", **PHONE)
    expect(page.get_by_text("There is none here", exact=True)).to_be_visible(timeout=400_000)
    wait_idle(page)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    page.get_by_text("Syntactic", exact=True).click()
    expect(page).to_have_url(re.compile("lab-what-heads-learn"))
    expect(page.get_by_text("The sentences of L2 H3").first).to_be_visible()
    wait_idle(page)
    link = page.get_by_role("link", name="The tall woman opened a small window.").first
    with page.context.expect_page() as opened:
        link.click()
    explore = opened.value
    expect(explore.get_by_label("Sentence").first).to_have_value(
        "The tall woman opened a small window.", timeout=400_000
    )
    expect(explore.get_by_role("heading", name="L2 H3")).to_be_visible(timeout=400_000)


def test_measuring_can_be_stopped(open_page, wait_idle):
    page = open_page(LAB)
    page.get_by_role("button", name="Run it yourself").click()
    stop = page.get_by_test_id("stMain").get_by_role("button", name="Stop")
    stop.click()
    expect(stop).to_have_count(0)
    wait_idle(page)
    expect(page.get_by_role("button", name="Run it yourself")).to_be_enabled()
