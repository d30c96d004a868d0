"""Input of the Heads page, typed or put into its address, in a real Chromium."""

import re

import pytest
from playwright.sync_api import expect

import mha_viz as mv
from mha_viz.ui.state.views import SHOWS
from tests.browser.compare_page import query
from tests.browser.ready import next_run, wait_ready
from tests.browser.workbench_page import (
    TEXT,
    choose_folder,
    copy_tokenizer,
    grid,
    type_text,
)

PERSON = "Object.defineProperty(navigator, 'webdriver', { get: () => false })"
ODD_TEXTS = {
    "emoji": "👩‍👩‍👧‍👦 👍🏽 🇩🇪 مرحبا שלום a\u202eb\u0000c\u0007",
    "markup": "<script>window.hacked = 1</script></div><img src=x onerror='window.hacked=1'> "
    "**bold** `code` $x^2$ :material/home: [a](http://b)",
    "long": "the " * 100_000,
}


@pytest.fixture(scope="module")
def deep_model(tmp_path_factory):
    """A model whose runs take a while: 60 small layers."""
    import transformers as tf

    folder = tmp_path_factory.mktemp("deep")
    copy_tokenizer("tiny-bert", folder)
    config = tf.BertConfig(
        vocab_size=4096,
        hidden_size=34,
        num_hidden_layers=60,
        num_attention_heads=2,
        intermediate_size=23,
        max_position_embeddings=128,
    )
    tf.BertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.mark.journey
def test_heads_goes_on_after_odd_texts_an_unknown_model_and_texts_that_overtake_each_other(
    open_page, deep_model
) -> None:
    page = open_page()
    for name, text in ODD_TEXTS.items():
        with next_run(page):
            type_text(page, text)
        expect(grid(page)).to_be_visible()
        cut = page.get_by_text(re.compile("cut to 128 tokens"))
        expect(cut).to_have_count(1 if name == "long" else 0)
    box = page.get_by_label("Sentence", exact=True)
    box.fill("Two")
    box.press("Shift+Enter")
    box.press_sequentially("lines")
    expect(box).to_have_value("Two\nlines")
    with next_run(page):
        box.press("Enter")
    expect(page.locator(".head-view .word")).to_have_text(["[CLS]", "Two", "lines", "[SEP]"])
    with next_run(page):
        box.fill(TEXT)
        page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".head-view .word").nth(1)).to_have_text("The")
    choose_folder(page, "/etc")
    expect(page.get_by_test_id("stAlertContentError").filter(has_text="etc")).to_be_visible()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(TEXT)
    choose_folder(page, deep_model)
    expect(page.get_by_text("60 layers × 2 heads")).to_be_visible()
    wait_ready(page)
    type_text(page, "and so on " * 40)
    expect(page.locator("html")).to_have_attribute("data-ready", "working")
    type_text(page, "or so on " * 40)
    type_text(page, "a red fox")
    n = len(mv.load("tiny-bert").trace("a red fox").tokens)
    expect(page.get_by_text(f"60 layers × 2 heads · {n} tokens")).to_be_visible()
    wait_ready(page)
    expect(page.get_by_label("Sentence", exact=True)).to_have_value("a red fox")
    assert query(page)["text"] == "a red fox"
    expect(page.get_by_test_id("stException")).to_have_count(0)


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_are_text_in_every_picture(open_page, text) -> None:
    page = open_page(f"/?show={list(SHOWS)[-1]}")
    with next_run(page):
        type_text(page, ODD_TEXTS[text])
    for name in SHOWS.values():
        page.get_by_role("radio", name=name, exact=True).click()
        expect(page.locator("html")).not_to_have_attribute("data-ready", "working")
        expect(page.get_by_test_id("stAlertContentError")).to_have_count(0)
        expect(page.locator(".workbench .message").first).to_be_hidden()
    assert page.evaluate("window.hacked") is None


def test_first_visit_alone_begins_with_the_way_to_the_first_lesson(open_page) -> None:
    # A context of a time zone that no other test has: the script stays with the tab.
    page = open_page("/glossary", timezone_id="Pacific/Kiritimati")
    page.evaluate("localStorage.clear()")
    page.add_init_script(PERSON)
    welcome = page.locator(".st-key-welcome")
    for path in (f"/?text={TEXT}", "/"):  # somebody's link shows what it names
        page.goto(path)
        expect(grid(page)).to_be_visible()
        expect(welcome).to_be_visible(visible=path == "/")
    welcome.get_by_role("link", name="Start here").click()
    expect(page).to_have_url(re.compile("/start$"))
    page.goto("/")
    wait_ready(page)
    expect(welcome).to_be_hidden()
