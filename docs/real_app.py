"""The app as `make run` starts it, in a Chromium, for who takes pictures of it."""

import contextlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Error, Page, sync_playwright

_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _BROWSERS)), None)
IDLE = "[data-testid=stApp][data-test-script-state=notRunning]"
PATIENCE = 120_000  # ms, of every wait for what comes


@contextlib.contextmanager
def app_and_browser() -> Iterator[tuple[str, Browser]]:
    """The address of the app, on a free port, and a browser, until the block is left."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    app = subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.DEVNULL)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM,
                args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
            )
            yield f"http://127.0.0.1:{port}", browser
    finally:
        app.terminate()
        app.wait()


def open_page(page: Page, url: str, drawn: str, tries: int = 120) -> None:
    """Go there and wait until `drawn`, a selector, is there and the app rests."""
    for _ in range(tries):  # the server takes a moment to listen
        try:
            page.goto(url)
            break
        except Error:  # connection refused: it is not listening yet
            page.wait_for_timeout(500)
    page.locator(drawn).first.wait_for(timeout=PATIENCE)
    rest(page)


def answer_questions(page: Page) -> None:
    """Choose an option of each question on the page: until then the figures are covered.

    Afterwards the page stands at its top again: each choice has scrolled it.
    """
    for question in page.locator("[class*='-predict-'] [role=radiogroup]").all():
        question.locator("label").first.click()
        rest(page)
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")


def rest(page: Page, tries: int = 60) -> None:
    """Wait until the app has nothing to do and what it sent is drawn: charts come a while later."""
    page.wait_for_timeout(300)  # what was just done reaches the app
    before = ""
    for _ in range(tries):
        page.locator(IDLE).wait_for(timeout=PATIENCE)
        seen = page.locator("body").aria_snapshot()
        if seen == before:
            return
        before = seen
        page.wait_for_timeout(1_500)
    raise TimeoutError(f"{page.url} went on changing")
