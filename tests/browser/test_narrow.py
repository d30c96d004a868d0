"""Little room: a projector's window, a phone's, and larger type."""

import pytest
from playwright.sync_api import Page, expect

from mha_viz.learn.frame.contents import LABS
from mha_viz.ui.state.views import CIRCUITS, SECTIONS
from tests.browser.ready import next_run
from tests.browser.workbench_page import PHONE, TEXT

PROJECTOR = {"width": 1280, "height": 720}
LONG = (
    "The old man who lived by the sea told the little girl that the cat sat on the mat because "
    "it was tired of running all day and then the boy came home with a big fish for his mother."
)
PATHS = (
    *(f"/compare?text={TEXT}&section={section}" for section in SECTIONS),
    *(f"/circuits?model=tiny-gpt2&text={TEXT}&circuit={section}" for section in CIRCUITS),
    *("/intervene?off=0.1", "/corpus", "/learn", "/start", "/glossary", "/teach", "/class"),
    *(f"/{lab.address}" for lab in LABS),
)


def assert_no_wider_than_the_window(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_no_wider_than_a_phone(open_page, path) -> None:
    assert_no_wider_than_the_window(open_page(path, **PHONE))


def test_a_phone_shows_all_that_stands_around_the_heads(open_page) -> None:
    page = open_page("/?model=tiny-gpt2&text=The old dog slept.&show=lines", **PHONE)
    model = page.locator(".st-key-ask_model input")
    assert model.evaluate("input => input.scrollWidth <= input.clientWidth")  # read whole
    expect(page.get_by_label("Second sentence")).to_have_count(0)  # this model cannot take one
    lines = page.locator(".token-lines .scroller")
    assert lines.evaluate("all => all.scrollHeight <= all.clientHeight + 1")
    assert_no_wider_than_the_window(page)


def test_a_projector_shows_all_heads_and_the_chosen_one_of_a_text_that_goes_on(open_page) -> None:
    page = open_page(f"/?model=tiny-gpt2&text={LONG}", viewport=PROJECTOR)
    expect(page.get_by_text("Continue the text")).to_be_visible()
    for picture in (".grid-view canvas", ".heat canvas"):
        expect(page.locator(picture).first).to_be_in_viewport(ratio=1)


def test_larger_type_of_a_lab_tears_nothing_apart(open_page) -> None:
    page = open_page("/lab-any-pattern", viewport=PROJECTOR)
    with next_run(page):
        page.get_by_text("Projector", exact=True).click()
    tables = [page.locator(f".st-key-any-pattern-{name}") for name in ("pain", "made")]
    boxes = [table.bounding_box() for table in tables]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]  # side by side
    assert_no_wider_than_the_window(page)
