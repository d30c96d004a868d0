"""The token lines of the workbench on a phone, in a real Chromium.

What they draw, say and take from keys is tried in test_token_lines.js of tests/web.
"""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.canvas import pixels


def test_lines_are_painted_and_fit_a_phone(show: Callable[..., Page]) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
    page = show("only=bench&show=lines&lines=3", **phone)  # of the first three heads
    page.locator(".token-lines[data-painted]").wait_for()
    assert (pixels(page, ".token-lines canvas")[..., 3] > 0).mean() > 0.02
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator(".token-lines .queries .row").nth(2).tap()
    expect(page.locator(".token-lines .values.keys .number").first).to_be_visible()
    expect(page.get_by_text("pair (2, -1)")).to_be_visible()
