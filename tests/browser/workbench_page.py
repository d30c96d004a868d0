"""Parts of the workbench for its tests: found, pointed at and read."""

import shutil
from pathlib import Path

import numpy as np
from playwright.sync_api import Locator, Page, expect

from tests.browser.canvas import pixels

TEXT = "The old dog slept while the young cat watched the birds."
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


def type_text(page: Page, text: str) -> None:
    box = page.get_by_label("Sentence", exact=True)
    box.fill(text)
    box.press("Enter")


def grid(page: Page) -> Locator:
    """The picture of all heads."""
    return page.locator("canvas.cells").first


def chosen_head(page: Page) -> Locator:
    """The chosen head's part."""
    return page.locator(".head-view")


def name_of(page: Page) -> Locator:
    """The name of the chosen head, above its picture."""
    return page.locator(".head-view h2.name")


def view_menu(page: Page) -> Locator:
    """The menu "View", which this opens."""
    button = page.locator(".view-menu > .button")
    if button.get_attribute("aria-expanded") != "true":
        button.click()
    return page.locator(".view-menu")


def menu_of(page: Page, name: str) -> Locator:
    """A menu of the grid."""
    return view_menu(page).get_by_role("combobox", name=name)


def word(page: Page, place: int) -> Locator:
    """A token of the sentence that is written out above the picture."""
    return page.locator(".head-view .word").nth(place)


def click_head(page: Page, layer: int, number: int, of: tuple[int, int] = (4, 8)) -> None:
    """The middle of a tile of the matrix of so many."""
    box = page.locator(".head-grid .cells").bounding_box()
    across, down = (number + 0.5) / of[1], (layer + 0.5) / of[0]
    page.mouse.click(box["x"] + box["width"] * across, box["y"] + 22 + (box["height"] - 22) * down)


def cell(page: Page, row: int, column: int, n: int) -> tuple[float, float]:
    """Return where a cell of the heatmap of n x n lies on the page, found by its painted cells."""
    expect(page.locator(".heat[data-painted]")).to_be_visible()
    painted = pixels(page, ".heat-cells")[..., 3] == 255
    left, wide = _longest(painted[painted.sum(1).argmax()])
    top, high = _longest(painted[:, painted.sum(0).argmax()])
    box = page.locator(".heat-cells").bounding_box()
    ratio = box["width"] / painted.shape[1]
    x, y = left + wide * (column + 0.5) / n, top + high * (row + 0.5) / n
    return box["x"] + x * ratio, box["y"] + y * ratio


def _longest(line: np.ndarray) -> tuple[int, int]:
    """Start and length of the longest run of what is true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], line.astype(np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2]
    best = (ends - starts).argmax()
    return int(starts[best]), int(ends[best] - starts[best])


def choose_folder(page: Page, folder: Path) -> None:
    """Choose a model by its folder, typed by hand."""
    page.get_by_label("Model", exact=True).click()
    page.get_by_role("option", name="Another model").click()
    page.get_by_label("Folder or Hub id").fill(str(folder))
    page.get_by_label("Folder or Hub id").press("Enter")


def copy_tokenizer(model: str, folder: Path) -> None:
    """Copy the tokenizer of a shipped model."""
    for file in (Path(__file__).parents[2] / "models" / model).glob("tokenizer*"):
        shutil.copy(file, folder)
