"""The Circuits page as a person uses it, in a real Chromium."""

import re

import pytest
from playwright.sync_api import Page, expect

from mha_viz.ui.state.views import CIRCUITS, TITLES
from tests.browser.compare_page import query
from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage

TEXT = "The cat saw the dog. The cat saw the"


def click_head(page: Page) -> tuple[int, int]:
    """Click the first head of the drawn graph; return its layer and number."""
    x, y, layer, head = page.locator(".flow-graph").evaluate(
        """root => {
            const { model, picture: { items, scroller } } = root.parentNode.mhaViews.flowGraph;
            const node = items.nodes.find(({ head }) => head >= 0);
            return [node.x - scroller.scrollLeft, node.y, model.layerOf(node.rows[0]), node.head];
        }"""
    )
    page.locator(".flow-graph .over").click(position={"x": x, "y": y})
    return layer, head


@pytest.mark.journey
def test_circuits_from_a_pair_in_explore_to_its_scores_and_back(open_page: OpenPage) -> None:
    page = open_page(f"/?model=tiny-gpt2&text={TEXT}&layer=2&head=4&show=pair&query=8&key=3")
    with next_run(page):
        page.get_by_role("button", name="Why this head looks there").click()
    expect(page.get_by_text("the score of L2 H4 from “saw” to “the”")).to_be_visible()
    address = query(page)
    assert (address["circuit"], address["query"], address["key"]) == ("looks", "8", "3")
    with next_run(page):
        page.get_by_role("button", name="Open in Heads").click()
    expect(page.get_by_role("button", name="Why this head looks there")).to_be_visible()
    assert query(page)["query"] == "8" and query(page)["key"] == "3"


@pytest.mark.journey
def test_circuits_graph_of_a_state_opens_the_clicked_head(open_page: OpenPage) -> None:
    page = open_page(f"/circuits?text={TEXT}&layer=2&head=4")
    with next_run(page):
        page.get_by_role("radio", name=CIRCUITS["graph"], exact=True).click()
    with next_run(page):
        page.get_by_role("radio", name=TITLES["graphs"]["state"]).click()
    layer, head = click_head(page)
    expect(page.get_by_role("heading", name=f"What L{layer} H{head} writes")).to_be_visible()
    expect(page).to_have_url(re.compile(f"layer={layer}&head={head}"))
    wait_ready(page)
    copy = open_page(page.url)
    expect(copy.get_by_role("heading", name=f"What L{layer} H{head} writes")).to_be_visible()
