"""Nothing jumps while a page is loaded: what comes late has had its place from the beginning."""

import pytest
from playwright.sync_api import Browser, Page, expect

from mha_viz.learn.frame.contents import LABS
from mha_viz.ui.state.views import TABS
from tests.browser.ready import PENDING, next_frame, next_run, wait_ready
from tests.browser.workbench_page import TEXT, word

MAX_SHIFT = 0.05  # of the sum of layout shifts: share of the window that moves, times how far
MAX_LOADS = 4  # on a busy machine what belongs together comes in parts; once it must come whole
OTHER_TEXT = "The young cat slept while the old dog watched the birds."  # of as many tokens
SIZES = {"laptop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
PATHS = (
    f"/?text={TEXT}",
    f"/?model=tiny-gpt2&text={TEXT}&off=0.1&target=dog",
    f"/why?text={TEXT}",
    f"/why?text={TEXT}&why=test&test=importance",
    f"/compare?text={TEXT}",
    f"/compare?text={TEXT}&section=similar",
    f"/compare?text={TEXT}&section=models",
    *(f"/many_texts?tab={tab}" for tab in TABS),
    "/learn",
    *(f"/{lab.address}" for lab in LABS[::3]),
)
OBSERVE = """(() => {
  window.shifts = 0;
  const sum = (entries) => entries.forEach(({ value }) => (window.shifts += value));
  const observer = new PerformanceObserver((list) => sum(list.getEntries()));
  observer.observe({ type: "layout-shift", buffered: true });
  window.sumOfShifts = () => (sum(observer.takeRecords()), shifts);
})()"""


def load(page: Page, path: str) -> float:
    """Load a page and return the sum of all layout shifts until it is ready."""
    page.goto(path)
    wait_ready(page)
    next_frame(page)
    return page.evaluate("sumOfShifts()")


@pytest.fixture
def observed(browser: Browser, app_url: str):
    """`observed(size)`: a page that adds up its layout shifts."""
    page = browser.new_context(base_url=app_url, reduced_motion="reduce").new_page()
    page.add_init_script(OBSERVE)

    def open_at(size: str) -> Page:
        page.set_viewport_size(SIZES[size])
        return page

    yield open_at
    page.context.close()


def assert_still(page: Page, path: str) -> None:
    shifts: list[float] = []
    while len(shifts) < MAX_LOADS and min(shifts, default=1.0) > MAX_SHIFT:
        shifts.append(load(page, path))
    assert min(shifts) <= MAX_SHIFT, shifts


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", PATHS)
def test_a_page_does_not_jump_while_it_loads(observed, path, size) -> None:
    assert_still(observed(size), path)


def test_a_page_that_works_has_a_bar_on_top_that_takes_no_room(observed) -> None:
    page = observed("laptop")
    load(page, f"/?text={TEXT}")
    before = page.evaluate("sumOfShifts()")
    bar = page.get_by_role("progressbar", name="Page is working")
    assert page.evaluate(PENDING, True) == ["working", "hidden"]  # a short run does not flash
    expect(bar).to_be_visible()
    page.mouse.wheel(0, 400)
    assert bar.bounding_box() == {"x": 0, "y": 0, "width": 1280, "height": 3}
    page.evaluate(PENDING, False)
    expect(bar).to_be_hidden()
    assert page.evaluate("sumOfShifts()") == before


def test_a_click_on_a_token_and_a_run_shift_nothing(observed) -> None:
    page = observed("laptop")
    load(page, f"/?text={TEXT}")
    before = page.evaluate("sumOfShifts()")
    with next_run(page):
        word(page, 2).click()
    with next_run(page):
        page.get_by_label("Sentence", exact=True).fill(OTHER_TEXT)
        page.get_by_role("button", name="Run", exact=True).click()
    assert page.evaluate("sumOfShifts()") == before


@pytest.mark.parametrize("text", [TEXT, "The cat sat", 5 * TEXT], ids=["usual", "short", "long"])
def test_views_of_a_head_on_a_phone_have_one_height(observed, text) -> None:
    page = observed("phone")
    load(page, f"/?text={text}")
    before, below = page.evaluate("sumOfShifts()"), page.locator(".grid-view").bounding_box()
    for view, drawn in (
        ("Lines", ".token-lines"),
        ("Table", ".pairs"),
        ("Heatmap", ".heat"),
        ("Numbers", ".numbers"),
    ):
        with next_run(page):
            page.get_by_role("radio", name=view, exact=True).click()
        next_frame(page)
        assert page.locator(".grid-view").bounding_box() == below, view
        if view != "Numbers":  # what comes late moves its own table
            assert page.evaluate("sumOfShifts()") == before, view
        box = page.locator(f".head-view {drawn}").bounding_box()
        hole = below["y"] - box["y"] - box["height"]
        assert 0 <= hole <= SIZES["phone"]["height"] / 3, view
