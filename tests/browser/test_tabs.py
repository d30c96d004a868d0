"""A tab that one test leaves to the next: nothing of the first is left in it."""

import pytest
from playwright.sync_api import Browser

from tests.browser.tabs import Tabs

GRID = "/?only=grid"


@pytest.fixture
def lent(browser: Browser, demo_url: str):
    """`with lent() as open_page` is what one test has."""
    tabs = Tabs(lambda: browser)
    return lambda: tabs.lent(demo_url, 1180, [])


def test_a_tab_is_handed_on_and_has_forgotten_all_of_it(lent) -> None:
    with lent() as open_page:
        first = open_page(GRID, color_scheme="dark", viewport={"width": 390, "height": 844})
        first.evaluate("""() => {
          localStorage.mine = sessionStorage.mine = "kept";
          document.cookie = "mine=kept; path=/";
          for (let i = 0; i < 9; i++) history.pushState({}, "", "?only=grid&layers=" + i);
        }""")
        first.route("**/*", lambda route: route.abort())
        first.context.new_page()
    with lent() as open_page:
        page = open_page(GRID)
        assert page == first and page.context.pages == [page]
        assert page.evaluate("[localStorage.mine, sessionStorage.mine]") == [None, None]
        assert "mine" not in {cookie["name"] for cookie in page.context.cookies()}
        assert page.evaluate("history.length") <= 2
        assert page.evaluate(
            "[innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]"
        ) == [
            1180,
            False,
        ]


def test_what_is_open_together_is_apart_and_what_was_closed_does_not_come_back(lent) -> None:
    with lent() as open_page:
        one, two = open_page(GRID), open_page(GRID)
        assert one.context != two.context
        two.context.close()
    with lent() as open_page:
        assert open_page(GRID) == one and open_page(GRID) != two


@pytest.mark.journey
def test_a_fault_is_told_of_the_test_that_it_came_in(lent) -> None:
    with pytest.raises(AssertionError, match="out of order"), lent() as open_page:
        open_page(GRID).evaluate("console.error('out of order')")
    with lent() as open_page:
        open_page(GRID)
