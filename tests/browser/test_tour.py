"""The tour, in a real Chromium."""

import re

import pytest
from playwright.sync_api import Page, expect

import mha_viz as mv
from tests.browser.ready import wait_ready
from tests.browser.workbench_page import chosen_head, name_of, view_menu

TYPED = "The old dog saw the young dog, and the young dog saw the old cat."  # by the tour itself


def tour(page: Page):
    return page.get_by_role("dialog", name="Tour")


def begin(page: Page) -> None:
    view_menu(page).get_by_role("button", name="Tour").click()


@pytest.mark.journey
def test_tour_leads_from_a_labelled_head_to_switching_it_off(open_page) -> None:
    page = open_page("/")
    begin(page)
    expect(tour(page)).to_contain_text("1 of 5")
    model = mv.load("tiny-bert")
    report = mv.head_report(record := model.trace(TYPED), model)
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(TYPED)
    expect(page.locator(".head-view .word")).to_have_text([token.text for token in record.tokens])
    expect(page.locator(".head-grid .badge")).to_have_count(int((report.labels != "").sum()))
    following = page.get_by_role("button", name="Next", exact=True)
    expect(following).to_be_focused()
    page.keyboard.press("Enter")
    first = report[report.labels.str.contains("Previous token")].iloc[0]
    layer, head = int(first.layer), int(first["head"])
    name = f"L{layer} H{head}"
    expect(tour(page)).to_contain_text("2 of 5")
    expect(tour(page)).to_contain_text(name)
    expect(name_of(page)).to_have_text(name)
    expect(chosen_head(page)).to_have_attribute("data-exact", "true")
    page.keyboard.press("Enter")
    expect(tour(page)).to_contain_text("3 of 5")
    page.keyboard.press("Enter")
    position = int(record.pattern[layer, head, 1:].argmax()) + len(record.tokens)
    words = [record.tokens[at].text for at in divmod(position, len(record.tokens))]
    expect(tour(page)).to_contain_text("4 of 5")
    for word in words:
        expect(tour(page)).to_contain_text(f"“{word}”")
    expect(page.locator(".head-view .word.looks")).to_have_text(words[0])
    page.get_by_role("button", name="Back").click()
    expect(tour(page)).to_contain_text("3 of 5")
    following.click()
    following.click()
    page.get_by_role("button", name=f"Switch {name} off").click()
    wait_ready(page)
    expect(page).to_have_url(re.compile(rf"[?&]off={layer}\.{head}"))
    expect(tour(page)).to_have_count(0)
