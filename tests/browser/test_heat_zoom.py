"""The heatmap as a map, with its server: the link, Back, and exact weights of parts of long texts.

What is drawn with each step is tried in test_heat_zoom.js of tests/web.
"""

import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

import mha_viz as mv
from mha_viz.web.theme import format_weight
from tests.browser.compare_page import query
from tests.browser.workbench_page import (
    cell,
    choose_folder,
    click_head,
    copy_tokenizer,
    name_of,
    type_text,
    word,
)

TEXT = "The old dog slept while the young cat watched the birds."
LINK = f"/?text={TEXT}&layer=1&head=2"
LONG = " ".join(["the dog and the cat ran over the green hill to the old man"] * 20)


def heat(page: Page) -> Locator:
    return page.locator(".heat[data-part]")


def shows(page: Page, *part: int) -> None:
    """Expect the first row and column of what is shown, and how many."""
    expect(heat(page)).to_have_attribute("data-part", " ".join(map(str, part)))


@pytest.mark.journey
def test_the_part_that_is_shown_is_in_the_link_and_back_leads_to_the_one_before(
    open_page, wait_idle, go_back
):
    page = open_page(LINK)
    n = len(mv.load("tiny-bert").trace(TEXT).tokens)
    shows(page, 0, 0, n, n)
    page.mouse.move(*cell(page, 6, 4, n))
    for _ in range(4):
        page.mouse.wheel(0, -200)
    expect(page).to_have_url(re.compile("window="))
    wait_idle(page)
    zoomed = heat(page).get_attribute("data-part")
    top, left, rows, columns = map(int, zoomed.split())
    assert rows < n and top <= 6 < top + rows and left <= 4 < left + columns
    assert query(page)["window"] == f"{top}.{top + rows - 1},{left}.{left + columns - 1}"
    word(page, 3).hover()
    page.mouse.down()
    word(page, 5).hover()
    word(page, 8).hover()
    page.mouse.up()
    shows(page, 3, 3, 6, 6)
    expect(page).to_have_url(re.compile("window=3.8"))
    go_back(page)
    expect(heat(page)).to_have_attribute("data-part", zoomed)
    go_back(page)
    shows(page, 0, 0, n, n)
    wait_idle(page)
    page.go_forward()
    expect(heat(page)).to_have_attribute("data-part", zoomed)


def test_a_link_that_names_no_part_shows_all_and_says_so(open_page):
    page = open_page(f"{LINK}&window=8.3,0.5")
    expect(page.get_by_text("is not valid and was ignored")).to_be_visible()
    n = len(mv.load("tiny-bert").trace(TEXT).tokens)
    shows(page, 0, 0, n, n)


@pytest.fixture(scope="module")
def long_model(tmp_path_factory):
    """A small model with random weights that reads 512 tokens."""
    import transformers as tf

    folder = tmp_path_factory.mktemp("long")
    copy_tokenizer("tiny-gpt2", folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": 512}))
    sizes = dict(vocab_size=4096, n_positions=512, n_embd=32, n_layer=2, n_head=2)
    ends = dict(bos_token_id=0, eos_token_id=0)
    tf.GPT2LMHeadModel(tf.GPT2Config(**sizes, **ends, initializer_range=0.5)).save_pretrained(
        folder
    )
    return folder


@pytest.mark.extended
@pytest.mark.journey
def test_the_exact_weights_of_a_part_of_a_long_text_come(open_page, wait_idle, long_model):
    record = mv.load(str(long_model)).trace(LONG)
    page = open_page()
    choose_folder(page, long_model)
    expect(page.get_by_text(re.compile("2 layers × 2 heads")).first).to_be_visible(timeout=100_000)
    type_text(page, LONG)
    n = len(record.tokens)
    expect(page.get_by_text(f"2 layers × 2 heads · {n} tokens")).to_be_visible(timeout=100_000)
    page.locator(".heat-over").focus()
    for _ in range(8):
        page.keyboard.press("+")
    page.keyboard.press("Shift+ArrowLeft")
    expect(page).to_have_url(re.compile("window="))
    wait_idle(page)
    for layer, head in ((0, 0), (1, 0)):  # the second one's weights are here as parts only
        click_head(page, layer, head, of=(2, 2))
        expect(name_of(page)).to_have_text(f"L{layer} H{head}")
        expect(heat(page)).to_have_attribute("data-pooled", "false")
        top, left, rows, columns = map(int, heat(page).get_attribute("data-part").split())
        assert (rows, columns) == (4, 4) and left < top
        page.mouse.move(*cell(page, 1, 2, rows))
        weight = record.head(layer, head)[top + 1, left + 2]
        tip = page.locator(".heat .tip .weight")
        expect(tip).to_have_text(format_weight(weight))


@pytest.mark.extended
@pytest.mark.journey
def test_exact_weights_do_not_wait_for_the_report_of_choices(open_page, wait_idle, long_model):
    """The page hears of a choice later, and draws all heads anew: here it never hears of one."""
    page = open_page()
    choose_folder(page, long_model)
    expect(page.get_by_text(re.compile("2 layers × 2 heads")).first).to_be_visible(timeout=100_000)
    type_text(page, LONG + " and home")
    expect(page.get_by_text("2 layers × 2 heads · 302 tokens")).to_be_visible(timeout=100_000)
    wait_idle(page)
    page.evaluate("""() => {
        const [bench] = globalThis[Symbol.for("mha_viz.benches")].values();
        bench.report = () => {};
    }""")
    click_head(page, 1, 1, of=(2, 2))
    expect(name_of(page)).to_have_text("L1 H1")
    expect(heat(page)).to_have_attribute("data-pooled", "false")
    assert query(page)["layer"] == "0"
