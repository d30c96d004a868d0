"""A tab that a test leaves to the next: nothing of the first is left in it."""

import pytest
from playwright.sync_api import Browser

from tests.browser.tabs import Tabs

PATH = "/glossary"


def test_a_tab_is_handed_on_without_what_it_stored_and_reports_faults(
    browser: Browser, app_url: str
) -> None:
    tabs = Tabs(lambda: browser)
    with tabs.lent(app_url, 1180, []) as open_page:
        first = open_page(PATH, color_scheme="dark", viewport={"width": 390, "height": 844})
        second = open_page(PATH)
        assert first.context != second.context
        second.context.close()
        first.evaluate("""() => {
          localStorage.mine = sessionStorage.mine = "kept";
          document.cookie = "mine=kept; path=/";
          for (let i = 0; i < 9; i++) history.pushState({}, "", "?step=" + i);
        }""")
        first.route("**/*", lambda route: route.abort())
        first.context.new_page()
    with tabs.lent(app_url, 1180, []) as open_page:
        page = open_page(PATH)
        assert page == first and page.context.pages == [page]
        assert page.evaluate("[localStorage.mine, sessionStorage.mine]") == [None, None]
        assert "mine" not in {cookie["name"] for cookie in page.context.cookies()}
        assert page.evaluate("history.length") <= 2
        assert page.evaluate("innerWidth") == 1180
        assert not page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    with pytest.raises(AssertionError, match="out of order"):
        report_a_fault(tabs, app_url)


def report_a_fault(tabs: Tabs, app_url: str) -> None:
    with tabs.lent(app_url, 1180, []) as open_page:
        open_page(PATH).evaluate("console.error('out of order')")
