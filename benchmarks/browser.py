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
    page.wait_for_function(condition, polling="raf", timeout=timeout * 1000)
    return page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame("
        "() => done(performance.now()))))"
    )
