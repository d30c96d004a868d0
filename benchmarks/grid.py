"""All heads on screen: bytes sent and time from data to painted, beside BertViz' model view."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import torch
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from torch import Tensor

from benchmarks import peer
from benchmarks.browser import VIEWPORT, chromium, until_painted
from benchmarks.measure import Result, Skipped, at_least, at_most, ratio, spread
from benchmarks.trace import text
from mha_viz.text.from_weights import record
from mha_viz.web.payload import grid_payload
from mha_viz.web.standalone import grid_html

LAYERS, HEADS = 12, 12
ROUNDS = {32: 5, 64: 3, 128: 3, 512: 3}
PEER_UP_TO = 128  # tokens; BertViz draws an SVG line per weight
PATIENCE = 150.0  # seconds for one page
FASTER, SMALLER = 50, 40  # the aim, at 64 tokens
PAINTED = {128: 0.5, 512: 0.5}  # seconds, the aim for long texts
TITLE = "All heads on screen"
ABOUT = f"""12 layers x 12 heads, random patterns, in one Chromium of 1280 x 900. From the tensor in
memory to the frame that shows every head, in a page of its own: making the page, sending it by
HTTP, parsing it and drawing. Bytes are those of the page; ours in brackets is what the app sends
for a new text, where the script is already there. BertViz 1.4.1 is `model_view` with its scripts
served from this machine, so no network is in its time. At 512 tokens ours pools 4 x 4 weights to
their largest and says so in the picture. An empty page, sent and waited for in the same way, is
what no page can be faster than. A page not painted after {PATIENCE:.0f} s is given up."""

EMPTY = "<!doctype html><title>empty</title>"
Painted = tuple[float, int]  # seconds, bytes of the page


def measure() -> list[Result]:
    try:
        peer.model_view()
        missing = ""
    except Skipped as reason:
        missing = str(reason)
    rows: list[Result] = []
    for n, rounds in ROUNDS.items():
        with chromium() as browser:  # one for each length: a page of 128 tokens can end it
            _ours(browser, patterns(8), text(8).split())  # the browser's own first page
            rows += _length(browser, n, rounds, missing)
            empty = [_painted(browser, lambda: EMPTY, "() => document.body")[0] for _ in range(5)]
    return [*rows, Result("time, an empty page", spread(empty, 1e3, " ms"))]


def _length(browser: Any, n: int, rounds: int, missing: str) -> list[Result]:
    """Time and bytes at one length; the two take turns."""
    pattern, tokens = patterns(n), text(n).split()
    ours: list[Painted] = []
    theirs: list[Painted] = []
    failed = missing if n <= PEER_UP_TO else "not tried: an SVG line a weight"
    for _ in range(rounds):
        ours.append(_ours(browser, pattern, tokens))
        if not failed and (n < PEER_UP_TO or not theirs):  # at 128 tokens it takes a minute
            try:
                theirs.append(_bertviz(browser, pattern, tokens))
            except PlaywrightError as error:
                failed = _gave_up(error)
    seconds, size = [s for s, _ in ours], ours[0][1]
    within = PAINTED.get(n)
    soon = f"{within * 1e3:,.0f} ms" if within else ""
    met = at_most(sorted(seconds)[len(seconds) // 2], within) if within else None
    payload = len(grid_payload(record(pattern, tokens)))
    name = f", {n} tokens"
    size_text = f"{size / 1e3:,.0f} kB ({payload / 1e3:,.0f} kB)"
    if failed:
        return [
            Result(
                *("time" + name, spread(seconds, 1e3, " ms"), f"BertViz {failed}"),
                aim=soon,
                met=met,
            ),
            Result("bytes" + name, size_text),
        ]
    times = ratio([s for s, _ in theirs], seconds[: len(theirs)])
    bytes_ratio = theirs[0][1] / size
    aimed = n == 64
    return [
        Result(
            "time" + name,
            spread(seconds, 1e3, " ms"),
            f"BertViz {spread([s for s, _ in theirs], 1, ' s', 1)}",
            f"{times:,.0f} times faster",
            f"{FASTER} times" if aimed else soon,
            at_least(times, FASTER) if aimed else met,
        ),
        Result(
            "bytes" + name,
            size_text,
            f"BertViz {theirs[0][1] / 1e3:,.0f} kB",
            f"1/{bytes_ratio:,.0f} (1/{theirs[0][1] / payload:,.0f})",
            f"1/{SMALLER} of the payload" if aimed else "",
            at_least(theirs[0][1] / payload, SMALLER) if aimed else None,
        ),
    ]


def _gave_up(error: PlaywrightError) -> str:
    """Why a page was never painted, in words for the table; what is none of these is a fault."""
    if isinstance(error, PlaywrightTimeout):
        return f"gave up: not painted after {PATIENCE:.0f} s"
    if "closed" in error.message or "crashed" in error.message:
        return "gave up: the browser ended before its page was painted"
    raise error


def _ours(browser: Any, pattern: Tensor, tokens: list[str]) -> Painted:
    def make() -> str:
        return grid_html(grid_payload(record(pattern, tokens)))

    return _painted(browser, make, "() => document.querySelector('[data-painted]')")


def _bertviz(browser: Any, pattern: Tensor, tokens: list[str]) -> Painted:
    view, layers = peer.model_view(), [layer[None] for layer in pattern]

    def make() -> str:
        body = view(layers, tokens, html_action="return").data
        require = "https://cdnjs.cloudflare.com/ajax/libs/require.js/2.3.6/require.min.js"
        loader = "" if "require.min.js" in body else f'<script src="{require}"></script>'
        return f'<!doctype html><meta charset="utf-8">{loader}{body}'

    # All heads are drawn in one go, each on a background of its own.
    drawn = f"() => document.querySelectorAll('rect.attn_background').length == {LAYERS * HEADS}"
    return _painted(browser, make, drawn)


def _painted(browser: Any, make: Callable[[], str], condition: str) -> Painted:
    """Seconds from the data to the painted page, in a fresh browser context."""
    context = browser.new_context(viewport=VIEWPORT)
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        peer.serve_scripts(page)
        begin = time.perf_counter()
        sent = make().encode()
        with served(sent) as url:
            page.goto(url, wait_until="commit")
            until_painted(page, condition, PATIENCE)
            return time.perf_counter() - begin, len(sent)
    finally:
        context.close()


@contextmanager
def served(document: bytes) -> Iterator[str]:
    """The address of a page on this machine: by HTTP, as a reader gets it.

    Handed to the browser by its driver, three megabytes take half a second.
    """

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that http.server calls
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def patterns(n: int) -> Tensor:
    generator = torch.Generator().manual_seed(n)
    scores = 3 * torch.randn(LAYERS, HEADS, n, n, generator=generator)
    return torch.softmax(scores, -1)
