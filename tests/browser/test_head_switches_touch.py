"""The head switches under a finger, on a phone's screen."""

from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from tests.browser.switches_page import heard, middle, off, tile
from tests.waiting import wait_for

Show = Callable[..., Page]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}

# A browser may take a finger for one that scrolls, and says so: that once is tried again.
RECORD = """for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel"])
    addEventListener(name, () => (window.heard ??= []).push(name), true)"""
TRIES = 3


def assert_inside(page: Page, layers: int, heads: int) -> None:
    """Assert that tiles are large enough for a finger and scroll inside their box; tap the last."""
    box = tile(page, 0, 0).bounding_box()
    assert box and min(box["width"], box["height"]) >= 26
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    tile(page, layers - 1, heads - 1).scroll_into_view_if_needed()
    name = page.locator(".head-switches .name.layer").first.bounding_box()
    assert name and 0 <= name["x"] < 60  # names of layers stay in sight
    tile(page, layers - 1, heads - 1).tap()


def touch(page: Page, kind: str, x: float, y: float) -> None:
    points = [] if kind == "touchEnd" else [{"x": x, "y": y}]
    page.evaluate("new Promise(requestAnimationFrame)")  # fingers move from frame to frame
    cdp = getattr(page, "mha_cdp", None) or page.context.new_cdp_session(page)
    page.mha_cdp = cdp  # type: ignore[attr-defined]
    cdp.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def swipe(
    page: Page, start: tuple[float, float], end: tuple[float, float], held: Locator | None = None
) -> None:
    """Move a finger; with `held` it first rests until that tile is switched off."""
    touch(page, "touchStart", *start)
    if held is not None:
        expect(held).to_have_attribute("aria-checked", "false")
    for i in range(1, 9):
        touch(page, "touchMove", *(a + (b - a) * i / 8 for a, b in zip(start, end, strict=True)))
    touch(page, "touchEnd", *end)


def test_a_finger_switches_across_and_scrolls_along(show_switches: Show) -> None:
    phone = PHONE | {"viewport": {"width": 390, "height": 640}}
    page = show_switches("layers=12&heads=12", **phone)
    swipe(page, middle(page, 1, 1), middle(page, 1, 4))
    heard(page, "1.1 1.2 1.3 1.4", 1)
    before = middle(page, 3, 3)
    swipe(page, before, (before[0], before[1] - 150))
    wait_for(lambda: middle(page, 3, 3)[1] < before[1] - 80, "the grid to scroll")
    heard(page, "1.1 1.2 1.3 1.4", 1)
    assert_inside(page, 12, 12)
    heard(page, "1.1 1.2 1.3 1.4 11.11", 2)


def switch_sideways(page: Page) -> bool:
    """Scroll sideways, then switch with a finger that rests first; return whether it was let."""
    left = "e => e.scrollLeft"
    scroller = page.locator(".head-switches .scroller")
    swipe(page, middle(page, 1, 7), middle(page, 1, 2))
    wait_for(lambda: scroller.evaluate(left) > 60, "the grid to scroll sideways")
    heard(page, "", 0)
    scroller.evaluate("e => { e.scrollLeft = 0; }")
    page.evaluate(RECORD)
    swipe(page, middle(page, 1, 1), middle(page, 1, 4), held=tile(page, 1, 1))
    heard_of = page.evaluate("window.heard")
    if "pointercancel" in heard_of:
        return False
    assert len(off(page)) == 4, heard_of
    heard(page, "1.1 1.2 1.3 1.4", 1)
    assert scroller.evaluate(left) == 0
    return True


def test_where_a_finger_scrolls_sideways_holding_switches(show_switches: Show) -> None:
    pages = (show_switches("layers=48&heads=25", **PHONE) for _ in range(TRIES))
    page = next(page for page in pages if switch_sideways(page))
    assert_inside(page, 48, 25)
    heard(page, "1.1 1.2 1.3 1.4 47.24", 2)
