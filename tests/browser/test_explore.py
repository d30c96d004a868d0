"""The Explore page as a person uses it, in a real Chromium."""

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from PIL import Image
from playwright.sync_api import expect
from safetensors import safe_open

import mha_viz as mv
from mha_viz.ui.state.views import SHOWS
from mha_viz.web.theme import format_weight
from tests.browser.canvas import point_at
from tests.browser.idle import run_asked_for
from tests.browser.workbench_page import (
    choose_folder,
    chosen_head,
    copy_tokenizer,
    grid,
    name_of,
    type_text,
)

TEXT = "The old dog slept while the young cat watched the birds."


@pytest.mark.journey
def test_a_sentence_is_drawn_for_every_head(open_page, wait_idle):
    page = open_page()
    type_text(page, TEXT)
    wait_idle(page)
    n = len(mv.load("tiny-bert").trace(TEXT).tokens)
    expect(page.get_by_text(f"4 layers × 8 heads · {n} tokens")).to_be_visible()
    shot = Image.open(_bytes(grid(page).screenshot())).convert("RGB")
    assert (
        len(shot.resize((200, 100)).getcolors(maxcolors=20_000)) > 50
    )  # a blank canvas has one colour
    assert parse_qs(urlsplit(page.url).query)["text"] == [TEXT]


@pytest.mark.journey
def test_a_link_opens_on_the_same_view_in_a_fresh_browser(open_page):
    query = "/?model=tiny-gpt2&text=one+two+one+two&layer=2&head=5&show=table&scale=log&words=1"
    page = open_page(query)
    expect(name_of(page)).to_have_text("L2 H5")
    expect(page.get_by_role("radio", name="Top pairs")).to_be_checked()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value("one two one two")
    again = open_page("/?" + urlsplit(page.url).query)
    assert parse_qs(urlsplit(again.url).query) == parse_qs(urlsplit(page.url).query)
    expect(name_of(again)).to_have_text("L2 H5")
    expect(again.get_by_role("radio", name="Log")).to_be_checked()
    expect(again.get_by_role("checkbox", name="Whole words")).to_be_checked()


@pytest.mark.journey
def test_clicking_and_keys_choose_a_head(open_page, wait_idle):
    page = open_page()
    canvas = grid(page)
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 0.93, "y": box["height"] * 0.85})
    expect(name_of(page)).to_have_text("L3 H7")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(name_of(page)).to_have_text("L3 H6")
    expect(page).to_have_url(re.compile("layer=3&head=6"))


@pytest.mark.journey
def test_hovering_the_grid_shows_the_exact_weight(open_page):
    page = open_page(f"/?text={TEXT}")
    page.locator(".head-grid[data-painted]").wait_for()
    expect(chosen_head(page)).to_have_attribute("data-exact", "true")
    record = mv.load("tiny-bert").trace(TEXT)
    for layer, head, query, key in ((1, 2, 3, 5), (3, 7, 13, 1)):
        point_at(page, layer, head, query, key, n=len(record.tokens))
        tip = page.locator(".head-grid .tip")
        expect(tip.locator(".tip-title b")).to_have_text(f"L{layer} H{head}")
        expect(tip.locator(".weight")).to_have_text(
            format_weight(record.pattern[layer, head, query, key])
        )
        shown = tip.locator(".token").all_text_contents()
        assert shown == [record.labels[query], record.labels[key]]


@pytest.mark.journey
def test_the_exact_chart_holds_the_exact_weights(open_page):
    page = open_page(f"/?text={TEXT}&layer=1&head=2&show=plotly")
    plot = page.locator(".js-plotly-plot").first
    expect(plot).to_be_visible()
    drawn = plot.evaluate(
        "p => { const t = p._fullData.find(t => t.type === 'heatmap');"
        " return Array.from(t.z, r => Array.from(r)); }"
    )
    weights = mv.load("tiny-bert").trace(TEXT).head(1, 2)
    assert len(drawn) == weights.shape[0]
    assert (
        max(
            abs(a - b)
            for r, s in zip(drawn, weights.tolist(), strict=True)
            for a, b in zip(r, s, strict=True)
        )
        < 1e-6
    )


