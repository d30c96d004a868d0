"""Tabs of Chromium that one test leaves to the next.

A tab that has shown the app before has its scripts read and compiled, so that it opens the app
again with half the work or less. Each has a context of its own: two that are open at the same time
are two people's. Between two tests a tab forgets all that a page can keep.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.browser.ready import wait_ready

PATIENCE = 120_000  # ms, of every wait for what comes: no test is one of the machine's speed
KEPT = 5  # tabs that wait for a test: each is a process of some 150 MB
BLANK = "/_stcore/health"  # a word of the server: what the app has stored is emptied from there
OpenPage = Callable[..., Page]


class Tab:
    """A page in a context of its own, and the faults that it has reported."""

    def __init__(self, browser: Browser, options: dict[str, Any]) -> None:
        self.options = options
        self.page = page = browser.new_context(**options).new_page()
        self._faults: list[str] = []
        self._devtools = page.context.new_cdp_session(page)
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self._faults.append(f"page error: {error}"))
        page.on("console", lambda line: _is_fault(line) and self._faults.append(_told(line)))
        page.on("request", lambda asked: _is_foreign(asked.url) and self._faults.append(asked.url))

    def reported(self) -> list[str]:
        """The errors that its page has thrown or logged, and the strangers that it has asked."""
        if not self.page.is_closed():
            self.page.evaluate("null")  # what it said before that is heard now
        return self._faults

    def clear(self) -> None:
        """Leave the app, and be as a tab that has never shown it."""
        page, context = self.page, self.page.context
        for other in context.pages:
            if other != page:
                other.close()
        page.unroute_all(behavior="ignoreErrors")
        page.goto(BLANK)
        page.evaluate("localStorage.clear(), sessionStorage.clear()")
        page.mouse.move(0, 0)
        context.clear_cookies()
        self._devtools.send("Page.resetNavigationHistory")
        self._faults = []


class Tabs:
    """Lends tabs to tests, and keeps the latest of them for the tests that follow."""

    def __init__(self, launch: Callable[[], Browser]) -> None:
        self._launch = launch
        self.browser = launch()
        self._free: list[Tab] = []

    def renew(self) -> None:
        """Close the browser with all its tabs, and start another."""
        self.browser.close()
        self._free.clear()
        self.browser = self._launch()

    @contextlib.contextmanager
    def lent(self, base_url: str, width: int, pages: list[Page]) -> Iterator[OpenPage]:
        """`open_page(path="/", **context)` for one test, which fails where a page reports a fault.

        It opens a page of that address, waits until it is ready, and adds it to `pages`. What is
        open at the same time stands in tabs of its own. A page that is closed is not used again.
        """
        lent: list[Tab] = []

        def open_page(
            path: str = "/",
            *,
            viewport: Any = None,
            color_scheme: Any = "light",
            reduced_motion: Any = "reduce",
            **context: Any,
        ) -> Page:
            tab = self._take({"base_url": base_url} | context)
            lent.append(tab)
            pages.append(tab.page)
            tab.page.set_viewport_size(viewport or {"width": width, "height": 900})
            tab.page.emulate_media(color_scheme=color_scheme, reduced_motion=reduced_motion)
            tab.page.goto(path)
            wait_ready(tab.page)
            return tab.page

        yield open_page
        faults = [fault for tab in lent for fault in tab.reported()]
        self._take_back(lent)
        assert not faults, "\n".join(faults)

    def _take(self, options: dict[str, Any]) -> Tab:
        """A free tab with these options, the latest first, or a new one."""
        for tab in reversed(self._free):
            if tab.options == options:
                self._free.remove(tab)
                return tab
        return Tab(self.browser, options)

    def _take_back(self, lent: list[Tab]) -> None:
        for tab in lent:
            if not tab.page.is_closed():
                tab.clear()
                self._free.append(tab)
        while len(self._free) > KEPT:
            self._free.pop(0).page.context.close()


def _is_fault(line: ConsoleMessage) -> bool:
    """An error, but for one: opened on /compare, Streamlit first asks for its own address there."""
    probed = re.search(r"/[\w-]+/_stcore/(health|host-config)$", line.location["url"])
    return line.type == "error" and not (probed and "404 (Not Found)" in line.text)


def _told(line: ConsoleMessage) -> str:
    return f"{line.text} ({line.location['url']})"


def _is_foreign(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1"
