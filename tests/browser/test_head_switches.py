"""The head switches in a real Chromium and a real Streamlit: runs that overlap, a finger.

What pointer and keys switch, and when Python is told, is tested in test_head_switches.js.
"""

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.compare_page import PHONE
from tests.browser.ready import wait_ready
from tests.browser.tabs import OpenPage
from tests.waiting import wait_for

# A browser may take a finger for one that scrolls, and says so: that once is tried again.
RECORD = """for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel"])
    addEventListener(name, () => (window.pointerEvents ??= []).push(name), true)"""
TRIES = 3


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


def touch(page: Page, kind: str, x: float, y: float) -> None:
    points = [] if kind == "touchEnd" else [{"x": x, "y": y}]
    page.evaluate("new Promise(requestAnimationFrame)")  # fingers move from frame to frame
    devtools = getattr(page, "mha_devtools", None) or page.context.new_cdp_session(page)
    page.mha_devtools = devtools  # type: ignore[attr-defined]
    devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def swipe(
    page: Page,
    start: tuple[float, float],
    end: tuple[float, float],
    pressed: Locator | None = None,
) -> None:
    """Move a finger; with `pressed` it first rests until that tile is switched off."""
    touch(page, "touchStart", *start)
    if pressed is not None:
        expect(pressed).to_have_attribute("aria-checked", "false")
    for i in range(1, 9):
        touch(page, "touchMove", *(a + (b - a) * i / 8 for a, b in zip(start, end, strict=True)))
    touch(page, "touchEnd", *end)


def tap_last(page: Page, layers: int, heads: int) -> None:
    """Tap the last tile: the grid scrolls inside its box, and names of layers stay in sight."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tile(page, layers - 1, heads - 1).tap()
    expect(page.locator(".head-switches .name.layer").last).to_be_in_viewport()


def test_switches_finger_switches_across_and_scrolls_along(show_switches: OpenPage) -> None:
    page = show_switches(
        "layers=12&heads=12", **PHONE | {"viewport": {"width": 390, "height": 640}}
    )
    swipe(page, middle(page, 1, 1), middle(page, 1, 4))
    expect_python(page, "1.1 1.2 1.3 1.4", 1)
    x, y = middle(page, 3, 3)
    swipe(page, (x, y), (x, y - 150))
    wait_for(lambda: middle(page, 3, 3)[1] < y - 80, "the grid to scroll")
    expect_python(page, "1.1 1.2 1.3 1.4", 1)
    tap_last(page, 12, 12)
    expect_python(page, "1.1 1.2 1.3 1.4 11.11", 2)


def switch_sideways(page: Page) -> bool:
    """Scroll sideways, then switch with a finger that rests first; return whether it was let."""
    swipe(page, middle(page, 1, 7), middle(page, 1, 2))
    scroller = page.locator(".head-switches .scroller")
    wait_for(lambda: scroller.evaluate("e => e.scrollLeft") > 60, "the grid to scroll sideways")
    expect_python(page, "", 0)
    scroller.evaluate("e => { e.scrollLeft = 0; }")
    page.evaluate(RECORD)
    swipe(page, middle(page, 1, 1), middle(page, 1, 4), pressed=tile(page, 1, 1))
    events = page.evaluate("window.pointerEvents")
    if "pointercancel" in events:
        return False
    assert len(off_heads(page)) == 4, events
    expect_python(page, "1.1 1.2 1.3 1.4", 1)
    assert scroller.evaluate("e => e.scrollLeft") == 0
    return True


def test_switches_finger_that_rests_switches_where_it_scrolls_sideways(
    show_switches: OpenPage,
) -> None:
    pages = (show_switches("layers=48&heads=25", **PHONE) for _ in range(TRIES))
    page = next(page for page in pages if switch_sideways(page))
    tap_last(page, 48, 25)
    expect_python(page, "1.1 1.2 1.3 1.4 47.24", 2)
