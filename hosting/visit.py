"""A visitor with a Chromium: types a sentence, looks at every head, walks through all pages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

import mha_viz as mv
from docs.real_app import CHROMIUM, PATIENCE, open_page, rest
from mha_viz.errors import ArgumentError
from mha_viz.learn.frame.contents import LABS

SENTENCE = "The tired traveller found an inn, and the inn found the traveller."
MODELS = ("tiny-bert", "tiny-gpt2", "tiny-llama")  # with 4 layers of 8 heads, each
HEADS = 32
PAGES = (
    "",
    "compare",
    "circuits",
    "corpus",
    "intervene",
    "learn",
    *(lab.address for lab in LABS),
    "start",
    "glossary",
    "teach",
)
# How many heads have a picture: more than three colours in the middle of their place.
_DRAWN = """canvas => {
    const place = canvas.getBoundingClientRect(), grid = canvas.closest(".head-grid");
    const middles = selector => [...grid.querySelectorAll(selector)].map(axis => {
        const box = axis.getBoundingClientRect();
        return [box.x + box.width / 2 - place.x, box.y + box.height / 2 - place.y];
    });
    const xs = middles(".axis.column").map(([x]) => x), ys = middles(".axis.row").map(([, y]) => y);
    const scale = canvas.width / place.width, side = Math.floor((xs[1] - xs[0]) * scale * 0.7);
    const paper = canvas.getContext("2d", { willReadFrequently: true });
    let drawn = 0;
    for (const x of xs) for (const y of ys) {
        const left = x * scale - side / 2, top = y * scale - side / 2;
        const colours = new Uint32Array(paper.getImageData(left, top, side, side).data.buffer);
        drawn += new Set(colours).size > 3;
    }
    return drawn;
}"""


@contextmanager
def visitor() -> Iterator[Page]:
    """A page of a new Chromium, until the block is left.

    Raises:
        ArgumentError: there is no Chromium.
    """
    if CHROMIUM is None:
        raise ArgumentError("Expected a Chromium on PATH, found none: apt install chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE)
        yield page
        browser.close()


def see_all_heads(page: Page, address: str) -> float:
    """Type a sentence on the first page and wait until every head is drawn.

    Returns:
        the seconds from Enter to the picture of all heads.

    Raises:
        ArgumentError: a head has no picture, or what is typed cannot be told from what was there.
    """
    n_tokens = len(mv.load(MODELS[0]).trace(SENTENCE).tokens)
    open_page(page, address, "canvas.cells")
    heading = page.get_by_text(f"4 layers × 8 heads · {n_tokens} tokens")
    if heading.count():
        raise ArgumentError(
            f"The page opens on a sentence of {n_tokens} tokens, too: type another one, or nobody "
            "sees that it is drawn."
        )
    box = page.get_by_label("Sentence", exact=True)
    box.fill(SENTENCE)
    before = time.monotonic()
    box.press("Enter")
    heading.wait_for()
    seconds = time.monotonic() - before
    rest(page)
    drawn = page.locator("canvas.cells").first.evaluate(_DRAWN)
    if drawn != HEADS:
        raise ArgumentError(f"Expected pictures of {HEADS} heads, found {drawn}.")
    return seconds


def walk(page: Page, address: str) -> None:
    """Open every page with each of the shipped models.

    Raises:
        ArgumentError: a page shows an error in place of itself.
    """
    for model in MODELS:
        for name in PAGES:
            query = urlencode({"model": model, "text": SENTENCE})
            open_page(page, f"{address}/{name}?{query}", "[data-testid=stMainBlockContainer]")
            if page.get_by_test_id("stException").count():
                raise ArgumentError(f"The page {name or 'explore'} failed with {model}.")
