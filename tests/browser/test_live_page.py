"""The live page of the built site: tokens and weights of the app, and no other host.

`make docs` builds the site and runs this; without a built site there is nothing to test.
"""

import base64
import functools
import os
import random
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

import mha_viz as mv
from mha_viz.errors import TextError
from mha_viz.web.payload import grid_payload, unpack
from tests.missing import skip_or_fail

ROOT = Path(__file__).parents[2]
MAX_BYTES = 15e6
TEXTS: dict[str, list[tuple[str, ...]]] = {
    "tiny-bert": [
        ("The animal didn't cross the street.",),
        ("Naïve CAFÉ — “it’s” … 👍🏽 مرحبا 你好 𠀀𠀁 [MASK] e\u0301",),
        ("Where did she go?", "She went home, unbelievably late: <b>home</b>."),
        ("the cat " * 67, "Unbelievably late."),
    ],
    "tiny-gpt2": [
        ("The animal didn't cross the street.",),
        ("Naïve CAFÉ — “it’s” … 👍🏽 مرحبا 你好 <|endoftext|> e\u0301",),
        ("She left. She left unbelievably late.",),
        ("the cat " * 67,),
    ],
}
SHOWN = """async place => {
    const id = place.dataset.payload;
    const { header, body } = globalThis[Symbol.for("mha_viz.payloads")].byId.get(id);
    const weights = await (await fetch(header.exact_url)).blob();
    const text = (blob) => new Promise((resolve) => {
        const reader = new FileReader();
        reader.onload = () => resolve(reader.result.split(",")[1]);
        reader.readAsDataURL(blob);
    });
    return [header, await text(new Blob([body])), await text(weights)];
}"""
TOKENS = """async ([folder, name, texts]) => {
    const { tokensOf, tokenHeader } = await import(`${folder}/text_tokens.js`);
    const { Tokenizer } = await import(`${folder}/tokenizers.mjs`);
    const read = async (file) => (await fetch(`${folder}/${name}/${file}.json`)).json();
    const tokenizer = new Tokenizer(await read("tokenizer"), await read("tokenizer_config"));
    return texts.map((text) => {
        const { tokens } = tokensOf(tokenizer, [text], 128);
        const ids = tokens.map((token) => tokenizer.token_to_id(token.name));
        return [ids, tokenHeader(tokens, [text])];
    });
}"""


@pytest.fixture(scope="module")
def site() -> Path:
    if not (built := os.environ.get("BUILT_SITE")):
        # The site is built of the docs' own requirements, which other tests do without.
        pytest.skip("make docs builds the site and runs this")
    if not (ROOT / built / "live").is_dir():
        skip_or_fail("the site has no live page, for npm was not there")
    return ROOT / built


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    """The address of the page in a subfolder of a static host."""
    handler = functools.partial(_Quiet, directory=str(site.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{site.name}/live.html"
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def visit(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context() as context:
        yield context


def run(page: Page, *texts: str) -> Locator:
    """Type a text, or two, and wait for its picture; return the place of the workbench."""
    place = page.locator(".live .place")
    before = place.get_attribute("data-payload") or ""
    for label, text in zip(("Sentence", "Second sentence"), (*texts, ""), strict=False):
        if (field := page.get_by_label(label, exact=True)).is_enabled():
            field.fill(text)
    page.keyboard.press("Enter")
    expect(place).not_to_have_attribute("data-payload", before)
    return place


@pytest.mark.parametrize("name", TEXTS)
def test_weights_and_tokens_are_those_of_the_app(
    name: str, url: str, visit: BrowserContext
) -> None:
    page, requests, faults = visit.new_page(), list[Any](), list[str]()
    page.on("requestfinished", lambda request: requests.append(request))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{url}?model={name}")
    expect(page.locator(".place .head-view")).to_have_attribute("data-selected", "L0 H3")
    model = mv.load(name)
    for texts in TEXTS[name]:
        header, codes, weights = run(page, *texts).evaluate(SHOWN)
        record = model.trace(*texts)
        exact = np.frombuffer(base64.b64decode(weights), "<f4").reshape(record.shape)
        assert np.abs(exact - record.pattern.numpy()).max() < 1e-4
        expected, body = unpack(grid_payload(record))
        assert header | dict.fromkeys(("id", "exact_url")) == expected | dict.fromkeys(
            ("id", "exact_url")
        )
        steps = np.frombuffer(base64.b64decode(codes), "u1") - np.frombuffer(body, "u1").astype(int)
        assert np.abs(steps).max() <= 1 and not steps[np.frombuffer(body, "u1") == 0].any()
        cut = re.findall("The text was cut to 128 tokens", page.locator(".status").inner_text())
        assert len(cut) == any("was cut to 128" in note for note in record.notes)
    sent = [one for one in requests if not one.url.startswith("blob:")]
    assert all(one.url.startswith(url.removesuffix("live.html")) for one in sent)
    assert sum(one.sizes()["responseBodySize"] for one in sent) < MAX_BYTES
    assert not faults


@pytest.mark.parametrize("name", TEXTS)
def test_tokens_of_random_texts_are_those_of_the_app(
    name: str, url: str, visit: BrowserContext
) -> None:
    draw, model = random.Random(83), mv.load(name)
    signs = "aA bB,.!'’-…“2½éÑßİ ςжΩ\u0301\u200d\ufe0f\u00ad\u00a0你한ह🇩👍🏽#_[]"
    words = [*signs, " the", " walking", "…", " unbelievably", "[MASK]", "[SEP]", "<|endoftext|>"]
    texts = ["a" + "".join(draw.choices(words, k=draw.randrange(1, 47))) for _ in range(211)]
    page = visit.new_page()
    page.goto(url)
    found = page.evaluate(TOKENS, [url.replace(".html", ""), name, texts])
    for text, (ids, header) in zip(texts, found, strict=True):
        record = model.trace(text)
        expected = unpack(grid_payload(record))[0]
        assert ids == [token.id for token in record.tokens]
        assert header == {key: expected[key] for key in header} and ("words" in expected) == (
            "words" in header
        )


def test_bad_input_and_missing_files_are_one_sentence(
    url: str, site: Path, visit: BrowserContext
) -> None:
    page = visit.new_page()
    page.goto(url)
    status = page.get_by_role("status").first
    run(page, "<img src=x onerror=alert(1)> late")
    assert page.locator(".place img").count() == 0
    for text, sentence in {
        "   ": "The sentence is empty",
        "\u200b": "nothing that this model can read",
    }.items():
        page.get_by_label("Sentence", exact=True).fill(text)
        page.keyboard.press("Enter")
        expect(status).to_contain_text(sentence)
    with pytest.raises(TextError, match="nothing that this model can read"):
        mv.load("tiny-bert").trace("\u200b")
    page.route("**/onnxruntime.bin", lambda route: route.abort())
    page.goto(url)
    expect(status).to_contain_text("live/onnxruntime.bin could not be loaded")
    page.goto((site / "live.html").as_uri())
    expect(status).to_contain_text("python -m http.server")
