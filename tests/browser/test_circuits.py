"""The Circuits page as a person uses it, in a real Chromium."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from mha_viz.ui.state.views import CIRCUITS
from tests.browser.compare_page import PHONE, click_cell, fits, heading, query
from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage

TEXT = "The cat saw the dog. The cat saw the"
LINK = f"/circuits?model=tiny-gpt2&text={TEXT}&layer=2&head=4"


def focus_head(page: Page, picture: Locator) -> str:
    """Walk down from the prediction to a head of its graph; return its name, "L2 H4"."""
    said = page.locator(".flow-graph .live")
    picture.press("Home")
    for _ in range(12):
        before = said.inner_text()
        picture.press("ArrowDown")
        expect(said).not_to_have_text(before)
        if name := re.match(r"L\d H\d", said.inner_text()):
            return name[0]
    raise AssertionError("no head on the way down")


@pytest.mark.journey
def test_circuits_from_a_pair_in_explore_to_its_scores_and_back(open_page: OpenPage) -> None:
    page = open_page(f"/?model=tiny-gpt2&text={TEXT}&layer=2&head=4&show=pair&query=8&key=3")
    with next_run(page):
        page.get_by_role("button", name="Why this head looks there").click()
    expect(page.get_by_text("the score of L2 H4 from “saw” to “the”")).to_be_visible()
    address = query(page)
    assert (address["circuit"], address["query"], address["key"]) == ("looks", "8", "3")
    with next_run(page):
        page.get_by_role("button", name="Open in Explore").click()
    expect(page.get_by_role("button", name="Why this head looks there")).to_be_visible()
    assert query(page)["show"] == "pair" and query(page)["query"] == "8"


@pytest.mark.journey
def test_circuits_graph_opens_a_head_and_pins_a_node(open_page: OpenPage) -> None:
    page = open_page(f"{LINK}&circuit=graph&target=dog&against=cat&explained=80")
    picture, cut = page.get_by_role("application"), page.locator(".flow-graph .cut")
    whole = cut.inner_text()
    name = focus_head(page, picture)
    picture.press("Enter")
    expect(page.get_by_role("heading", name=f"What {name} writes")).to_be_visible()
    layer, head = re.findall(r"\d", name)
    expect(page).to_have_url(re.compile(f"layer={layer}&head={head}"))
    wait_ready(page)
    picture.press("Home")
    picture.press("ArrowDown")
    picture.press("p")
    expect(page).to_have_url(re.compile("graph_pins=L3"))
    expect(cut).not_to_have_text(whole)
    pinned = cut.inner_text()
    copy = open_page(page.url)
    expect(copy.locator(".flow-graph .cut")).to_have_text(pinned)
    with next_run(copy):
        copy.get_by_text("✕").click()
    expect(copy.locator(".flow-graph .cut")).to_have_text(whole)


@pytest.mark.parametrize("look", [{}, {"color_scheme": "dark"}, PHONE])
def test_circuits_every_section_fits(open_page: OpenPage, look: dict[str, object]) -> None:
    page = open_page(f"{LINK}&circuit=map", **look)
    for section, name in CIRCUITS.items():
        if section != "map":
            with next_run(page):
                page.get_by_role("radio", name=name, exact=True).click()
        assert query(page).get("circuit", "writes") == section
        done = page.get_by_test_id("stAlertContentSuccess").count()  # the model does the task
        assert done == page.get_by_test_id("stAlert").count() == (section in ("edges", "test"))
        assert fits(page), section


def test_circuits_share_of_a_head_opens_the_head(open_page: OpenPage) -> None:
    page = open_page(LINK + "&circuit=writes")
    expect(heading(page, "L2 H4")).to_be_visible()
    with next_run(page):
        page.get_by_text(re.compile(r"^L\d H\d: [+−]")).first.click()
    expect(heading(page, "L2 H4")).to_have_count(0)
    expect(heading(page, f"L{query(page)['layer']} H{query(page)['head']}")).to_be_visible()


def test_circuits_cell_of_the_map_opens_the_pair(open_page: OpenPage) -> None:
    page = open_page(LINK + "&circuit=weights")
    with next_run(page):
        click_cell(page, 8 + 5, 2 * 8 + 6, rows=32)
    expect(heading(page, "L1 H5 → L2 H6")).to_be_visible()
    expect(page).to_have_url(re.compile("layer=2&head=6.*layer_b=1&head_b=5"))


def test_circuits_graph_on_a_phone_starts_folded_and_unfolds(open_page: OpenPage) -> None:
    page = open_page(f"{LINK}&circuit=graph", **PHONE)
    graph, fold = page.locator(".flow-graph"), page.locator(".flow-graph .fold")
    folded = graph.get_attribute("data-column") or ""
    fold.tap()
    expect(graph).not_to_have_attribute("data-column", folded)
    assert fits(page)
