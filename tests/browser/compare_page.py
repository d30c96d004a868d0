"""Helpers of tests that read and click the figures of a page, Compare's in particular."""

from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page

from tests.browser.ready import wait_until

TEXT = "The old dog slept while the young cat watched the birds."
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
LINK = f"/compare?text={TEXT}&layer=0&head=0&section="


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def plot(page: Page, number: int = 0) -> Locator:
    """Return a figure, once it is drawn."""
    figure = page.locator(".js-plotly-plot").nth(number)
    figure.locator(".main-svg").first.wait_for()
    return figure


def heading(page: Page, name: str) -> Locator:
    return page.get_by_role("heading", name=name, exact=True)


def end_double_click(page: Page) -> None:
    """Return when plotly no longer takes another click for the second half of a double click."""
    wait_until(
        page,
        """() => [...document.querySelectorAll(".js-plotly-plot")].every((plot) =>
          !(Date.now() - plot._mouseDownTime <= plot._context.doubleClickDelay))""",
    )


def click_cell(
    page: Page, row: int, column: int, rows: int, columns: int = 0, number: int = 0
) -> None:
    """Click the middle of a cell of a matrix of `rows` by `columns` cells, or as many as rows."""
    area = plot(page, number).locator(".nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box
    x = box["width"] * (column + 0.5) / (columns or rows)
    area.click(position={"x": x, "y": box["height"] * (row + 0.5) / rows})
    end_double_click(page)


def fits(page: Page) -> bool:
    """Return whether nothing is wider than the window."""
    main = page.get_by_test_id("stMain")
    return bool(
        page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        and main.evaluate("main => main.scrollWidth <= main.clientWidth + 1")
    )
