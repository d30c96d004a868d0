"""The real app, and a demo of its components, in a real Chromium.

All browser tests of a worker share them, so they run one by one there.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
# The first that is there; Debian's Chromium without windows takes a third less of the processor.
CHROMIUM = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
PATIENCE = 120_000  # ms, of every wait for what comes: no test is one of the machine's speed
RUN = 400_000  # ms, of the wait for a run: an app's first one loads torch and transformers
expect.set_options(timeout=PATIENCE)
PAGES = pytest.StashKey[list[Page]]()
OpenPage = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("browser")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Leave a picture of every page that was open when a test failed."""
    report = yield
    if report.when == "call" and report.failed:
        folder = ROOT / "screenshots"
        folder.mkdir(exist_ok=True)
        for number, page in enumerate(item.stash.get(PAGES, [])):
            name = re.sub(r"[^\w.-]+", "_", item.name)
            picture = folder / f"failed_{name}_{number}.png"
            page.screenshot(path=picture, full_page=True)
            report.sections.append(("Chromium", f"{page.url}\n{picture}"))
    return report


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium. Without one tests are skipped, or fail where CI is set."""
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None:
        message = "these tests drive a real Chromium, and none is on PATH (apt install chromium)"
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(message)
        # `make test` is promised to people who have Python and git only: the other tests are theirs
        # to run. Where CI is set nothing is skipped: .ci/run installs a browser first.
        pytest.skip(reason=f"{message}; with CI=true this is a failure")
    return found


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def app_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the app under test writes its output to."""
    return tmp_path_factory.mktemp("app") / "app.log"


@pytest.fixture(scope="session")
def app_url(chromium: str, app_log: Path) -> Iterator[str]:
    """The address of the app, started as `make run` starts it, on a free port."""
    with _running("app.py", app_log) as url:
        yield url


@pytest.fixture(scope="session")
def demo_url(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the demo app, on a free port, with the theme of the real one."""
    log = tmp_path_factory.mktemp("demo") / "demo.log"
    with _running("tests/browser/demo_components.py", log, PYTHONPATH=str(ROOT)) as url:
        yield url


@pytest.fixture(scope="session")
def figures_url(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the demo of figures, as `demo_url`."""
    log = tmp_path_factory.mktemp("figures") / "figures.log"
    with _running("tests/browser/demo_figures.py", log, PYTHONPATH=str(ROOT)) as url:
        yield url


@contextlib.contextmanager
def _running(script: str, log: Path, **env: str) -> Iterator[str]:
    """Streamlit with that script, and the address where it answers, until the block is left."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", script, "--server.port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with log.open("w") as output:
        app = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | env, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _wait_for(f"{url}/_stcore/health", app, log)
        yield url
    finally:
        app.terminate()
        try:
            app.wait(10)
        except subprocess.TimeoutExpired:
            app.kill()
            app.wait()


def _wait_for(url: str, app: subprocess.Popen[bytes], log: Path, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and app.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=30):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"the app did not start within {seconds:.0f} s:\n{log.read_text()[-3000:]}")


IDLE = """() => document.querySelector("[data-testid=stApp][data-test-script-state=notRunning]")
  && !document.querySelector("[data-testid=stSkeleton]")"""  # where a chart will be
# Counts what a page says to the server and hears from it. The first byte tells what asks for a run
# (BackMsg.rerun_script) from what need not be answered. And keeps the timers that are soon due:
# Streamlit sends some of what was chosen after a short delay (of 200 ms, the slider's).
WATCH = """(() => {
  const talk = (window.talk = { count: 0, asked: 0, heard: 0, soon: new Set() });
  window.WebSocket = class extends WebSocket {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", () => (talk.heard = talk.count += 1));
    }
    send(data) {
      const bytes = ArrayBuffer.isView(data) ? data : new Uint8Array(data);
      if (bytes[0] === 0x5a) talk.asked = talk.count += 1;
      super.send(data);
    }
  };
  const { setTimeout, clearTimeout } = window;
  window.setTimeout = (call, delay = 0, ...given) => {
    if (typeof call !== "function" || delay > 250) return setTimeout(call, delay, ...given);
    const timer = setTimeout((...values) => {
      talk.soon.delete(timer);
      call(...values);
    }, delay, ...given);
    talk.soon.add(timer);
    return timer;
  };
  window.clearTimeout = (timer) => (talk.soon.delete(timer), clearTimeout(timer));
})()"""
ANSWERED = f"() => (!window.talk || talk.heard >= talk.asked) && ({IDLE})()"
# By the page's own frames and in its own queue: what a click has put there, at once or after a
# short delay, comes before. What came last is drawn once there is nothing else to do. A page that
# sets one short timer after another is waited for no longer than such a delay takes.
REST = """() => new Promise((done) => {
  const end = performance.now() + 300;
  const look = () => requestAnimationFrame(() => requestIdleCallback(() => {
    if (window.talk?.soon.size && performance.now() < end) look();
    else done(window.talk?.count ?? 0);
  }, { timeout: 5000 }));
  look();
})"""


def _wait_idle(page: Page) -> None:
    said = -1
    while said != (said := page.evaluate(REST)):  # until nothing is asked and nothing comes
        page.wait_for_function(ANSWERED, timeout=RUN)


@pytest.fixture
def wait_idle() -> Callable[[Page], None]:
    """`wait_idle(page)` returns when the app has done what was asked of it last."""
    return _wait_idle


@pytest.fixture
def go_back() -> Callable[[Page], None]:
    """`go_back(page)` is the browser's Back, once what was chosen stands in the address."""

    def go_back(page: Page) -> None:
        _wait_idle(page)
        page.go_back()

    return go_back


