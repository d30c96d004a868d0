"""The first page of Learn in a real Chromium.

Its steps, keys, numbers and motion are tested in test_first_sentence.js of tests/web.
"""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage

LAST = 15  # steps


@pytest.mark.journey
def test_start_with_a_sentence_of_ones_own_leads_to_a_lab(open_page: OpenPage) -> None:
    page = open_page("/learn")
    with next_run(page):
        page.locator(".st-key-start-card").get_by_role("link").click()
    expect(page).to_have_url(re.compile("/start$"))
    box = page.get_by_label("Your sentence")
    box.fill("The cat sat on the <b>mat</b>")
    with next_run(page):
        box.press("Enter")
    expect(page.locator(".step-text")).to_contain_text("<b>mat</b> ___")
    copy = open_page(page.url)
    expect(copy.get_by_label("Your sentence")).to_have_value("The cat sat on the <b>mat</b>")
    count, onward = page.locator(".first-sentence .count"), page.locator(".first-sentence .primary")
    for step in range(2, LAST + 1):
        onward.click()
        expect(count).to_have_text(f"{step} of {LAST}")
        if step >= LAST - 1:  # a step that is passed before it is told is none of the way back
            expect(page).to_have_url(re.compile(f"step={step}"))
    expect(onward).to_be_disabled()
    with next_run(page):
        page.go_back()
    expect(count).to_have_text(f"{LAST - 1} of {LAST}")
    page.reload()
    wait_ready(page)
    expect(count).to_have_text(f"{LAST - 1} of {LAST}")
    words = page.locator(".words .word").first
    before = words.inner_text()
    page.locator(".first-sentence .switch").nth(1).click()
    expect(words).not_to_have_text(before)
    with next_run(page):
        onward.click()
    with next_run(page):
        page.locator(".way[href*='lab-soft-lookup']").click()
    expect(page).to_have_url(re.compile("/lab-soft-lookup"))
