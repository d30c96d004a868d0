"""Lab 4, walked through in a real Chromium."""

import re

import pytest
from playwright.sync_api import expect

PROJECTOR = {"viewport": {"width": 1280, "height": 720}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.mark.extended
@pytest.mark.journey
def test_the_steps_by_button_and_by_arrow_key(open_page, wait_idle, go_back):
    page = open_page("/lab-step-by-step?model=tiny-gpt2&text=The+cat+sat.")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("heading", name="Q: each token’s query")).to_be_visible()
    wait_idle(page)
    slider = page.get_by_role("slider", name="Step")
    for title in ("K: each token’s key", "V: each token’s value", "Every query against every key"):
        slider.focus()
        slider.press("ArrowRight")
        expect(page.get_by_role("heading", name=title)).to_be_visible()
        wait_idle(page)
    expect(page).to_have_url(re.compile("step=scores"))
    page.get_by_role("button", name="Back").click()
    expect(page).to_have_url(re.compile("step=v"))
    go_back(page)
    expect(page.get_by_role("heading", name="Every query against every key")).to_be_visible()


def test_the_link_opens_a_step_and_hover_names_what_made_a_cell(open_page):
    page = open_page("/lab-step-by-step?model=tiny-gpt2&text=The+cat+sat.&step=values&layer=1")
    page.get_by_text("Shapes: ").wait_for()
    page.locator(".number-table").nth(2).locator("tbody td").nth(9).hover()
    said = page.locator(".number-table .tip:popover-open")
    expect(said).to_contain_text(re.compile(r"z · .+ · 1\s*-?\d"))
    expect(said).to_contain_text("of weights · column 1 of V")


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page, wait_idle):
    page = open_page("/lab-step-by-step?step=q", **PHONE)
    main = page.get_by_test_id("stMain")
    for step in ("q", "concat", "compare"):
        page.goto(f"/lab-step-by-step?step={step}&code=1&bugs=1&bug=view&cross=1")
        wait_idle(page)
        assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")


def test_on_a_projector_a_product_and_its_factors_stand_side_by_side(open_page, wait_idle):
    long_names = "text=everybody+remember+everybody+remember"
    page = open_page(f"/lab-step-by-step?step=scores&{long_names}", **PROJECTOR)
    page.get_by_text("Shapes: ").wait_for()
    page.get_by_text("Projector").click()
    wait_idle(page)
    tables = [page.locator(".number-table").nth(i) for i in range(3)]
    expect(tables[2]).to_contain_text("Q Kᵀ")
    boxes = [table.bounding_box() for table in tables]
    assert len({round(box["y"]) for box in boxes}) == 1, boxes
    assert [box["x"] for box in boxes] == sorted({box["x"] for box in boxes})
