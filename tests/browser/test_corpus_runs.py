"""Studies of a visitor's own texts, and two studies, as a person meets them in a real Chromium."""

import re

from playwright.sync_api import expect

from tests.browser.test_choices import choose
from tests.browser.test_corpus import MADE, opened

TEXTS = [
    f"The {animal} number {i} sat on the mat." for i in range(150) for animal in ("cat", "dog")
]


def test_a_study_survives_the_closing_of_its_page_and_another_visit_finds_it(open_page, wait_idle):
    page = opened(open_page, wait_idle, "/corpus")
    page.get_by_text("Study texts of your own").click()
    page.get_by_label("Texts, one per line").fill("\n".join(TEXTS))
    page.get_by_role("button", name="Study them").click()
    expect(page.get_by_text("of 300 texts,")).to_be_visible(timeout=MADE)
    page.close()
    again = opened(open_page, wait_idle, "/corpus")
    choose(again, "Texts", "“The cat number 0 sat on the mat. T…”")
    expect(again.get_by_text("300 texts of your own")).to_be_visible(timeout=MADE)
    again.get_by_role("link", name="Explore", exact=True).click()
    again.get_by_text("All about this head").click()
    expect(again.get_by_text("on 300 texts of your own")).to_be_visible()


def test_a_link_opens_two_studies_and_back_leads_to_them_again(open_page, wait_idle, go_back):
    page = opened(open_page, wait_idle, "/corpus?corpus_model_b=tiny-gpt2&metric=distance")
    said = page.get_by_text(re.compile(r"Distance: \d+ of 32 heads differ by 3 standard errors"))
    expect(said).to_be_visible(timeout=MADE)
    wait_idle(page)
    choose(page, "Against", "The same model")
    expect(page.get_by_text("Choose another model, or other texts")).to_be_visible()
    go_back(page)
    expect(said).to_be_visible()
