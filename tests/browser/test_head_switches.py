"""The head switches in a real Chromium and a real Streamlit: runs that overlap.

What pointer and keys switch, and when Python is told, is tested in test_head_switches.js.
"""

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.ready import wait_ready
from tests.browser.tabs import OpenPage


def tile(page: Page, layer: int, head: int) -> Locator:
    return page.locator(f'.head-switches .tile[aria-label^="L{layer} H{head},"]')


def off_heads(page: Page) -> list[str]:
    """Return "L0 H1" for each tile that is crossed out."""
    tiles = page.locator(".head-switches .tile.off")
    labels = tiles.evaluate_all("tiles => tiles.map((tile) => tile.ariaLabel)")
    assert page.locator('.head-switches .tile[aria-checked="false"]').count() == len(labels)
    return [label.split(",")[0] for label in labels]


def expect_python(page: Page, heads: str, events: int | str = r"\d+") -> None:
    line = re.compile(rf"^python: \[{re.escape(heads)}\] events {events}$")
    expect(page.get_by_text(line)).to_be_visible()


def middle(page: Page, layer: int, head: int) -> tuple[float, float]:
    box = tile(page, layer, head).bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_switches_lose_no_click_during_slow_runs(show_switches: OpenPage) -> None:
    page = show_switches("layers=6&heads=10&slow=0.3")
    heads = [(i % 6, (3 * i) % 10) for i in range(30)]
    for count, (layer, head) in enumerate(heads, start=1):
        page.mouse.click(*middle(page, layer, head))
        assert len(off_heads(page)) == count
    expect_python(page, " ".join(f"{layer}.{head}" for layer, head in sorted(heads)))
    wait_ready(page)
    assert len(off_heads(page)) == 30


def test_switches_show_what_python_changes(show_switches: OpenPage) -> None:
    page = show_switches()
    preset, reset = (
        page.get_by_role("button", name=name, exact=True) for name in ("Preset", "Reset")
    )
    preset.click()
    expect(tile(page, 1, 1)).to_have_attribute("aria-checked", "false")
    assert off_heads(page) == ["L0 H2", "L1 H1"]
    tile(page, 1, 1).click()
    expect_python(page, "0.2", 1)
    wait_ready(page)
    reset.click()
    expect(tile(page, 0, 2)).to_have_attribute("aria-checked", "true")
    tile(page, 2, 2).click()
    expect_python(page, "2.2", 2)
    wait_ready(page)
    reset.click()  # Python passes [] again, as it did before
    expect(tile(page, 2, 2)).to_have_attribute("aria-checked", "true")
    tile(page, 3, 3).click()
    preset.click()  # right after a click: it comes after it
    expect_python(page, "1.1 0.2")
    wait_ready(page)
    assert off_heads(page) == ["L0 H2", "L1 H1"]
