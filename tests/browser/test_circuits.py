"""The Circuits page as a person uses it, in a real Chromium."""

import re

import pytest
from playwright.sync_api import expect

from mha_viz.ui.state.views import CIRCUITS
from tests.browser.compare_page import click_cell, heading, query
from tests.browser.idle import run_asked_for

TEXT = "The cat saw the dog. The cat saw the"
TASKED = ("edges", "test")  # sections that begin with a task
LINK = f"/circuits?model=tiny-gpt2&text={TEXT}&layer=2&head=4"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@pytest.mark.parametrize(
    "look", [{}, {"color_scheme": "dark"}, PHONE], ids=["light", "dark", "phone"]
)
def test_every_section_in_light_dark_and_on_a_phone(open_page, wait_idle, look):
    page = open_page(LINK, **look)
    for section, name in CIRCUITS.items():
        page.get_by_role("radio", name=name, exact=True).click()
        expect(page).to_have_url(
            re.compile(f"circuit={section}" if section != "writes" else TEXT[:3])
        )
        wait_idle(page)
        told = page.get_by_test_id("stAlertContentSuccess").count()  # that it does the task
        assert told == page.get_by_test_id("stAlert").count() == (section in TASKED), section
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, section
        for figure in page.locator(".js-plotly-plot").all():
            inside = figure.bounding_box()
            assert inside["width"] > 150 and inside["x"] >= 0, section
            assert inside["x"] + inside["width"] <= page.viewport_size["width"], section


@pytest.mark.extended
@pytest.mark.journey
def test_from_a_pair_in_explore_to_why_the_head_looks_there_and_back(open_page, wait_idle):
    link = f"/?model=tiny-gpt2&text={TEXT}&layer=2&head=4&show=pair&query=8&key=3"
    page = open_page(link)
    page.get_by_role("button", name="Why this head looks there").click()
    expect(page.get_by_text("the score of L2 H4 from “saw” to “the”")).to_be_visible()
    wait_idle(page)
    asked = query(page)
    assert (asked["circuit"], asked["query"], asked["key"]) == ("looks", "8", "3")
    page.get_by_role("button", name="Open in Explore").click()
    expect(page.get_by_role("button", name="Why this head looks there")).to_be_visible()
    assert query(page)["show"] == "pair"


def test_a_click_on_a_head_shows_what_its_share_comes_from(open_page, wait_idle):
    page = open_page(LINK + "&circuit=writes")
    expect(heading(page, "L2 H4")).to_be_visible()
    page.get_by_text(re.compile(r"^L\d H\d: [+−]")).first.click()
    expect(heading(page, "L2 H4")).to_have_count(0)
    wait_idle(page)
    chosen = f"L{query(page)['layer']} H{query(page)['head']}"
    expect(heading(page, chosen)).to_be_visible()


@pytest.mark.extended
@pytest.mark.journey
def test_a_click_in_the_map_shows_the_pair_and_the_address_opens_it(open_page, wait_idle):
    page = open_page(LINK + "&circuit=weights")
    click_cell(page, (8 + 5, 2 * 8 + 6), of=32)
    expect(heading(page, "L1 H5 → L2 H6")).to_be_visible()
    expect(page).to_have_url(re.compile("layer_b=1&head_b=5"))
    wait_idle(page)
    assert (query(page)["layer"], query(page)["head"]) == ("2", "6")


def test_a_click_pins_a_node_of_a_prediction_and_the_address_opens_it(open_page, wait_idle):
    link = f"{LINK}&circuit=graph&target=dog&against=cat"
    page = open_page(link)
    held = page.locator(".flow-graph .cut")
    expect(held).to_have_text(re.compile(r"^\d+ edges hold −.* for “dog” less “cat”"))
    whole = held.inner_text()
    picture = page.locator(".flow-graph .over")
    picture.press("Home")
    picture.press("ArrowDown")
    picture.press("p")
    expect(page).to_have_url(re.compile("graph_pins=L3MLP%409"))
    expect(held).not_to_have_text(whole)
    wait_idle(page)
    pinned = held.inner_text()
    page.reload()
    wait_idle(page)
    expect(held).to_have_text(pinned)
    with run_asked_for(page):
        page.get_by_text("L3 MLP @9 ✕").click()
    wait_idle(page)  # till then the graph of before may stand beside it
    expect(held).to_have_text(whole)


def test_on_a_phone_a_prediction_starts_folded_and_unfolds(open_page):
    page = open_page(f"{LINK}&circuit=graph", **PHONE)
    fold = page.locator(".flow-graph .fold")
    expect(fold).to_have_text("Show tokens")
    graph = page.locator(".flow-graph")
    folded = float(graph.get_attribute("data-column"))
    fold.click()
    expect(fold).to_have_text("Fold tokens")
    assert float(graph.get_attribute("data-column")) < folded
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
