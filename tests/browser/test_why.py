"""The Why page as a person uses it, in a real Chromium."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage

TEXT = "The cat saw the dog. The cat saw the"


def click_head(page: Page) -> tuple[int, int]:
    """Click the name of the first head of the drawn graph; return its layer and number."""
    x, y, layer, head = page.locator(".flow-graph").evaluate(
        """root => {
            const { model, picture: { items, scroller } } = root.parentNode.mhaViews.flowGraph;
            const node = items.nodes.find(({ head }) => head >= 0);
            return [node.x - scroller.scrollLeft, node.y, model.layerOf(node.rows[0]), node.head];
        }"""
    )
    page.locator(".flow-graph .over").click(position={"x": x, "y": y + 10})
    return layer, head


@pytest.mark.journey
def test_why_from_a_prediction_over_its_graph_to_a_score_and_through_all_views(
    open_page: OpenPage,
) -> None:
    page = open_page(f"/why?model=tiny-gpt2&text={TEXT}&layer=0&head=0")
    with next_run(page):
        page.get_by_role("radio", name="Graph").click()
    layer, head = click_head(page)
    expect(page.get_by_role("heading", name=f"L{layer} H{head}", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile(f"layer={layer}&head={head}"))
    wait_ready(page)
    older = open_page(page.url.replace("/why?", "/circuits?circuit=graph&"))
    expect(older.get_by_role("heading", name=f"L{layer} H{head}", exact=True)).to_be_visible()
    with next_run(page):
        page.get_by_role("button", name="Why it looks there").click()
    expect(page.get_by_text(f"the score of L{layer} H{head} from")).to_be_visible()
    with next_run(page):
        page.get_by_role("radio", name="Connections", exact=True).click()
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    with next_run(page):  # a task's own pairs need no sentence
        page.get_by_role("radio", name="Test", exact=True).click()
    expect(page.get_by_label("Sentence", exact=True)).to_have_count(0)
    with next_run(page):
        page.get_by_role("radio", name="Patching", exact=True).click()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(TEXT)
