"""Nothing jumps while a page is loaded: what comes late has had its place from the beginning."""

import pytest
from playwright.sync_api import Page, expect

from mha_viz.learn.frame.contents import LABS
from tests.browser.workbench_page import choose_folder, copy_tokenizer

MOST = 0.05  # of the sum of layout shifts: share of the window that moves, times how far
LOADS = 4  # on a busy machine what belongs together comes in parts; once it must come as it should
SIZES = {"laptop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
TEXT = "The old dog slept while the young cat watched the birds."
PATHS = (
    f"/?text={TEXT}",
    f"/intervene?model=tiny-gpt2&text={TEXT}",
    f"/intervene?text={TEXT}&off=0.1",
    "/corpus",
    "/learn",
    *(f"/{lab.address}" for lab in LABS),
)


def shifted(page: Page) -> float:
    """Return the sum of all layout shifts since the page began to load."""
    return page.evaluate(
        """() => new Promise((resolve) => {
            const sum = (list) => list.getEntries().reduce((all, { value }) => all + value, 0);
            new PerformanceObserver((list) => resolve(sum(list))).observe(
                { type: "layout-shift", buffered: true });
            setTimeout(() => resolve(0), 1000);  // where nothing has moved, nobody calls
        })"""
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", PATHS)
def test_a_page_does_not_jump_while_it_loads(open_page, wait_idle, path, size):
    page = open_page(path, viewport=SIZES[size])
    shifts = []
    while len(shifts) < LOADS and min(shifts, default=1.0) > MOST:
        if shifts:
            page.reload()
        wait_idle(page)
        shifts.append(shifted(page))
    assert min(shifts) <= MOST, shifts


@pytest.fixture(scope="module")
def many_heads(tmp_path_factory):
    """A model of 12 layers with 12 heads each, and random weights."""
    import transformers as tf

    folder = tmp_path_factory.mktemp("many")
    copy_tokenizer("tiny-gpt2", folder)
    sizes = dict(vocab_size=4096, n_positions=128, n_embd=60, n_layer=12, n_head=12)
    ends = dict(bos_token_id=0, eos_token_id=0)
    tf.GPT2LMHeadModel(tf.GPT2Config(**sizes, **ends)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("size", SIZES)
def test_the_place_of_many_switches_is_reserved(open_page, wait_idle, many_heads, size):
    page = open_page("/intervene", viewport=SIZES[size])
    choose_folder(page, many_heads)
    expect(page.get_by_text("All 144 heads on")).to_be_visible()
    wait_idle(page)
    page.reload()
    expect(page.get_by_text("All 144 heads on")).to_be_visible()
    wait_idle(page)
    assert shifted(page) <= MOST
    grid = page.locator(".st-key-switches")
    reserved = grid.evaluate("element => parseFloat(getComputedStyle(element).minHeight)")
    drawn = page.locator(".head-switches").bounding_box()
    assert drawn and reserved == pytest.approx(drawn["height"], abs=5)


def test_twins_of_many_heads_are_at_most_three_screens_tall(open_page, wait_idle, many_heads):
    page = open_page("/compare?section=twins", viewport=SIZES["laptop"])
    choose_folder(page, many_heads)
    expect(page.get_by_text("of 10,296 pairs").first).to_be_visible()
    expect(page.get_by_text("All measures between them")).to_be_visible()
    wait_idle(page)
    tall = page.get_by_test_id("stMainBlockContainer").bounding_box()
    assert tall and tall["height"] <= 3 * 900
    matrix = page.locator(".st-key-twins .nsewdrag").first.bounding_box()
    assert matrix and matrix["width"] >= 5 * 144
    for text in ("Nearest twins", "Clusters", "Map", "Pin L0 H2", "Colour scale", "Second head"):
        expect(page.get_by_text(text, exact=True).first).to_be_visible()
