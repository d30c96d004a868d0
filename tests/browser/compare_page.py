"""What tests of the Compare page do with it: find its parts, click and read them."""

from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page

from tests.browser.idle import wait_until

TEXT = "The old dog slept while the young cat watched the birds."
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
LINK = f"/compare?text={TEXT}&layer=0&head=0&section="


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def plot(page: Page, number: int = 0):
    found = page.locator(".js-plotly-plot").nth(number)
    found.locator(".main-svg").first.wait_for()
    return found


def heading(page: Page, name: str):
    return page.get_by_role("heading", name=name, exact=True)


def bottom(part: Locator) -> float:
    """The lower edge of a part of the page, in pixels from the top of the window."""
    box = part.bounding_box()
    return box["y"] + box["height"]


def no_double_click(page: Page) -> None:
    """Return when plotly no longer takes another click for the second half of a double click."""
    wait_until(
        page,
        """() => [...document.querySelectorAll(".js-plotly-plot")].every((plot) =>
          !(Date.now() - plot._mouseDownTime <= plot._context.doubleClickDelay))""",
    )


def click_cell(page: Page, *cells: tuple[int, int], of: int, number: int = 0) -> None:
    """The middle of each of these cells, (row, column), of a square of so many."""
    area = plot(page, number).locator(".nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    for row, column in cells:
        x, y = (box["width"] * (column + 0.5) / of, box["height"] * (row + 0.5) / of)
        page.mouse.click(box["x"] + x, box["y"] + y)
        no_double_click(page)


def tick(page: Page, row: int, table: int = 0) -> None:
    """A click on the box before a row."""
    canvas = page.get_by_test_id("stDataFrame").nth(table)
    canvas.scroll_into_view_if_needed()
    canvas.click(position={"x": 14, "y": 50 + 35 * row})


def rows_of(page: Page, table: int = 0) -> list[list[str]]:
    """What a table's rows say, as a screen reader hears it: the picture itself is a canvas."""
    return (
        page.get_by_test_id("stDataFrame")
        .nth(table)
        .evaluate(
            "t => [...t.querySelectorAll('canvas tbody tr')].map(row => "
            "[...row.querySelectorAll('td')].map(cell => cell.textContent).filter(text => text))"
        )
    )


def ticked(page: Page, table: int = 0) -> list[int]:
    """The rows whose box is ticked."""
    return (
        page.get_by_test_id("stDataFrame")
        .nth(table)
        .evaluate(
            "t => [...t.querySelectorAll('canvas tbody tr')].flatMap("
            "(row, i) => row.getAttribute('aria-selected') === 'true' ? [i] : [])"
        )
    )


def click_dot(page: Page, number: int, figure: int = 0, trace: int = 0) -> None:
    dots = plot(page, figure).locator(".scatterlayer .trace").nth(trace).locator(".points path")
    dots.nth(number).scroll_into_view_if_needed()
    box = dots.nth(number).bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