@pytest.mark.parametrize(
    "look",
    [
        {},
        {"color_scheme": "dark"},
        {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    ],
    ids=["light", "dark", "phone"],
)
def test_every_picture_in_light_dark_and_on_a_phone(open_page, wait_idle, look):
    page = open_page(f"/?text={TEXT}&layer=0&head=0&show={list(SHOWS)[-1]}", **look)
    for show, name in SHOWS.items():
        page.get_by_role("radio", name=name, exact=True).click()
        wait_idle(page)
        page.wait_for_url(lambda url, show=show: _asked(url).get("show", ["heatmap"]) == [show])
        expect(name_of(page)).to_have_text("L0 H0")
        expect(page.locator(PICTURES[show]).first).to_be_visible()
        assert page.get_by_test_id("stAlert").count() == 0, show
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, show


@pytest.mark.extended
@pytest.mark.journey
def test_exports_open(open_page, wait_idle, tmp_path):
    page = open_page(f"/?text={TEXT}&layer=1&head=2")
    expect(chosen_head(page)).to_have_attribute("data-exact", "true")  # nothing moves after this
    page.get_by_role("button", name="Export").first.click()
    files = {}
    for label in (
        "Head as PNG",
        "Head as SVG",
        "Head as CSV",
        "Head as HTML",
        "All heads as HTML",
        "Record file",
    ):
        with page.expect_download() as download:
            page.get_by_role("button", name=label).click()
        files[label] = tmp_path / download.value.suggested_filename
        download.value.save_as(files[label])
    assert Image.open(files["Head as PNG"]).width > 300
    for label in ("Head as SVG", "Head as CSV", "Head as HTML"):
        text = files[label].read_text()
        assert "L1 H2" in text and "tiny-bert" in text and "young cat" in text, label
    offline = page.context.new_page()
    offline.goto(files["All heads as HTML"].as_uri())
    expect(offline.locator("canvas.cells")).to_be_visible()
    expect(offline.get_by_text("All heads of tiny-bert")).to_be_visible()
    expect(offline.get_by_text(TEXT).first).to_be_visible()
    record = mv.AttentionRecord.load(files["Record file"])
    traced = mv.load("tiny-bert").trace(TEXT)
    assert record.text == TEXT and record.tokens == traced.tokens
    assert (record.pattern - traced.pattern).abs().max() < 1e-6
    with safe_open(files["Record file"], "pt") as file:
        assert json.loads(file.metadata()["record"])["model"] == "tiny-bert"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_words_of_the_card_are_seen_whole_and_its_numbers_taken_away(
    open_page, wait_idle, tmp_path, width
):
    page = open_page(f"/?text={TEXT}&layer=1&head=2", viewport={"width": width, "height": 844})
    expect(page.locator(".heat[data-painted]")).to_be_visible()  # after that nothing below it moves
    page.get_by_text("All about this head").click()
    wait_idle(page)
    page.get_by_role("button", name="Export").nth(1).click()  # the first is the grid's
    as_table = page.get_by_role("button", name="CSV", exact=True)
    expect(as_table).to_be_in_viewport(ratio=1)  # the menu opens above where there is no room below
    with page.expect_download() as download:
        as_table.click()
    download.value.save_as(tmp_path / "card.csv")
    text = (tmp_path / "card.csv").read_text()
    assert "# Card of L1 H2" in text and TEXT in text and "The largest attention weight" in text
    page.keyboard.press("Escape")
    page.get_by_text("In numbers and words", exact=True).click()
    wait_idle(page)
    meaning = page.get_by_text(re.compile("How undecided the head is .* over the text"))
    expect(meaning).to_be_visible()
    box = meaning.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width


# Where each picture is; what the browser does not draw comes from the server.
PICTURES = {
    "heatmap": ".heat-cells",
    "lines": ".token-lines canvas",
    "table": ".pairs td",
    "carried": ".js-plotly-plot",
    "pair": ".js-plotly-plot",
    "plotly": ".js-plotly-plot",
}


def test_two_people_do_not_disturb_each_other(open_page, wait_idle):
    first, second = open_page(), open_page("/?model=tiny-gpt2")
    type_text(first, "a red fox")
    type_text(second, "two green birds sang in the tall tree")
    wait_idle(first)
    wait_idle(second)
    expect(first.get_by_label("Sentence", exact=True)).to_have_value("a red fox")
    assert "model=tiny-bert" in first.url and "model=tiny-gpt2" in second.url
    n = len(mv.load("tiny-bert").trace("a red fox").tokens)
    expect(first.get_by_text(f"{n} tokens").first).to_be_visible()


@pytest.fixture(scope="module")
def deep_model(tmp_path_factory):
    """A model that takes a while: 100 small layers."""
    import transformers as tf

    folder = tmp_path_factory.mktemp("deep")
    copy_tokenizer("tiny-bert", folder)
    config = tf.BertConfig(
        vocab_size=4096,
        hidden_size=34,
        num_hidden_layers=100,
        num_attention_heads=2,
        intermediate_size=23,
        max_position_embeddings=128,
    )
    tf.BertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.mark.extended
@pytest.mark.journey
def test_a_newer_text_overtakes_the_one_that_runs(open_page, wait_idle, deep_model):
    page = open_page()
    choose_folder(page, deep_model)
    expect(page.get_by_text("100 layers × 2 heads")).to_be_visible(timeout=400_000)
    for number in range(2):
        with run_asked_for(page):
            type_text(page, f"number {number} " + "and so on " * 40)
    type_text(page, "a red fox")
    n = len(mv.load("tiny-bert").trace("a red fox").tokens)
    expect(page.get_by_text(f"100 layers × 2 heads · {n} tokens")).to_be_visible(timeout=400_000)
    wait_idle(page)
    expect(page.get_by_label("Sentence", exact=True)).to_have_value("a red fox")
    assert page.get_by_test_id("stException").count() == 0


def test_the_share_of_the_lines_goes_into_the_link(open_page):
    page = open_page(f"/?text={TEXT}&show=lines&mass=0.5")
    slider = page.locator("input[type=range]")
    expect(slider).to_have_value("50")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("mass=0.51"))
    expect(slider).to_have_value("51")


@pytest.mark.journey
def test_all_of_it_works_from_the_keyboard(open_page, wait_idle):
    page = open_page()
    box = page.get_by_label("Sentence", exact=True)
    box.focus()
    for _ in range(40):  # Tab leads from the sentence to the grid
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == "grid of attention heads":
            break
    assert page.evaluate(FOCUSED) == "grid of attention heads"
    page.keyboard.press("Control+Home")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(name_of(page)).to_have_text("L1 H2")
    wait_idle(page)
    # The run has not taken the focus away.
    assert page.evaluate(FOCUSED) == "grid of attention heads"
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(name_of(page)).to_have_text("L1 H7")
    for _ in range(60):  # and on to the picture of the head
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == "heatmap":
            break
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):  # the first key shows where it is
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile("query=1&key=1"))


# What the role has the focus, through the shadow roots that components live in.
FOCUSED = """() => {
  let e = document.activeElement;
  while (e && e.shadowRoot && e.shadowRoot.activeElement) e = e.shadowRoot.activeElement;
  return e && e.getAttribute('aria-roledescription');
}"""


def _asked(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)


def _bytes(data: bytes):
    from io import BytesIO

    return BytesIO(data)
