"""Across layers in Compare as a person uses it: maps, dots and counts that are clicked."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

import mha_viz as mv
from mha_viz.core.metrics import LABELS, METRICS
from tests.browser.compare_page import (
    LINK,
    PHONE,
    TEXT,
    click_dot,
    heading,
    plot,
    query,
    rows_of,
)


@pytest.mark.parametrize("model", ["tiny-bert", "tiny-gpt2"])
def test_a_click_on_a_dot_opens_its_head(open_page, wait_idle, go_back, model):
    page = open_page(f"{LINK}layers&model={model}")
    click_dot(page, 2 * 8 + 5, figure=3)
    expect(heading(page, "L2 H5")).to_be_visible()
    wait_idle(page)
    assert (query(page)["layer"], query(page)["head"]) == ("2", "5")
    page.get_by_role("button", name="Open in Explore").click()
    expect(page.get_by_role("heading", name="Every attention head")).to_be_visible()
    expect(heading(page, "L2 H5")).to_be_visible()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(TEXT)
    expect(page).to_have_url(re.compile("layer=2&head=5"))
    assert query(page)["text"] == TEXT and query(page)["model"] == model
    assert urlsplit(page.url).path == "/"
    go_back(page)
    expect(page.get_by_role("heading", name="Compare heads")).to_be_visible()
    expect(heading(page, "L2 H5")).to_be_visible()


def _click_in(page, number: int, x: float, y: float) -> None:
    """A place in a figure, as shares of its area."""
    area = plot(page, number).locator(".nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    area.click(position={"x": box["width"] * x, "y": box["height"] * y})


@pytest.mark.parametrize("look", [{}, PHONE], ids=["laptop", "phone"])
def test_a_click_in_a_map_chooses_the_head_and_the_metric(open_page, wait_idle, look):
    page = open_page(LINK + "layers", **look)
    _click_in(page, 0, 6.5 / 8, 3.5 / 4)
    expect(heading(page, "L3 H6")).to_be_visible()
    expect(page).to_have_url(re.compile("layer=3&head=6"))
    wait_idle(page)
    (metric, layer, head), x, y = plot(page, 2).evaluate(
        """p => { const points = p._fullData.find((t) =>
          t.customdata && t.customdata[0][0] === 5);
          const {xaxis: across, yaxis: down} = p._fullLayout, i = 1 * 8 + 2;
          return [[...points.customdata[i]], across.l2p(points.x[i]) / across._length,
            down.l2p(points.y[i]) / down._length] }"""
    )
    assert (metric, layer, head) == (5, 1, 2)
    _click_in(page, 2, x, y)
    expect(heading(page, "L1 H2")).to_be_visible()
    expect(page).to_have_url(re.compile("metric=distance"))
    expect(page.get_by_text(METRICS["distance"].meaning)).to_be_visible()


def test_a_click_on_a_count_of_labels_chooses_such_a_head(open_page, wait_idle):
    page = open_page(LINK + "layers&model=tiny-gpt2")
    report = mv.head_report(mv.load("tiny-gpt2").trace(TEXT), mv.load("tiny-gpt2"))
    rows = rows_of(page)
    title = LABELS["previous_token"].title
    row = [cells[0] for cells in rows].index(title)
    labelled = report[report.labels.str.contains(title) & (report.layer == 0)]["head"].tolist()
    assert rows[row][1] == str(len(labelled)) and labelled
    canvas = page.get_by_test_id("stDataFrame").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 0.4, "y": 52 + 35 * row})
    expect(heading(page, f"L0 H{labelled[0]}")).to_be_visible()
    wait_idle(page)
    page.get_by_role("radio", name=f"L0 H{labelled[-1]}", exact=True).click()
    expect(heading(page, f"L0 H{labelled[-1]}")).to_be_visible()
