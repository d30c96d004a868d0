"""A Chromium to measure pages in, and waiting that looks at every frame."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.measure import Skipped

CHROMIUM = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chromium-headless-shell",  # last: nobody looks at pages in it
)
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
NEVER = "it was never painted"
VIEWPORT: Any = {"width": 1280, "height": 900}


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser, or `Skipped` where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise Skipped("playwright is not installed") from error
    path = executable()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def executable() -> str:
    """The browser's path, or `Skipped` where there is none."""
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        raise Skipped("no Chromium on PATH")
    return path


def until_painted(page: Any, condition: str, timeout: float = 60) -> float:
    """Wait for a JavaScript condition, and for the frame after it; performance.now() of then.

    Two animation frames: the first callback comes before the frame with the change is painted,
    the second one after it.
    """
    from playwright.sync_api import Error, TimeoutError

    try:
        return float(page.evaluate(painted(condition, timeout)))
    except Error as error:
        if NEVER in error.message:
            raise TimeoutError(f"Timeout {1000 * timeout:.0f}ms exceeded.") from error
        raise


def painted(condition: str, timeout: float) -> str:
    """Write the JavaScript of a promise of what `until_painted` returns.

    The app's content security policy lets no page make scripts of strings, which Playwright's own
    waiting does at every frame.
    """
    return f"""() => new Promise((done, fail) => {{
      const end = performance.now() + {1000 * timeout}, holds = {condition};
      const look = () => requestAnimationFrame(() => holds() ? after()
        : performance.now() > end ? fail(new Error("{NEVER}")) : look());
      const after = () => requestAnimationFrame(() => requestAnimationFrame(
        () => done(performance.now())));
      look();
    }})"""
