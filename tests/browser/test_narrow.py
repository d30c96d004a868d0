"""Little room: a projector's window and a phone's, and figures that follow the width they have."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

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
    expect(page.get_by_text("Let it go on")).to_be_visible()
    grid = page.locator(".workbench.grid").bounding_box()
    assert grid and grid["y"] - bottom(page, ".st-key-bar") <= 40 + 16  # a line, and what is around
    assert max(bottom(page, ".grid-view canvas"), bottom(page, ".heat canvas")) <= 720


@pytest.mark.parametrize("show", ["carried", "plotly"])
def test_cells_of_a_head_are_squares_with_nothing_blank_below(
    open_page: OpenPage, show: str
) -> None:
    """Of a narrow window that is no phone."""
    page = open_page(f"/?show={show}", viewport={"width": 390, "height": 844})
    figure = page.locator(".js-plotly-plot").first
    figure.wait_for()
    area, whole = figure.locator(".nsewdrag").first.bounding_box(), figure.bounding_box()
    assert area and whole
    assert area["width"] == pytest.approx(area["height"], rel=0.02)
    assert whole["y"] + whole["height"] - area["y"] - area["height"] < 40
