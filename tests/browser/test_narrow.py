"""Little room: a projector's window and a phone's, and figures that follow the width they have."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_accessibility import AXE, faults

OpenPage = Callable[..., Page]
PROJECTOR = {"width": 1280, "height": 720}
LONG = (
    "The old man who lived by the sea told the little girl that the cat sat on the mat because "
    "it was tired of running all day and then the boy came home with a big fish for his mother."
)


def bottom(page: Page, selector: str) -> float:
    box = page.locator(selector).first.bounding_box()
    assert box
    return box["y"] + box["height"]


def test_a_model_that_goes_on_leaves_room_for_its_heads(open_page: OpenPage) -> None:
    page = open_page(f"/?model=tiny-gpt2&text={LONG}", viewport=PROJECTOR)
    expect(page.get_by_text("Next: ")).to_be_visible()
    expect(page.get_by_text("Continue the text")).to_be_visible()
    grid = page.locator(".workbench.grid").bounding_box()
    assert grid and grid["y"] - bottom(page, ".st-key-bar") <= 40 + 16  # a line, and what is around
    assert max(bottom(page, ".grid-view canvas"), bottom(page, ".heat canvas")) <= 720


@pytest.mark.parametrize("show", ["carried", "plotly"])
def test_cells_of_a_head_are_squares_with_nothing_blank_below(
    open_page: OpenPage, show: str
) -> None:
    """The window is narrow, and no phone's."""
    page = open_page(f"/?show={show}", viewport={"width": 390, "height": 844})
    figure = page.locator(".js-plotly-plot").first
    figure.wait_for()
    area, whole = figure.locator(".nsewdrag").first.bounding_box(), figure.bounding_box()
    assert area and whole
    assert area["width"] == pytest.approx(area["height"], rel=0.02)
    assert whole["y"] + whole["height"] - area["y"] - area["height"] < 40


@pytest.mark.journey
def test_a_phone_shows_all_that_stands_around_the_heads(open_page: OpenPage) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
    page = open_page("/?model=tiny-gpt2&text=The old dog slept.&show=lines", **phone)
    model = page.locator(".st-key-ask_model input")
    assert model.evaluate("input => input.scrollWidth <= input.clientWidth")  # read whole
    expect(page.get_by_label("Second sentence")).to_be_hidden()  # which this model cannot take
    sort, only = (box.bounding_box() for box in page.locator(".grid-view .menu:visible").all()[:2])
    assert sort and only and sort["y"] == only["y"]  # side by side
    masked = page.locator(".head-grid .legend-masked").bounding_box()
    assert masked and masked["x"] + masked["width"] <= 390
    lines = page.locator(".token-lines .scroller")
    assert lines.evaluate("all => all.scrollHeight <= all.clientHeight + 1")


def test_in_larger_type_nothing_of_a_lab_is_cut_or_torn_apart(
    open_page: OpenPage, wait_idle: Callable[[Page], None]
) -> None:
    page = open_page("/lab-any-pattern", viewport=PROJECTOR)
    page.get_by_text("Projector", exact=True).click()
    tables = [page.locator(f".st-key-any-pattern-{name}") for name in ("pain", "made")]
    expect(tables[1]).to_be_visible()
    wait_idle(page)
    boxes = [table.bounding_box() for table in tables]
    assert len({box and round(box["y"]) for box in boxes}) == 1  # side by side
    page.get_by_role("link", name="Explore", exact=True).first.click()
    wait_idle(page)
    model = page.get_by_role("combobox", name="Model")
    assert model.evaluate("box => box.scrollWidth <= box.clientWidth")


def test_axe_finds_no_fault_in_a_list_that_scrolls_and_in_a_code(
    open_page: OpenPage, wait_idle: Callable[[Page], None]
) -> None:
    page = open_page(f"/?text={LONG}&show=table", viewport=PROJECTOR)
    page.get_by_role("button", name="Link").click()
    page.get_by_text("QR code", exact=True).click()
    expect(page.get_by_role("img", name="The link above as a QR code")).to_be_visible()
    wait_idle(page)
    page.evaluate(AXE)
    assert not (found := faults(page)), "\n".join(found)
