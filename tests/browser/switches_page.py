"""What tests of the head switches do with them: find a tile, and read what is off."""

import re

from playwright.sync_api import Locator, Page, expect


def tile(page: Page, layer: int, head: int) -> Locator:
    return page.locator(f'.head-switches .tile[aria-label^="L{layer} H{head},"]')


def off(page: Page) -> list[str]:
    """What the grid shows: "L0 H1" for each tile that is crossed out."""
    tiles = page.locator(".head-switches .tile.off")
    labels = tiles.evaluate_all("tiles => tiles.map((tile) => tile.ariaLabel)")
    assert all(", off" in label for label in labels)
    checked = page.locator('.head-switches .tile[aria-checked="false"]').count()
    assert checked == len(labels)
    return [label.split(",")[0] for label in labels]


def heard(page: Page, text: str, events: int | str = r"\d+") -> None:
    said = re.compile(rf"python: \[{re.escape(text)}\] events {events} ")
    expect(page.get_by_text(said)).to_be_visible()


def middle(page: Page, layer: int, head: int) -> tuple[float, float]:
    box = tile(page, layer, head).bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
