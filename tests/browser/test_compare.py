"""The Compare page as a person uses it, in a real Chromium."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

import mha_viz as mv
from mha_viz.ui.state.link_values import Pin, written
from mha_viz.ui.state.views import SECTIONS
from tests.browser.compare_page import (
    LINK,
    PHONE,
    TEXT,
    bottom,
    click_cell,
    click_dot,
    heading,
    plot,
    query,
    rows_of,
    tick,
    ticked,
)
from tests.browser.idle import wait_until
from tests.making.comparing import near

PINS = Pin("tiny-bert", TEXT, "", "self", 0, 2), Pin("tiny-gpt2", "Two cats.", "", "self", 1, 3)
LAPTOP = {"width": 1280, "height": 900}


@pytest.mark.parametrize(
    "look", [{}, {"color_scheme": "dark"}, PHONE], ids=["light", "dark", "phone"]
)
def test_every_section_in_light_dark_and_on_a_phone(open_page, wait_idle, look):
    page = open_page(f"{LINK}flow&pins={written(PINS)}", **look)
    for section, name in (SECTIONS | {"pins": "Pins (2)"}).items():
        page.get_by_role("radio", name=name, exact=True).click()
        wait_idle(page)
        plot(page)
        assert query(page).get("section", "layers") == section
        assert page.get_by_test_id("stAlert").count() == 0, section
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, section
        for figure in page.locator(".js-plotly-plot").all():
            inside = figure.bounding_box()
            assert inside["width"] > 150 and inside["x"] >= 0, section
        assert query(page)["text"] == TEXT


def test_a_phone_gets_a_heatmap_of_its_own_size(open_page):
    agent = "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/130.0 Mobile Safari/537.36"
    page = open_page(LINK + "layers", **PHONE, user_agent=agent)
    assert plot(page, 1).bounding_box()["height"] < 520
    assert page.locator(".modebar-container:visible").count() == 0


ANSWERS = {
    "layers": "Most",
    "twins": "More alike than chance",
    "alike": "Same attention, different output",
    "sides&text_b=The young cat slept.": "Which heads changed most",
    "diversity": "Textbook statements, measured:",
    "flow": "most comes from",
}


def _pair_of(page: Page, head: str) -> Locator:
    """The heading of a head beside its nearest twin."""
    return page.get_by_role("heading", name=re.compile(f"^{head} and L"))


@pytest.mark.parametrize("section", ANSWERS)
def test_the_answer_is_on_the_first_screen(open_page, section):
    page = open_page(LINK + section, viewport={"width": 1280, "height": 720})
    plot(page)
    answer = page.get_by_text(ANSWERS[section]).first
    assert bottom(answer) < 560  # chips stand below it
    if section == "twins":
        assert bottom(_pair_of(page, "L0 H0")) < 720
        for number in (1, 2):  # the chosen pair, beside the matrix
            area = plot(page, number).locator(".nsewdrag").first.bounding_box()
            assert area["y"] + area["height"] / 4 < 720


@pytest.mark.parametrize("section", ["twins", "sides", "flow"])
@pytest.mark.parametrize("width", [390, 700, 1280])
def test_cells_are_squares_with_nothing_blank_below(open_page, section, width):
    page = open_page(LINK + section, viewport={"width": width, "height": 900})
    plot(page)
    for figure in page.locator(".js-plotly-plot:has(.heatmaplayer image)").all():
        area = figure.locator(".nsewdrag").first.bounding_box()
        assert area["width"] == pytest.approx(area["height"], rel=0.02)
        whole = figure.bounding_box()
        below = whole["y"] + whole["height"] - area["y"] - area["height"]
        assert below < 90, figure.inner_text()[:60]  # names of columns, where they stand below


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_is_at_most_three_screens_tall(open_page, wait_idle, section):
    more = {"sides": "&text_b=The young cat slept.", "pins": f"&pins={written(PINS)}"}.get(
        section, ""
    )
    page = open_page(f"/compare?model=tiny-gpt2&section={section}{more}", viewport=LAPTOP)
    plot(page)
    wait_idle(page)
    wait_until(page, "() => !document.querySelector('[data-testid=stSpinner]')")
    assert page.get_by_test_id("stMainBlockContainer").bounding_box()["height"] <= 3 * 900


@pytest.mark.extended
@pytest.mark.journey
def test_a_click_in_the_matrix_opens_the_pair(open_page, wait_idle):
    page = open_page(LINK + "twins")
    click_cell(page, (3 * 8 + 1, 8 + 6), of=32)
    expect(heading(page, "L3 H1 and L1 H6")).to_be_visible()
    expect(page).to_have_url(re.compile("head=1&layer_b=1&head_b=6&section=twins"))
    wait_idle(page)
    page.get_by_text("All measures between them").click()
    hellinger = page.get_by_test_id("stTable").filter(has_text="Hellinger distance")
    between = hellinger.inner_text()
    record = mv.load("tiny-bert").trace(TEXT)
    distance = float(mv.head_similarity(record, "hellinger")[25, 14])
    assert f"{distance:.4g}" in between
    again = open_page("/compare?" + urlsplit(page.url).query)
    expect(heading(again, "L3 H1 and L1 H6")).to_be_visible()
    again.get_by_text("All measures between them").click()
    hellinger = again.get_by_test_id("stTable").filter(has_text="Hellinger distance")
    assert hellinger.inner_text() == between
    assert query(again) == query(page)


def test_a_click_on_the_map_chooses_a_head(open_page, wait_idle):
    page = open_page(LINK + "twins")
    expect(page.locator(".js-plotly-plot")).to_have_count(6)  # matrix, the pair, map, two more
    places = plot(page, 3).evaluate("p => p.data[0].customdata.map(c => Array.from(c))")
    click_dot(page, places.index([3, 4]), figure=3)
    expect(page).to_have_url(re.compile("layer=3&head=4"))
    expect(_pair_of(page, "L3 H4")).to_be_visible()


def test_a_row_of_the_nearest_twins_opens_the_pair(open_page, wait_idle):
    page = open_page(LINK + "twins&measure=cka")
    tick(page, 0)
    expect(page).to_have_url(re.compile("layer_b"))
    record = mv.load("tiny-bert").trace(TEXT)
    likeness = mv.head_similarity(record, "cka").fill_diagonal_(0)
    asked = {name: int(query(page).get(name, 0)) for name in ("layer", "head", "layer_b", "head_b")}
    found = likeness[asked["layer"] * 8 + asked["head"], asked["layer_b"] * 8 + asked["head_b"]]
    assert float(found) == near(float(likeness.max()))
    names = [f"L{asked['layer' + end]} H{asked['head' + end]}" for end in ("", "_b")]
    expect(heading(page, " and ".join(names))).to_be_visible()
    wait_idle(page)
    assert ticked(page) == [0]
    click_cell(page, (25, 5), of=32)
    expect(heading(page, "L3 H1 and L0 H5")).to_be_visible()
    wait_idle(page)
    assert ticked(page) == []  # the tick would mark a pair that is not the chosen one


def test_ticks_of_two_tables_mark_the_chosen_pair_only(open_page, wait_idle):
    text = "The keys to the cabinet are on the table, and the cabinet is in the old house"
    link = text.replace(" ", "+") + "+by+the+river."  # it has odd pairs of both kinds
    page = open_page(f"/compare?section=alike&text={link}")
    plot(page)
    for table, row in ((0, 2), (1, 1), (1, 3), (0, 0)):
        tick(page, row, table)
        wait_idle(page)
        assert (ticked(page, table), ticked(page, 1 - table)) == ([row], [])
    chosen = page.get_by_role("heading", name=" and ").inner_text()
    page.get_by_text("redundancy R of outputs", exact=True).click()
    expect(page).to_have_url(re.compile("outputs=redundancy"))
    wait_idle(page)
    expect(heading(page, chosen)).to_be_visible()
    for table in range(page.get_by_test_id("stDataFrame").count()):
        rows = rows_of(page, table)
        for row in ticked(page, table):
            assert " and ".join(rows[row][:2]) == chosen


def test_a_click_on_a_pair_opens_it(open_page):
    page = open_page(LINK + "alike")
    i, j = plot(page).evaluate("p => Array.from(p._fullData[0].customdata[100])")
    click_dot(page, 100)
    names = [f"L{k // 8} H{k % 8}" for k in (i, j)]
    expect(heading(page, " and ".join(names))).to_be_visible()
    expect(page).to_have_url(re.compile(f"layer_b={j // 8}"))


def test_a_click_on_what_changed_most_chooses_it_on_both_sides(open_page):
    page = open_page(LINK + "sides&text_b=The young cat slept.")
    area = plot(page, 3).locator(".nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    area.click(position={"x": box["width"] * 6.5 / 8, "y": box["height"] * 2.5 / 4})
    expect(heading(page, "L2 H6 and L2 H6")).to_be_visible()
    expect(page).to_have_url(re.compile("layer=2&head=6.*layer_b=2&head_b=6"))


@pytest.mark.extended
@pytest.mark.journey
def test_navigation_keeps_text_model_and_head(open_page, wait_idle):
    page = open_page(f"/?model=tiny-gpt2&text={TEXT}&layer=2&head=5")
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", name="Compare heads")).to_be_visible()
    wait_idle(page)
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(TEXT)
    expect(heading(page, "L2 H5")).to_be_visible()
    expect(page).to_have_url(re.compile("/compare.*model=tiny-gpt2.*layer=2&head=5"))
    page.get_by_role("link", name="Explore").click()
    expect(page.get_by_role("heading", name="Every attention head")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/\?model=tiny-gpt2.*layer=2&head=5"))


@pytest.mark.extended
@pytest.mark.journey
def test_back_and_forward_go_through_what_was_chosen(open_page, wait_idle, go_back):
    page = open_page(f"/?text={TEXT}&layer=0&head=0")
    first, box = page.url, page.get_by_label("Sentence", exact=True)
    box.fill("a red fox")
    box.press("Enter")
    expect(page).to_have_url(re.compile("red"))
    wait_idle(page)
    page.get_by_role("link", name="Compare").click()
    expect(page).to_have_url(re.compile("/compare.*red"))
    wait_idle(page)
    page.get_by_text("Twins", exact=True).click()
    expect(page).to_have_url(re.compile("section=twins"))
    wait_idle(page)
    click_cell(page, (10, 20), of=32)
    expect(heading(page, "L1 H2 and L2 H4")).to_be_visible()
    go_back(page)
    expect(_pair_of(page, "L0 H0")).to_be_visible()
    go_back(page)
    expect(heading(page, "L0 H0")).to_be_visible()  # across layers
    wait_idle(page)
    page.go_forward()
    page.go_forward()
    expect(heading(page, "L1 H2 and L2 H4")).to_be_visible()
    wait_idle(page)
    while page.url != first:
        go_back(page)
    wait_idle(page)
    expect(box).to_have_value(TEXT)
    expect(page.get_by_role("heading", name="Every attention head")).to_be_visible()


def test_choices_made_while_the_page_works_are_not_lost(open_page, wait_idle):
    page = open_page("/compare")
    box = page.get_by_label("Sentence", exact=True)
    for number, section in enumerate(("Twins", "Side by side", "Diversity", "Twins")):
        box.fill(f"a red fox and {number} cats")
        box.press("Enter")
        page.get_by_role("radio", name=section).click()  # overtakes the run of the text
    page.get_by_text("By likeness", exact=True).click()
    wait_idle(page)
    expect(page).to_have_url(re.compile("3\\+cats.*section=twins&order=cluster"))
    wait_idle(page)
    expect(box).to_have_value("a red fox and 3 cats")
    expect(page.get_by_role("radio", name="Twins")).to_be_checked()


@pytest.mark.extended
@pytest.mark.journey
def test_sections_and_heads_from_the_keyboard(open_page, wait_idle):
    page = open_page(LINK + "layers")
    chosen = page.get_by_role("radio", name="Across layers")
    chosen.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("section=twins"))
    wait_idle(page)
    first = page.get_by_role("combobox", name="First layer")
    first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("layer=[12]"))
    wait_idle(page)
    page.get_by_role("tab", name="Nearest twins").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Clusters")).to_have_attribute("aria-selected", "true")


@pytest.mark.extended
@pytest.mark.journey
def test_exports_open(open_page, wait_idle, tmp_path: Path):
    page = open_page(LINK + "twins&order=cluster")
    plot(page)
    page.get_by_role("button", name="Export").first.click()
    wait_idle(page)
    page.get_by_role("button", name="HTML", exact=True).wait_for()
    files = {}
    for label in ("PNG", "SVG", "CSV", "HTML"):
        with page.expect_download() as started:
            page.get_by_role("button", name=label, exact=True).click()
        files[label] = tmp_path / started.value.suggested_filename
        started.value.save_as(files[label])
    assert files["CSV"].name == "Hellinger_distance_of_heads.csv"
    assert Image.open(files["PNG"]).width == 2000
    for label in ("SVG", "CSV", "HTML"):
        text = files[label].read_text()
        assert "Hellinger distance" in text and "tiny-bert" in text and "young cat" in text, label
    table = pd.read_csv(files["CSV"], comment="#", index_col="Head")
    expected = mv.head_similarity(mv.load("tiny-bert").trace(TEXT), "hellinger")
    assert abs(table.to_numpy() - expected.numpy()).max() < 1e-5
    asked: list[str] = []
    offline = page.context.new_page()
    offline.on("request", lambda request: asked.append(request.url))
    offline.goto(files["HTML"].as_uri())
    offline.locator(".js-plotly-plot").wait_for()
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]


def test_two_people_compare_two_things(open_page, wait_idle):
    first, second = open_page(LINK + "twins"), open_page(LINK + "twins&model=tiny-gpt2")
    click_cell(first, (3, 9), of=32)
    click_cell(second, (30, 2), of=32)
    expect(heading(first, "L0 H3 and L1 H1")).to_be_visible()
    expect(heading(second, "L3 H6 and L0 H2")).to_be_visible()
    wait_idle(first)
    assert "layer=3" not in first.url and "model=tiny-gpt2" in second.url
