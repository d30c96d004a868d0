"""The Compare page as a person uses it, in a real Chromium."""

import re

import pytest
from playwright.sync_api import expect

import mha_viz as mv
from mha_viz.ui.state.views import SECTIONS
from tests.browser.compare_page import (
    LINK,
    TEXT,
    click_cell,
    click_dot,
    heading,
    plot,
    query,
)
from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage
from tests.making.comparing import near


@pytest.mark.journey
def test_compare_pair_from_the_matrix_and_sections_by_keyboard(open_page: OpenPage) -> None:
    page = open_page(LINK + "twins")
    with next_run(page):
        click_cell(page, 3 * 8 + 1, 8 + 6, rows=32)
    expect(heading(page, "L3 H1 and L1 H6")).to_be_visible()
    expect(page).to_have_url(re.compile("head=1&layer_b=1&head_b=6"))
    page.get_by_text("All measures between them").click()
    record = mv.load("tiny-bert").trace(TEXT)
    distance = float(mv.head_similarity(record, "hellinger")[25, 14])
    hellinger = page.get_by_test_id("stTable").filter(has_text="Hellinger distance")
    expect(hellinger).to_contain_text(f"{distance:.4g}")
    wait_ready(page)
    page.get_by_role("radio", name="Twins").focus()
    with next_run(page):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
    expect(page.get_by_role("radio", name=SECTIONS["alike"])).to_be_checked()
    expect(heading(page, "L3 H1 and L1 H6")).to_be_visible()


def test_compare_row_of_the_nearest_twins_opens_the_pair(open_page: OpenPage) -> None:
    page = open_page(LINK + "twins&measure=cka")
    table = page.get_by_test_id("stDataFrame").first
    table.scroll_into_view_if_needed()
    with next_run(page):
        table.click(position={"x": 14, "y": 50})  # the box before the first row
    expect(page).to_have_url(re.compile("layer_b"))
    similarity = mv.head_similarity(mv.load("tiny-bert").trace(TEXT), "cka").fill_diagonal_(0)
    layer, head, layer_b, head_b = (
        int(query(page).get(name, 0)) for name in ("layer", "head", "layer_b", "head_b")
    )
    value = similarity[layer * 8 + head, layer_b * 8 + head_b]
    assert float(value) == near(float(similarity.max()))
    expect(heading(page, f"L{layer} H{head} and L{layer_b} H{head_b}")).to_be_visible()
    ticked = table.locator("canvas tbody tr[aria-selected=true]")
    expect(ticked).to_have_count(1)
    with next_run(page):
        click_cell(page, 25, 5, rows=32)
    expect(heading(page, "L3 H1 and L0 H5")).to_be_visible()
    expect(ticked).to_have_count(0)  # the tick would mark a pair that is not the chosen one


def test_compare_click_on_a_figure_chooses_its_head_or_pair(open_page: OpenPage) -> None:
    page = open_page(LINK + "twins")
    expect(page.locator(".js-plotly-plot")).to_have_count(6)  # matrix, the pair, map, two more
    heads = plot(page, 3).evaluate("p => p.data[0].customdata.map(c => Array.from(c))")
    click_dot(page, heads.index([3, 4]), figure=3)
    expect(page.get_by_role("heading", name=re.compile("^L3 H4 and L"))).to_be_visible()

    page.goto(LINK + "alike")
    wait_ready(page)
    i, j = plot(page).evaluate("p => Array.from(p._fullData[0].customdata[100])")
    click_dot(page, 100)
    expect(heading(page, f"L{i // 8} H{i % 8} and L{j // 8} H{j % 8}")).to_be_visible()

    page.goto(LINK + "sides&text_b=The young cat slept.")
    wait_ready(page)
    click_cell(page, 2, 6, rows=4, columns=8, number=3)
    expect(heading(page, "L2 H6 and L2 H6")).to_be_visible()
    expect(page).to_have_url(re.compile("layer=2&head=6.*layer_b=2&head_b=6"))
