"""Lab 8, walked through in a real Chromium: calculators, a fold, measuring."""

import re

from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_calculators_and_bad_values(open_page, wait_idle):
    page = open_page("/lab-cost")
    heads = page.get_by_label("Heads h")
    heads.fill("7")
    heads.press("Enter")
    expect(page.get_by_text("7 heads do not divide d_model = 768")).to_be_visible()
    expect(page).to_have_url(re.compile("n_heads=7"))
    wait_idle(page)
    heads.fill("8")
    heads.press("Enter")
    expect(page.get_by_text("d_k = 768 / 8 = 96")).to_be_visible()


def test_what_a_fold_holds_comes_with_it_and_its_link(open_page, wait_idle):
    page = open_page("/lab-cost")
    page.get_by_text("Measured on this machine", exact=True).click()
    expect(page).to_have_url(re.compile("measured=1"))
    wait_idle(page)
    expect(page.get_by_text("takes some seconds")).to_be_visible()


def test_measuring_can_be_stopped_and_begun_again(open_page, wait_idle):
    page = open_page("/lab-cost?longest=4096&time_width=1024&measured=1")
    page.get_by_role("button", name="Measure").click()
    stop = page.get_by_test_id("stMain").get_by_role("button", name="Stop")
    stop.click()
    expect(stop).to_have_count(0)
    wait_idle(page)
    assert page.get_by_text("products a second here").count() == 0
    slider = page.get_by_role("slider", name="Longest text")
    for _ in range(3):
        slider.focus()
        slider.press("ArrowLeft")
        wait_idle(page)
    expect(page).to_have_url(re.compile("longest=512"))
    page.get_by_role("button", name="Measure").click()
    expect(page.get_by_text("products a second here")).to_be_visible(timeout=400_000)


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page):
    page = open_page("/lab-cost", **PHONE)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
