"""The real app in a real Chromium.

All browser tests of a worker share them, so they run one by one there.
"""

import contextlib
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from tests.browser.tabs import PATIENCE, OpenPage, Tabs
from tests.missing import skip_or_fail
from tests.ui.serving import started

ROOT = Path(__file__).parents[2]
# The first that is there; Debian's Chromium without windows takes a third less of the processor.
CHROMIUM = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
expect.set_options(timeout=PATIENCE)
PAGES = pytest.StashKey[list[Page]]()
FAILED = pytest.StashKey[bool]()  # whether a test failed in the browser that runs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("browser")
            if item.get_closest_marker("journey"):
                # A browser can crash; what fails in a fresh one, too, is a fault of the app.
                item.add_marker(pytest.mark.flaky(reruns=1))
            else:
                item.add_marker("extended")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Take a picture of each page of a test that failed; its browser is not used again."""
    report = yield
    if report.when != "teardown" and report.failed:
        item.session.stash[FAILED] = True
        folder = ROOT / "screenshots"
        folder.mkdir(exist_ok=True)
        for number, page in enumerate(item.stash.get(PAGES, [])):
            name = re.sub(r"[^\w.-]+", "_", item.name)
            picture = folder / f"failed_{name}_{number}.png"
            try:
                page.screenshot(path=picture, full_page=True)
                shown = f"{page.url}\n{picture}"
                page.context.close()
            except PlaywrightError as error:  # a page that was closed must not end the whole run
                shown = f"{page.url}\nno picture: {error.message}"
            report.sections.append(("Chromium", shown))
    return report


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium. Without one tests are skipped, or fail where CI is set."""
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None:
        skip_or_fail(
            "these tests drive a real Chromium, and none is on PATH (apt install chromium)"
        )
    return found


@pytest.fixture(scope="session")
def _all_tabs(chromium: str) -> Iterator[Tabs]:
    with sync_playwright() as playwright:
        launch = partial(
            playwright.chromium.launch,
            executable_path=chromium,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        tabs = Tabs(launch)
        yield tabs
        tabs.browser.close()


@pytest.fixture
def tabs(_all_tabs: Tabs, request: pytest.FixtureRequest) -> Tabs:
    """The tabs of the browser that all tests share; of a new one once a test has failed."""
    if request.session.stash.get(FAILED, False):
        request.session.stash[FAILED] = False
        _all_tabs.renew()
    return _all_tabs


@pytest.fixture
def browser(tabs: Tabs) -> Browser:
    return tabs.browser


@pytest.fixture(scope="session")
def app_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the app under test writes its output to."""
    return tmp_path_factory.mktemp("app") / "app.log"


@pytest.fixture(scope="session")
def app_url(chromium: str, app_log: Path) -> Iterator[str]:
    """The address of the app, started as `make run` starts it, on a free port."""
    with running(app_log) as url:
        yield url


@contextlib.contextmanager
def running(log: Path, **env: str) -> Iterator[str]:
    """Start the app; the address where it answers, until the block is left."""
    with started(log, **env) as (port, _):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def pages(request: pytest.FixtureRequest) -> list[Page]:
    """The pages that the test opens, of which pictures are taken where it fails."""
    return request.node.stash.setdefault(PAGES, [])


@pytest.fixture
def open_page(tabs: Tabs, pages: list[Page], app_url: str, app_log: Path) -> Iterator[OpenPage]:
    """`open_page(path="/", **context)` opens the app as a newcomer, and waits until it is ready.

    The context takes Playwright's options, such as `color_scheme="dark"` or a `viewport`. The test
    fails at its end where a page asked for anything but the app, wrote an error to its console, or
    the app raised an exception that it did not catch.
    """
    seen = app_log.stat().st_size
    with tabs.lent(app_url, 1280, pages) as open_page:
        yield open_page
    with app_log.open() as log:
        log.seek(seen)
        written = log.read()
    assert "Uncaught app exec" not in written, written


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """The app's first page, ready."""
    return open_page()
