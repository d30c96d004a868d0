"""A page whose network breaks, or whose server dies, comes back by itself to what it showed."""

import contextlib
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from mha_viz.ui.state.link_values import reference
from tests.browser.ready import next_run, wait_ready
from tests.browser.test_left_behind import open_tab
from tests.browser.workbench_page import type_text
from tests.faults.wire import wire
from tests.ui.serving import served
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

SHORT = "The old dog slept."
LONG = " ".join(f"The {number} old dogs slept." for number in range(80))  # for no address
# What a server knows of its pages: the length of each one's text, the model and its switches. Not
# by gc.get_objects: a tuple that another thread is making would be held, and that thread fail.
VIEWS = """
from streamlit.runtime import get_instance
sessions = [info.session for info in get_instance()._session_mgr.list_sessions()]
states = [each.session_state for each in sessions if each._state.name != "SHUTDOWN_REQUESTED"]
views = [state["view"] for state in states if "view" in state]
answer = sorted((len(view.text), view.model, view.off) for view in views)
"""


def wait_for_answer(ask: Callable[[str], str], code: str, expected: object) -> None:
    wait_for(lambda: ask(code) == str(expected), lambda: f"{expected}; now {ask(code)}")


def test_a_page_comes_back_to_its_view(browser: Browser, tmp_path: Path) -> None:
    off = ((0, 1), (1, 2))
    both = [(len(SHORT), "tiny-gpt2", off), (len(LONG), "tiny-gpt2", off)]
    (tmp_path / "second").mkdir()
    shared = {"MHA_VIZ_SHARED": str(tmp_path / "shared")}
    with contextlib.ExitStack() as running:
        port, ask = running.enter_context(served(tmp_path, **shared))
        way = running.enter_context(wire(port))
        query = f"why=test&test=importance&model=tiny-gpt2&off=0.1,1.2&text={SHORT}"
        address = f"http://127.0.0.1:{way.port}/why?{query}"
        short, long = open_tab(browser, address), open_tab(browser, address)
        with next_run(long):
            type_text(long, LONG)
        assert f"text={reference(LONG)}" in long.url
        # As many texts as are measured over, so that the work is under way for long.
        short.get_by_role("button", name="Texts to measure on").click()
        box = short.get_by_label("Texts", exact=True)
        box.fill("\n".join(f"The {number} old dogs slept while it rained." for number in range(31)))
        with next_run(short):
            box.press("Control+Enter")
        short.keyboard.press("Escape")
        short.get_by_role("button", name="Prune").click()
        expect(short.get_by_role("progressbar", name="progress", exact=True)).to_be_visible()
        ask("from mha_viz.ui.run import memory; memory.RECONNECT_SECONDS = 0; answer = ''")

        way.cut()
        for page in (short, long):
            expect(page.get_by_text(re.compile("connecting", re.IGNORECASE))).to_be_visible()
            expect(page.get_by_label("Sentence", exact=True)).to_be_disabled()
        wait_for_answer(ask, VIEWS, [])
        way.lead(port)
        wait_for_answer(ask, VIEWS, both)
        expect(short.get_by_role("button", name="Prune")).to_be_enabled()
        # Now at work, it asks for a run by itself when a server is there: one without its text.
        long.get_by_role("button", name="Prune").click()
        expect(long.get_by_role("progressbar", name="progress", exact=True)).to_be_visible()

        process = int(ask("import os; answer = os.getpid()"))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        way.cut()
        port, ask = running.enter_context(served(tmp_path / "second", **shared))
        way.lead(port)
        wait_for_answer(ask, VIEWS, both)
        for page, text in ((short, SHORT), (long, LONG)):
            sentence = page.get_by_label("Sentence", exact=True)
            # The server knows the text a moment before the page shows it, and a click in between
            # would send what the page shows.
            expect(sentence).to_be_enabled()
            wait_ready(page)
            expect(sentence).to_have_value(text)
            page.get_by_role("combobox", name="Method").click()
            with next_run(page):  # the first choice is heard
                page.get_by_role("option", name="Gradient of the loss").click()
            assert "method=gradient" in page.url
            expect(sentence).to_have_value(text)
            page.context.close()
