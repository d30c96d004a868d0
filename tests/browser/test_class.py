"""A lesson in a real Chromium: a teacher and pupils, each in a browser of their own."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage

LAB = "lab-soft-lookup"
RIGHT, WRONG = "Weight 1 for the key with the largest score", "Equal weights for all keys"


def open_class(open_page: OpenPage) -> tuple[Page, str]:
    """Return a teacher's page and the code of the class that it has opened."""
    teacher = open_page("/teach")
    with next_run(teacher):
        teacher.get_by_role("button", name="Open a class").click()
    address = teacher.get_by_text(re.compile(r"/class\?class=\w{5}$"))
    return teacher, address.inner_text()[-5:]


def vote(pupil: Page, option: str) -> None:
    with next_run(pupil):
        pupil.locator(f".st-key-{LAB.removeprefix('lab-')}-predict-temperature label").filter(
            has_text=option
        ).click()


def show_answer(teacher: Page) -> None:
    teacher.get_by_role("button", name="Show the answer to the class").first.click()


@pytest.mark.journey
def test_class_pupil_answers_and_the_bars_show_it(open_page: OpenPage) -> None:
    teacher, code = open_class(open_page)
    pupil = open_page(f"/{LAB}?class={code}")
    vote(pupil, WRONG)
    expect(pupil.get_by_text("Counted.")).to_be_visible()
    expect(pupil.get_by_text("Your class:")).to_have_count(0)  # not before the answer
    expect(teacher.get_by_text("1 of 1 pupil answered").first).to_be_visible()
    with teacher.context.expect_page() as opened:
        teacher.get_by_role("link", name="Open a window for the projector").click()
    projector = opened.value
    wait_ready(projector)
    with next_run(projector):
        teacher.get_by_role("button", name="Bring the class here").first.click()
    expect(projector).to_have_url(re.compile(LAB))
    expect(projector.get_by_text("Your class: 1 answer so far").first).to_be_visible()
    expect(projector.get_by_text(f"{WRONG}: ")).to_have_count(0)  # the class sees this screen
    vote(pupil, RIGHT)  # takes the place of the first
    show_answer(projector)
    for page in (projector, pupil):
        expect(page.get_by_text(f"{RIGHT}: 1")).to_be_visible()
    expect(pupil.get_by_text("What you now know")).to_be_visible()
    projector.reload()
    wait_ready(projector)
    expect(projector.get_by_role("switch", name="Projector")).to_be_checked()
    with next_run(projector):  # a stop that is no lab, and the first page of the app
        teacher.get_by_role("button", name="Bring the class here").nth(2).click()
    expect(projector.get_by_text("Predict before you switch heads off")).to_be_visible()
    show_answer(projector)
    expect(projector.get_by_label("Sentence", exact=True)).to_have_value(re.compile("Zorval"))
    projector.close()


def test_class_survives_a_reload_and_ends(open_page: OpenPage) -> None:
    teacher, code = open_class(open_page)
    pupil = open_page(f"/{LAB}?class={code}")
    vote(pupil, WRONG)
    for page in (teacher, pupil):
        page.reload()
        wait_ready(page)
        expect(page.get_by_text(code).first).to_be_visible()
    expect(pupil.get_by_role("radio", name=WRONG)).to_be_checked()
    vote(pupil, RIGHT)
    expect(pupil.get_by_text("Queries Q")).to_have_count(0)  # which would tell the answer
    leading = teacher.context.new_page()  # another tab of the teacher's, at the same lab
    leading.goto(pupil.url.partition("?")[0])
    wait_ready(leading)
    expect(leading.get_by_text("Queries Q")).to_have_count(0)
    show_answer(teacher)
    for page in (leading, pupil):
        expect(page.get_by_text("What you now know")).to_be_visible()
    leading.close()
    expect(pupil.get_by_text("Your class: 1 answer so far").first).to_be_visible()
    with next_run(pupil):
        pupil.get_by_role("link", name="All labs").last.click()
    with next_run(pupil):
        pupil.locator(".st-key-class-line").get_by_role("link", name="The class").click()
    expect(pupil).to_have_url(re.compile("/class$"))
    teacher.get_by_role("button", name="End the class").click()
    expect(teacher.get_by_role("button", name="Open a class")).to_be_visible()
