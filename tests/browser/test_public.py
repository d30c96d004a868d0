"""A server that is open to everybody, in a real Chromium."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import mha_viz as mv
from tests.browser.conftest import running
from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import Tabs
from tests.browser.workbench_page import type_text


@pytest.mark.journey
def test_a_stranger_sees_shipped_models_alone_and_is_told_the_limits(
    tabs: Tabs, pages: list[Page], tmp_path: Path
) -> None:
    log = tmp_path / "app.log"
    limits = {"MHA_VIZ_PUBLIC": "1", "MHA_VIZ_MAX_CHARACTERS": "100"}
    with running(log, **limits) as url, tabs.lent(url, 1280, pages) as open_page:
        page = open_page("/?model=/etc")
        warning = page.get_by_test_id("stAlertContentWarning")
        expect(warning.filter(has_text="/etc")).to_be_visible()
        page.get_by_label("Model", exact=True).click()
        options = page.get_by_role("option").all_inner_texts()
        assert len(options) > 1 and "Another model" not in options
        with next_run(page):
            page.get_by_role("option", name="tiny-gpt2").click()
        refused = page.get_by_test_id("stAlertContentError")
        with next_run(page):
            type_text(page, "word " * 30)
        expect(refused.filter(has_text="up to 100 characters")).to_be_visible()
        with next_run(page):
            type_text(page, "A red fox ran.")
        expect(refused).to_have_count(0)
        n = len(mv.load("tiny-gpt2").trace("A red fox ran.").tokens)
        expect(page.get_by_text(f"4 layers × 8 heads · {n} tokens")).to_be_visible()
        page.goto("/teach")
        wait_ready(page)
        expect(page.get_by_text("keeps no classes").first).to_be_visible()
        expect(page.get_by_role("button", name="Open a class")).to_have_count(0)
    assert "Uncaught app exec" not in log.read_text()
