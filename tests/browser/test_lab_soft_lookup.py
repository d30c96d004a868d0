"""Lab 1, walked through in a real Chromium."""

import re

import pytest
from playwright.sync_api import expect

MOVING = {"reduced_motion": "no-preference"}  # other tests ask for less motion
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.mark.extended
@pytest.mark.journey
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
    assert page.get_by_role("alert").filter(has_text="is not valid").count() == 0


def test_the_temperature_is_played_to_its_end_and_written_down_once(open_page, wait_idle):
    page = open_page("/lab-soft-lookup?temperature=0.2", **MOVING)
    slider = page.get_by_role("slider", name="Temperature T")
    steps = page.evaluate("history.length")
    page.get_by_role("button", name="Play: the temperature").click()
    expect(page).to_have_url(re.compile("temperature=0.05"))  # not before it rests
    expect(slider).to_have_value("0.05")
    expect(page.get_by_role("button", name="Play: the temperature")).to_be_visible()
    assert page.evaluate("history.length") == steps + 1
    # from its end, it begins again, and Pause stops it on the way
    page.get_by_role("button", name="Play: the temperature").click()
    expect(slider).to_have_value(re.compile("^[345]"))
    page.get_by_role("button", name="Pause: the temperature").click()
    expect(page).to_have_url(re.compile("temperature=[1-5]"))
    wait_idle(page)
    assert float(slider.input_value()) > 0.3


def test_who_wants_less_motion_goes_on_step_by_step(open_page, wait_idle):
    page = open_page("/lab-soft-lookup?temperature=0.2")  # as all tests do
    expect(page.get_by_role("button", name="Play")).to_have_count(0)
    following = page.get_by_role("button", name="Next: the temperature")
    page.clock.install()
    following.click()
    expect(page).to_have_url(re.compile("temperature=0.15"))
    wait_idle(page)
    page.clock.run_for(10_000)  # many times what would lead it on
    wait_idle(page)
    expect(page.get_by_role("slider", name="Temperature T")).to_have_value("0.15")
    following.click()
    expect(page).to_have_url(re.compile("temperature=0.1$"))


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page):
    page = open_page("/lab-soft-lookup?tokens=8&width=8", **PHONE)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
