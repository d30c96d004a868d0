"""The Heads page as a person uses it, in a real Chromium."""

import json
from urllib.parse import urlsplit

import pytest
from PIL import Image
from playwright.sync_api import Page, expect
from safetensors import safe_open

import mha_viz as mv
from mha_viz.ui.state.views import SHOWS
from mha_viz.web.theme import format_number, format_weight
from tests.browser.canvas import pixels, point_at, tile_box
from tests.browser.compare_page import query
from tests.browser.ready import next_run, wait_ready
from tests.browser.workbench_page import (
    PHONE,
    TEXT,
    cell,
    chosen_head,
    click_head,
    name_of,
    type_text,
)

PICTURES = {
    "heatmap": ".heat[data-painted] .heat-cells",
    "lines": ".token-lines[data-painted] canvas",
    "table": ".pairs td",
    "numbers": ".numbers[data-painted]:not([data-painted='']) .metrics td",
}
# The role that has the focus, through the shadow roots that components live in.
FOCUSED = """() => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  return element?.getAttribute("aria-roledescription");
}"""


def traced() -> mv.AttentionRecord:
    return mv.load("tiny-bert").trace(TEXT)


@pytest.mark.journey
def test_heads_from_a_sentence_to_the_exact_weight_of_a_cell_and_its_link(open_page) -> None:
    page = open_page()
    with next_run(page):
        type_text(page, TEXT)
    record = traced()
    n = len(record.tokens)
    painted, box = (
        pixels(page, ".head-grid .cells"),
        page.locator(".head-grid .cells").bounding_box(),
    )
    for layer, head in ((0, 0), (0, 7), (2, 3), (3, 0), (3, 7)):
        tile = tile_box(page, layer, head)
        left, top, side = (int(tile[at] - box.get(at, 0)) for at in ("x", "y", "side"))
        colours = painted[top : top + side, left : left + side].reshape(-1, 4)
        assert len({colour.tobytes() for colour in colours}) > 9, (layer, head)
    click_head(page, 3, 7)
    expect(name_of(page)).to_have_text("L3 H7")
    expect(chosen_head(page)).to_have_attribute("data-exact", "true")
    point_at(page, 1, 2, 3, 5, n)
    tip = page.locator(".head-grid .tip")
    expect(tip.locator(".tip-title b")).to_have_text("L1 H2")
    expect(tip.locator(".weight")).to_have_text(format_weight(record.pattern[1, 2, 3, 5]))
    page.mouse.move(*cell(page, 9, 2, n))
    tip = page.locator(".heat .tip")
    expect(tip.locator(".weight")).to_have_text(format_weight(record.pattern[3, 7, 9, 2]))
    wait_ready(page)
    shown = {"text": TEXT, "layer": "3", "head": "7"}
    assert shown.items() <= query(page).items()
    friend = open_page("/?" + urlsplit(page.url).query)
    assert query(friend) == query(page)
    expect(name_of(friend)).to_have_text("L3 H7")
    expect(friend.get_by_label("Sentence", exact=True)).to_have_value(TEXT)


def show_each_picture(page: Page) -> None:
    """Choose each picture of the head, the last one being shown, and expect it to be drawn."""
    for show, name in SHOWS.items():
        page.get_by_role("radio", name=name, exact=True).click()
        expect(page.locator(PICTURES[show]).first).to_be_visible()
        wait_ready(page)
        assert query(page).get("show", "heatmap") == show
        expect(page.get_by_test_id("stAlert")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), show
        above, picture = (
            page.locator(part).first.bounding_box() for part in (".sentence", PICTURES[show])
        )
        assert picture["y"] - above["y"] - above["height"] < 300, show  # titles and menus at most


@pytest.mark.journey
def test_the_score_of_a_clicked_cell_is_explained_in_heads_and_in_why_and_back(open_page) -> None:
    page = open_page(f"/?text={TEXT}&layer=1&head=2")
    record = mv.load("tiny-bert").trace(TEXT, keep=("pattern", "query", "key"))
    with next_run(page):
        page.mouse.click(*cell(page, 4, 2, len(record.tokens)))
    expect(page.locator(".score-view")).to_have_attribute("data-pair", "4 2")
    product = record.query[1, 2, 4].double() @ record.key[1, 2, 2].double()
    numbers = page.locator(".score-view .sum b").all_inner_texts()
    sums = (product, record.scale[1], product * record.scale[1])
    weight = format_weight(float(record.pattern[1, 2, 4, 2]))
    assert numbers == [*(format_number(float(number)) for number in sums), weight]
    expect(page.locator(".score-rows tr.marked")).to_have_attribute("data-key", "2")
    chosen = {"layer": "1", "head": "2", "query": "4", "key": "2"}
    with next_run(page):
        page.get_by_role("button", name="Why this head looks there").click()
    one, other = (record.labels[at] for at in (4, 2))
    expect(page.get_by_text(f"the score of L1 H2 from “{one}” to “{other}”")).to_be_visible()
    assert (chosen | {"why": "score"}).items() <= query(page).items()
    with next_run(page):
        page.get_by_role("button", name="Open in Heads").click()
    expect(page.locator(".score-view")).to_have_attribute("data-pair", "4 2")
    assert chosen.items() <= query(page).items()


