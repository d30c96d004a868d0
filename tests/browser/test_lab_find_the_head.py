"""Lab 11, played in a real Chromium."""

import re
from pathlib import Path

from playwright.sync_api import expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
LAB = "/lab-find-the-head?model=tiny-gpt2&text=The+old+dog+watched+the+old+dog&tasks=self,twins"


def test_a_game_by_click_and_by_keyboard(open_page, wait_idle):
    page = open_page(LAB)
    address = page.url
    button = page.get_by_role("button", name=re.compile("^Answer: L. H.$"))
    before = button.inner_text()
    page.get_by_role("application").first.focus()
    page.keyboard.press("ArrowLeft" if before.endswith("7") else "ArrowRight")
    page.keyboard.press("Enter")
    expect(button).not_to_have_text(before)
    wait_idle(page)
    page.get_by_role("button", name="Hint").click()
    expect(page.get_by_text("A dark diagonal.")).to_be_visible()
    button.click()
    expect(page.get_by_text(re.compile(r"\d+ points?\. L. H.: rank"))).to_be_visible()
    page.get_by_role("button", name="Next task").click()
    expect(page.get_by_text("Task 2 of 2: The two most alike")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Answer: ")).click()
    expect(page.get_by_text(re.compile(r"Total: \d+ of 200 points"))).to_be_visible()
    wait_idle(page)
    assert page.url == address


def test_a_click_on_the_grid_chooses_a_head(open_page, wait_idle):
    page = open_page(LAB)
    canvas = page.locator("canvas").first
    box = canvas.bounding_box()
    canvas.click(position={"x": 0.1 * box["width"], "y": 0.2 * box["height"]})
    wait_idle(page)
    expect(page.get_by_role("button", name="Answer: L0 H0", exact=True)).to_be_visible()


def test_the_sheets_are_files_that_open_without_a_network(open_page, wait_idle, tmp_path: Path):
    page = open_page(LAB)
    page.get_by_text("For teachers: tasks").click()
    wait_idle(page)  # Streamlit deletes a file that was made before the end of two runs of the page
    for name in ("Sheet for pupils", "Answers for teachers"):
        with page.expect_download() as download:
            page.get_by_role("button", name=name).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        sheet = page.context.new_page()
        sheet.goto(path.as_uri())
        expect(sheet.get_by_role("heading", name="Itself")).to_be_visible()
        assert sheet.locator("img").first.evaluate("e => e.naturalWidth > 100")
        sheet.close()


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page):
    page = open_page("/lab-find-the-head?tasks=twins,sink", **PHONE)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
