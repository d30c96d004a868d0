"""Heads switched off, and what is predicted then, as a person uses it in a real Chromium."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

import mha_viz as mv
from mha_viz.interventions.ablation import ablate
from mha_viz.web.theme import format_number
from tests.browser.compare_page import query
from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage
from tests.browser.workbench_page import chosen_head, click_head

TEXT = "Once upon a time there was a little dog who liked to"
MASKED_TEXT = "The dog saw the [MASK] run."
LINK = f"/?model=tiny-gpt2&text={TEXT}&layer=0&head=0"


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def switch_off(page: Page, layer: int, head: int) -> None:
    """Choose a head of the grid and switch it off beside its name."""
    click_head(page, layer, head)
    wait_ready(page)
    with next_run(page):
        chosen_head(page).get_by_role("button", name="Switch off", exact=True).click()


def expect_divergence(
    page: Page, heads: list[tuple[int, int]], text: str = TEXT, **options: object
) -> None:
    """Expect the number of the library under the sentence, and in the section where it is open."""
    model = "tiny-bert" if "[MASK]" in text else "tiny-gpt2"
    number = format_number(ablate(mv.load(model), text, heads, **options).kl)  # type: ignore[arg-type]
    expect(page.locator(".prediction-view .kl")).to_have_text(f"KL divergence {number} nats")
    for line in page.get_by_text(re.compile(r"KL divergence .* from the prediction")).all():
        expect(line).to_contain_text(f" {number} nats")


@pytest.mark.journey
def test_switched_heads_change_the_prediction_and_the_link(open_page: OpenPage) -> None:
    page = open_page(LINK)
    expect(page.locator(".prediction-view")).to_be_hidden()
    switch_off(page, 0, 3)
    expect_divergence(page, [(0, 3)])
    switch_off(page, 1, 2)
    expect_divergence(page, [(0, 3), (1, 2)])
    with next_run(page):
        page.get_by_text("Prediction in detail").click()
    page.get_by_role("combobox", name="Intervention").click()
    with next_run(page):
        page.get_by_role("option", name="Mean over positions").click()
    expect_divergence(page, [(0, 3), (1, 2)], how="mean")
    with next_run(page):
        page.go_back()
    expect_divergence(page, [(0, 3), (1, 2)])
    with next_run(page):
        page.go_forward()
    expect(page).to_have_url(re.compile("off=0.3%2C1.2&how=mean"))
    copy = open_page(page.url)
    expect(copy.get_by_label("Token to track")).to_be_visible()
    expect_divergence(copy, [(0, 3), (1, 2)], how="mean")
    assert query(copy) == query(page)
    copy.goto("/intervene?model=tiny-bert&off=2.1&how=uniform&text=The dog saw the dog run.")
    with next_run(copy):
        copy.get_by_role("radio", name="dog").nth(1).click()
    expect(copy.get_by_label("Sentence", exact=True)).to_have_value(MASKED_TEXT)
    expect_divergence(copy, [(2, 1)], MASKED_TEXT, how="uniform")
    expect(copy).to_have_url(re.compile(r"/\?.*text=[^&]*MASK"))


def test_a_click_on_a_token_of_the_losses_moves_the_position(open_page: OpenPage) -> None:
    page = open_page(LINK + "&off=0.3&target=play")
    strip = page.locator(".js-plotly-plot").nth(1)
    strip.scroll_into_view_if_needed()
    box = strip.locator(".barlayer .point path").nth(3).bounding_box()
    assert box
    with next_run(page):
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page).to_have_url(re.compile(r"place=\d"))
    expect_divergence(page, [(0, 3)], position=int(query(page)["place"]))


def test_importance_that_is_stopped_leaves_the_page_usable(open_page: OpenPage) -> None:
    page = open_page(LINK.replace("/?", "/why?why=test&test=importance&"))
    button(page, "Texts to measure on").click()
    texts = page.get_by_label("Texts", exact=True)
    texts.fill("\n".join(f"{i} {'the dog ran home and ' * 20}" for i in range(31)))
    with next_run(page):
        texts.press("Control+Enter")
    page.keyboard.press("Escape")
    button(page, "Measure").click()
    stop = page.locator(".st-key-stop_measuring button")
    stop.click()
    expect(stop).to_have_count(0)
    page.get_by_role("combobox", name="Method").click()
    with next_run(page):
        page.get_by_role("option", name="Gradient of the loss").click()
    expect(button(page, "Measure")).to_be_enabled()
