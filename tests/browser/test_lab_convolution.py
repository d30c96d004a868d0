"""Lab 6, walked through in a real Chromium."""

import io
import re

from PIL import Image
from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_the_lab_from_end_to_end(open_page, wait_idle, go_back):
    page = open_page("/lab-convolution?side=16")
    expect(page.get_by_text("That is rounding in float32")).to_be_visible()
    slider = page.get_by_role("slider", name="Sharpness α")
    slider.focus()
    slider.press("ArrowLeft")
    expect(page).to_have_url(re.compile("alpha=19.5"))
    wait_idle(page)
    picture = page.locator(".number-table canvas").first
    side = picture.bounding_box()["width"] / 16
    picture.click(position={"x": 1.5 * side, "y": 2.5 * side})
    expect(page).to_have_url(re.compile("row=2&column=1"))
    wait_idle(page)
    expect(page.get_by_role("slider", name="Pixel’s row")).to_have_value("2")
    go_back(page)
    expect(page).not_to_have_url(re.compile("row="))
    wait_idle(page)
    expect(page.get_by_role("slider", name="Pixel’s row")).to_have_value("8")


def test_the_sharpness_is_played_to_its_end_and_written_down_once(open_page):
    page = open_page("/lab-convolution?side=16&alpha=12", reduced_motion="no-preference")
    steps = page.evaluate("history.length")
    page.get_by_role("button", name="Play: the sharpness").click()
    expect(page).to_have_url(
        re.compile("/lab-convolution\\?side=16$")
    )  # full is what it is at first
    expect(page.get_by_role("slider", name="Sharpness α")).to_have_value("20")
    expect(page.get_by_role("button", name="Play: the sharpness")).to_be_visible()
    expect(page.get_by_text("That is rounding in float32")).to_be_visible()
    assert page.evaluate("history.length") == steps + 1


def test_a_picture_of_ones_own(open_page, wait_idle):
    page = open_page("/lab-convolution?picture=yours")
    held = io.BytesIO()
    Image.new("RGB", (60, 30), "red").save(held, "PNG")
    page.locator("input[type=file]").set_input_files(
        {"name": "a.png", "mimeType": "image/png", "buffer": held.getvalue()}
    )
    expect(page.get_by_text("60 × 30 pixels, reduced to 12 x 24")).to_be_visible()
    wait_idle(page)
    expect(page.get_by_text("That is rounding in float32")).to_be_visible()


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page):
    page = open_page("/lab-convolution?size=5&colour=1", **PHONE)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
