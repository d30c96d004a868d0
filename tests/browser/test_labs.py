"""Labs walked through in a real Chromium; their numbers are tested in tests/labs."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from mha_viz.learn.frame.contents import LABS
from tests.browser.compare_page import query
from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage


def answer(page: Page) -> None:
    """Choose an option of the first question: until then its figures are covered."""
    with next_run(page):
        page.locator("[class*='-predict-'] [role=radiogroup] label").first.click()


def press(page: Page, slider: Locator, key: str) -> None:
    """Press a key on a slider, which moves it."""
    slider.focus()
    with next_run(page):
        slider.press(key)


@pytest.mark.journey
def test_learn_leads_to_a_lab_from_its_question_to_the_steps_of_another(
    open_page: OpenPage,
) -> None:
    page = open_page()
    page.get_by_role("button", name="Learn").click()
    with next_run(page):
        page.get_by_text("All labs", exact=True).click()
    expect(page).to_have_url(re.compile("/learn$"))
    expect(page.locator("[class*=st-key-lab-card-]")).to_have_count(len(LABS))
    picture = page.locator(".st-key-lab-card-soft-lookup img")
    picture.scroll_into_view_if_needed()
    # A file would be forgotten by the page's next run, before a slow browser asks for it.
    in_page = re.compile("^data:image/png")
    expect(picture).to_have_attribute("src", in_page)
    expect(page.locator("link[rel~=icon]")).to_have_attribute("href", in_page)
    assert picture.evaluate("async (image) => { await image.decode(); return image.naturalWidth }")
    box = picture.bounding_box()  # the whole card is a link: a click anywhere leads there
    assert box
    with next_run(page):
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    question = page.locator(".st-key-soft-lookup-predict-temperature")
    with next_run(page):
        question.locator("label", has_text="largest score").click()
    with next_run(page):
        page.locator(".st-key-soft-lookup-predict-temperature-button button").click()
    expect(page.get_by_test_id("stAlert")).to_contain_text("Yes. ")
    slider = page.get_by_role("slider", name="Temperature T")
    press(page, slider, "ArrowRight")
    expect(page).to_have_url(re.compile("temperature=1.05"))
    with next_run(page):
        page.go_back()
    expect(slider).to_have_value("1")
    expect(page).to_have_url(re.compile("/lab-soft-lookup$"))
    with next_run(page):
        page.locator("svg.map a[data-part=concatenation]").click()
    expect(page).to_have_url(re.compile("/lab-step-by-step"))
    slider = page.get_by_role("slider", name="Step")
    for step in "qkv":
        press(page, slider, "ArrowRight")
        expect(page).to_have_url(re.compile(f"step={step}(&|$)"))
    with next_run(page):
        page.get_by_role("link", name="All labs").last.click()
    expect(page).to_have_url(re.compile("/learn$"))


def test_lab_pattern_is_painted_by_click_and_by_key(open_page: OpenPage) -> None:
    page = open_page("/lab-any-pattern?tokens=4")
    answer(page)
    grid = page.locator(".number-table").first
    cell = grid.locator("tbody tr").nth(1).locator("td").nth(3)
    cell.click()
    expect(page).to_have_url(re.compile("own4=9000-0909-0090-0009"))
    wait_ready(page)
    cell.click()  # the same cell again: its weight goes
    expect(page).not_to_have_url(re.compile("0909"))
    wait_ready(page)
    grid.locator(".frame").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    expect(page).not_to_have_url(re.compile("own4=9000-0900-0090-0009"))


def test_lab_takes_a_click_on_a_pixel(open_page: OpenPage) -> None:
    page = open_page("/lab-convolution?side=16")
    answer(page)
    picture = page.locator(".number-table canvas").first
    box = picture.bounding_box()
    assert box
    picture.click(position={"x": 0.4 * box["width"], "y": 0.4 * box["height"]})
    expect(page).to_have_url(re.compile(r"row=\d+&column=\d+"))
    row = page.get_by_role("slider", name="Pixel’s row")
    expect(row).to_have_value(query(page)["row"])
