"""The heatmap of a long text: exact weights of the part that is shown, and Back to another part.

The steps of zooming are tried in test_heat_zoom.js of tests/web.
"""

import json
import re

import pytest
from playwright.sync_api import Page, expect

import mha_viz as mv
from mha_viz.web.theme import format_weight
from tests.browser.ready import wait_ready
from tests.browser.workbench_page import (
    cell,
    choose_folder,
    click_head,
    copy_tokenizer,
    name_of,
    type_text,
)

LONG = " ".join(["the dog and the cat ran over the green hill to the old man"] * 20)


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
    network = tf.GPT2LMHeadModel(tf.GPT2Config(**sizes, **ends, initializer_range=0.5))
    network.save_pretrained(folder)
    return folder


def shows_in_its_address(page: Page, part: str) -> None:
    """Expect the part in the address: the browser tells of it once zooming has come to rest."""
    top, left, rows, columns = map(int, part.split())
    rows, columns = f"{top}[.]{top + rows - 1}", f"{left}[.]{left + columns - 1}"
    expect(page).to_have_url(re.compile(f"window={rows}(,|%2C){columns}(&|$)"))


@pytest.mark.journey
def test_heatmap_of_a_long_text_has_the_exact_weights_of_a_part_and_back_leads_to_the_last(
    open_page, long_model
) -> None:
    record = mv.load(str(long_model)).trace(LONG)
    n = len(record.tokens)
    page = open_page()
    heat = page.locator(".heat[data-part]")
    choose_folder(page, long_model)
    expect(page.get_by_text("2 layers × 2 heads")).to_be_visible()
    type_text(page, LONG)
    expect(heat).to_have_attribute("data-part", f"0 0 {n} {n}")
    wait_ready(page)
    page.locator(".heat-over").focus()
    for _ in range(8):
        page.keyboard.press("+")
    zoomed = heat.get_attribute("data-part")
    shows_in_its_address(page, zoomed)
    page.keyboard.press("Shift+ArrowLeft")
    expect(heat).not_to_have_attribute("data-part", zoomed)
    shows_in_its_address(page, heat.get_attribute("data-part"))
    wait_ready(page)
    for layer, head in ((0, 0), (1, 0)):  # the weights of the second one come in parts only
        click_head(page, layer, head, of=(2, 2))
        expect(name_of(page)).to_have_text(f"L{layer} H{head}")
        expect(heat).to_have_attribute("data-pooled", "false")
        top, left, rows, _ = map(int, heat.get_attribute("data-part").split())
        page.mouse.move(*cell(page, 1, 2, rows))
        weight = record.head(layer, head)[top + 1, left + 2]
        expect(page.locator(".heat .tip .weight")).to_have_text(format_weight(weight))
    wait_ready(page)
    page.go_back()
    expect(name_of(page)).to_have_text("L0 H0")
    wait_ready(page)
    page.go_back()
    expect(heat).to_have_attribute("data-part", zoomed)
