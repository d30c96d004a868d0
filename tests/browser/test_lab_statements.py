"""Lab 10, walked through in a real Chromium."""

import re

from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_the_lab_from_end_to_end(open_page, wait_idle, go_back):
    page = open_page("/lab-statements?model=tiny-gpt2&text=The+old+dog+watched+the+old+dog")
    page.get_by_text("Three at most").click()
    page.get_by_role("button", name="Show the answer").first.click()
    expect(page.get_by_text("hold in every layer:").first).to_be_visible()
    page.get_by_text("W_Q: queries read").click()
    expect(page).to_have_url(re.compile("space_of=W_Q"))
    wait_idle(page)
    page.get_by_text("4. Adding heads up").click()
    expect(page.get_by_text("The variance of the sum is at most").first).to_be_visible()
    expect(page).to_have_url(re.compile("variance=1"))
    wait_idle(page)
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(3)
    page.get_by_role("button", name="Switch heads off").click()
    wait_idle(page)  # a newer click would end the work
    page.get_by_text("10. If one head fails").click()
    expect(page.get_by_text("the worst loss of one head costs")).to_be_visible(timeout=400_000)
    go_back(page)
    wait_idle(page)
    assert page.get_by_role("alert").filter(has_text="is not valid").count() == 0


def test_stop_ends_the_work(open_page, wait_idle):
    text = "+".join(["The+old+dog+slept+while+the+young+cat+watched."] * 9)
    page = open_page(f"/lab-statements?text={text}&failure=1")
    page.get_by_role("button", name="Switch heads off").click()
    page.get_by_test_id("stMain").get_by_role("button", name="Stop").click()
    wait_idle(page)
    expect(page.get_by_role("button", name="Switch heads off")).to_be_enabled()
    assert page.get_by_text("the worst loss of one head costs").count() == 0


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page):
    page = open_page("/lab-statements?layer=1&norm=1&redundancy=1&alike=1", **PHONE)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