def _new_page(browser: Browser, faults: list[str], width: int, **context: Any) -> Page:
    """A page in a fresh context; the errors that it throws or logs are added to the faults."""
    options = {"viewport": {"width": width, "height": 900}, "reduced_motion": "reduce"} | context
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(PATIENCE)
    page.add_init_script(WATCH)
    page.on("pageerror", lambda error: faults.append(f"page error: {error}"))
    page.on("console", lambda line: _is_fault(line) and faults.append(line.text))
    return page


def _is_fault(line: ConsoleMessage) -> bool:
    """An error, but for one: opened on /compare, Streamlit first asks for its own address there."""
    probed = re.search(r"/[\w-]+/_stcore/(health|host-config)$", line.location["url"])
    return line.type == "error" and not (probed and "404 (Not Found)" in line.text)


@pytest.fixture
def open_page(
    request: pytest.FixtureRequest, browser: Browser, app_url: str, app_log: Path
) -> Iterator[OpenPage]:
    """`open_page(path="/", **context)` opens the app in a fresh context and waits until it is idle.

    The context takes Playwright's options, such as `color_scheme="dark"` or a `viewport`. The test
    fails at its end where a page asked for anything but the app, wrote an error to its console, or
    the app raised an exception that it did not catch.
    """
    pages: list[Page] = []
    request.node.stash[PAGES] = pages
    faults: list[str] = []
    seen = app_log.stat().st_size

    def open_page(path: str = "/", **context: Any) -> Page:
        page = _new_page(browser, faults, 1280, base_url=app_url, **context)
        pages.append(page)
        page.on("request", lambda asked: _is_foreign(asked.url) and faults.append(asked.url))
        page.goto(path)
        _wait_idle(page)
        return page

    yield open_page
    for page in pages:
        page.context.close()
    with app_log.open() as log:
        log.seek(seen)
        written = log.read()
    if "Uncaught app exec" in written:
        faults.append(written)
    assert not faults, "\n".join(faults)


def _is_foreign(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1"


@pytest.fixture
def show(browser: Browser, demo_url: str) -> Iterator[Callable[..., Page]]:
    """`show(query, **context)` opens the demo; the test fails where the console has an error."""
    with _shown(browser, demo_url) as show:
        yield show


@pytest.fixture
def show_figures(browser: Browser, figures_url: str) -> Iterator[Callable[..., Page]]:
    """`show_figures(query, **context)`: the demo of figures, as `show`."""
    with _shown(browser, figures_url) as show:
        yield show


@contextlib.contextmanager
def _shown(browser: Browser, url: str) -> Iterator[Callable[..., Page]]:
    pages: list[Page] = []
    faults: list[str] = []

    def show(query: str = "", **context: Any) -> Page:
        page = _new_page(browser, faults, 1180, **context)
        pages.append(page)
        page.goto(f"{url}/?{query}")
        _wait_idle(page)
        return page

    yield show
    for page in pages:
        page.context.close()
    assert not faults, "\n".join(faults)


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """The app's first page, idle."""
    return open_page()