@pytest.mark.parametrize("look", [{"color_scheme": "dark"}, PHONE], ids=["dark", "phone"])
def test_pictures_of_a_head_in_dark_and_on_a_phone_are_drawn(open_page, look) -> None:
    show_each_picture(open_page(f"/?text={TEXT}&layer=0&head=0&show={list(SHOWS)[-1]}", **look))


@pytest.mark.journey
def test_heads_from_the_keyboard_leads_from_the_sentence_to_a_cell(open_page) -> None:
    page = open_page()
    page.get_by_label("Sentence", exact=True).focus()
    tab_to(page, "grid of attention heads")
    for key in ("Control+Home", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(name_of(page)).to_have_text("L1 H2")
    wait_ready(page)
    assert page.evaluate(FOCUSED) == "grid of attention heads"  # a run does not take the focus
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(name_of(page)).to_have_text("L1 H7")
    tab_to(page, "heatmap")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):  # the first one shows the cell
        page.keyboard.press(key)
    wait_ready(page)
    chosen = {"layer": "1", "head": "7", "query": "1", "key": "1"}
    assert chosen.items() <= query(page).items()


def tab_to(page: Page, role: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == role:
            return
    pytest.fail(f"Tab does not lead to the {role}")


def show_values_in_the_heatmap(page: Page) -> None:
    """Switch the heatmap to weights times values and back, and read one cell of each."""
    record = mv.load("tiny-bert").trace(TEXT, keep=("pattern", "value"))
    page.get_by_role("radio", name="Heatmap", exact=True).click()
    wait_ready(page)
    carried = record.head(1, 2)[4] * (record.value[1, 2] @ record.W_O[1][2]).norm(dim=-1)
    for name, number in (
        ("Weight × value", carried[2] / carried.sum()),
        ("Weight", record.head(1, 2)[4, 2]),
    ):
        page.get_by_role("radio", name=name, exact=True).click()
        wait_ready(page)
        assert query(page).get("weighted", "0") == str(int("value" in name))
        page.mouse.move(*cell(page, 4, 2, len(record.tokens)))
        expect(page.locator(".heat .tip .weight")).to_have_text(format_weight(float(number)))


@pytest.mark.journey
def test_each_picture_of_a_head_is_drawn_in_its_room_and_is_exported(open_page, tmp_path) -> None:
    page = open_page(f"/?text={TEXT}&layer=1&head=2&show={list(SHOWS)[-1]}")
    below = page.locator(".score-view")
    top = below.bounding_box()["y"]
    show_each_picture(page)
    assert below.bounding_box()["y"] == top
    assert page.locator(".js-plotly-plot").count() == 0
    show_values_in_the_heatmap(page)
    page.get_by_role("button", name="Export").first.click()
    files = {}
    for label in (
        *("PNG", "SVG", "PDF", "Head as CSV"),
        *("Head as HTML", "All heads as HTML", "Record file"),
    ):
        with page.expect_download() as download:
            page.get_by_role("button", name=label, exact=True).click()
        files[label] = tmp_path / download.value.suggested_filename
        download.value.save_as(files[label])
    assert Image.open(files["PNG"]).width > 300 and files["PDF"].read_bytes().startswith(b"%PDF")
    for label in ("SVG", "Head as CSV", "Head as HTML"):
        text = files[label].read_text()
        assert "L1 H2" in text and "tiny-bert" in text and "young cat" in text, label
    offline = page.context.new_page()
    offline.goto(files["All heads as HTML"].as_uri())
    expect(offline.locator(".head-grid[data-painted]")).to_be_visible()
    expect(offline.get_by_text(TEXT).first).to_be_visible()
    record = mv.AttentionRecord.load(files["Record file"])
    assert record.text == TEXT and record.tokens == traced().tokens
    assert (record.pattern - traced().pattern).abs().max() < 1e-6
    with safe_open(files["Record file"], "pt") as file:
        assert json.loads(file.metadata()["record"])["model"] == "tiny-bert"


def test_two_visitors_see_their_own_models_and_texts(open_page) -> None:
    first, second = open_page(), open_page("/?model=tiny-gpt2")
    type_text(first, "a red fox")
    type_text(second, "two green birds sang in the tall tree")
    for page, model, text in (
        (first, "tiny-bert", "a red fox"),
        (second, "tiny-gpt2", "two green birds sang in the tall tree"),
    ):
        n = len(mv.load(model).trace(text).tokens)
        expect(page.get_by_text(f"{n} tokens").first).to_be_visible()
        expect(page.get_by_label("Sentence", exact=True)).to_have_value(text)
        wait_ready(page)
        assert query(page)["text"] == text
