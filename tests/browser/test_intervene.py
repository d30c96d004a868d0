"""The Intervene page as a person uses it, in a real Chromium."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

import mha_viz as mv
from mha_viz.interventions.ablation import ablate
from mha_viz.web.theme import format_number
from tests.browser.compare_page import query
from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage

TEXT = "Once upon a time there was a little dog who liked to"
MASKED_TEXT = "The dog saw the [MASK] run."
LINK = f"/intervene?model=tiny-gpt2&text={TEXT}&layer=0&head=0"


def tile(page: Page, layer: int, head: int) -> Locator:
    return page.locator(f'.head-switches .tile[aria-label^="L{layer} H{head},"]')


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def divergence(page: Page) -> Locator:
    return page.get_by_test_id("stMetricValue")


def expect_divergence(
    page: Page, heads: list[tuple[int, int]], text: str = TEXT, **options: object
) -> None:
    """Expect the number of the library, as the page writes it."""
    model = "tiny-bert" if "[MASK]" in text else "tiny-gpt2"
    ablation = ablate(mv.load(model), text, heads, **options)  # type: ignore[arg-type]
    expect(divergence(page)).to_have_text(format_number(ablation.kl))


@pytest.mark.journey
def test_switched_heads_change_the_prediction_and_the_link(open_page: OpenPage) -> None:
    page = open_page(LINK)
    expect(divergence(page)).to_have_count(0)
    tile(page, 0, 3).click()
    expect_divergence(page, [(0, 3)])
    tile(page, 1, 2).click()
    expect_divergence(page, [(0, 3), (1, 2)])
    button(page, "Undo").click()
    expect_divergence(page, [(0, 3)])
    expect(page).to_have_url(re.compile("off=0.3(&|$)"))
    wait_ready(page)
    copy = open_page(page.url)
    expect_divergence(copy, [(0, 3)])
    assert query(copy) == query(page)
    copy.goto("/intervene?model=tiny-bert&off=2.1&text=The dog saw the dog run.")
    copy.get_by_role("radio", name="dog").nth(1).click()
    expect(copy.get_by_label("Sentence", exact=True)).to_have_value(MASKED_TEXT)
    expect_divergence(copy, [(2, 1)], MASKED_TEXT)
    expect(copy).to_have_url(re.compile(r"text=[^&]*MASK"))


def test_intervene_bar_of_the_strip_moves_the_position(open_page: OpenPage) -> None:
    page = open_page(LINK + "&off=0.3")
    strip = page.locator(".js-plotly-plot").nth(1)
    strip.scroll_into_view_if_needed()
    box = strip.locator(".barlayer .point path").nth(3).bounding_box()
    assert box
    with next_run(page):
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page).to_have_url(re.compile(r"place=\d"))
    expect_divergence(page, [(0, 3)], position=int(query(page)["place"]))


def test_intervene_measuring_can_be_stopped_and_leaves_the_page_usable(open_page: OpenPage) -> None:
    page = open_page(LINK + "&off=0.3")
    page.get_by_text("Texts to measure on").click()
    texts = page.get_by_label("Texts", exact=True)
    texts.fill("\n".join(f"{i} {'the dog ran home and ' * 20}" for i in range(31)))
    with next_run(page):
        texts.press("Control+Enter")
    button(page, "Measure").click()
    stop = page.locator(".st-key-stop_measuring button")
    stop.click()
    expect(stop).to_have_count(0)
    tile(page, 1, 2).click()
    expect_divergence(page, [(0, 3), (1, 2)])
    expect(button(page, "Measure")).to_be_enabled()
