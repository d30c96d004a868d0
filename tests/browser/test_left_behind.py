"""Work that nobody waits for any more gives its processor back."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.ready import wait_ready
from tests.browser.tabs import PATIENCE
from tests.ui.serving import served
from tests.waiting import wait_for

# In the server's process: work that never ends, and tells how far it is as the true one does.
ENDLESS = """
import time
from mha_viz.ui.run import heavy
def endless(tell):
    while True:
        tell("draws", 0.5)
        time.sleep(0.02)
heavy.work, answer = lambda function, key, *more: heavy.Work(key, endless), ""
"""
# What runs counts until its thread has ended; what waits for its turn counts, too.
AT_WORK = """
from mha_viz.ui.jobs.heavy_queue import figures
answer = int(figures()["running"] + figures()["waiting"])
"""


def close(page: Page) -> None:
    page.close()


def go_elsewhere(page: Page) -> None:
    page.get_by_role("link", name="Heads", exact=True).click()
    expect(page.locator(".head-grid[data-painted]")).to_be_visible()


def type_another_text(page: Page) -> None:
    page.get_by_label("Sentence", exact=True).fill("A newer text.")
    page.get_by_label("Sentence", exact=True).press("Enter")
    expect(page.get_by_role("button", name="Prune")).to_be_enabled()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Callable[[str], str]]]:
    with served(tmp_path_factory.mktemp("server")) as (port, ask):
        yield f"http://127.0.0.1:{port}", ask


def open_tab(browser: Browser, address: str) -> Page:
    """Open an address in a context of its own, and wait until it is ready."""
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    wait_ready(page)
    return page


@pytest.mark.parametrize("leave", [close, go_elsewhere, type_another_text])
def test_work_ends_once_nobody_waits_for_it(
    browser: Browser, server: tuple[str, Callable[[str], str]], leave: Callable[[Page], None]
) -> None:
    address, ask = server[0] + "/why?why=test&test=importance&model=tiny-gpt2&text=", server[1]
    # Two sentences: with the same they would wait for the same work.
    texts = ("The old dog slept.", "Birds sing.")
    leaving, staying = (open_tab(browser, address + text) for text in texts)
    ask(ENDLESS)
    for page in (leaving, staying):
        page.get_by_role("button", name="Prune").click()
        expect(page.get_by_role("progressbar", name="progress", exact=True)).to_be_visible()
    assert ask(AT_WORK) == "2"
    leave(leaving)
    wait_for(lambda: ask(AT_WORK) == "1", "the end of the work that nobody waits for")
    expect(staying.get_by_role("progressbar", name="progress", exact=True)).to_be_visible()
    for page in (leaving, staying):
        page.context.close()
    wait_for(lambda: ask(AT_WORK) == "0", "the end of all work")
