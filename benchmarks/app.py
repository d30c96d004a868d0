"""The app as a person meets it: from a click, a sentence or the start to what they see."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.browser import VIEWPORT, chromium, until_painted
from benchmarks.measure import Result, spread

ROOT = Path(__file__).parents[1]
REPEATS, STARTS = 9, 3
AIMS = {"click": 0.2, "enter": 0.5, "switch": 0.2, "start": 3.0}  # seconds
SENTENCES = "the old dog slept while a young cat watched birds".split()
TITLE = "The app"
ABOUT = """`streamlit run app.py`, the shipped tiny-bert (4 layers x 8 heads), Chromium of 1280 x
900. A click counts from the pointer to the frame with the new head's heatmap and its name; Enter
from the key to the frame with all heads of a sentence not seen before; a switch from the pointer on
a head of Intervene (tiny-gpt2) to the frame with the new prediction's KL divergence, of which a
forward pass takes some ten milliseconds; a start from the process to the frame with a text box that
can be typed into, and to that with all heads."""
IDLE = "[data-testid=stApp][data-test-script-state=notRunning]"
# When a person acted, on the page's own clock.
NOTE = """() => { for (const kind of ["pointerdown", "keydown"])
  addEventListener(kind, () => { window.acted = performance.now(); }, true); }"""
# The grid's root; a component may live in a shadow tree of its own.
GRID = """(() => { for (const host of document.querySelectorAll("*")) {
  const found = host.shadowRoot?.querySelector("[data-painted]"); if (found) return found; }
  return document.querySelector("[data-painted]"); })()"""
# What the heatmap on screen is of: a few of its numbers, from Plotly's own copy.
DRAWN = """(() => { const plot = document.querySelector(".js-plotly-plot");
  const map = plot?._fullData?.find(trace => trace.type === "heatmap");
  return map ? Array.from(map.z, row => Array.from(row).slice(0, 4).join()).join(";") : ""; })()"""


def measure() -> list[Result]:
    with chromium() as browser:
        starts = [_start(browser) for _ in range(STARTS)]
        with running() as (url, _):
            page = browser.new_context(viewport=VIEWPORT).new_page()
            page.goto(url)
            page.wait_for_selector("[data-painted]")
            page.wait_for_selector(IDLE)
            page.evaluate(NOTE)
            clicks = [_click(page, head=(3 * i + 1) % 8, layer=i % 3) for i in range(REPEATS + 2)]
            enters = [_enter(page, i) for i in range(REPEATS + 2)]
            page.goto(f"{url}intervene?model=tiny-gpt2")
            page.wait_for_selector(".head-switches .tile")
            page.wait_for_selector(IDLE)
            page.evaluate(NOTE)
            switches = [_switch(page, i) for i in range(REPEATS + 2)]
    return [
        _row("click on a head to its heatmap", clicks[2:], AIMS["click"]),
        _row("Enter to all heads of a new sentence", enters[2:], AIMS["enter"]),
        _row("switch of a head to the new prediction", switches[2:], AIMS["switch"]),
        _row("start to the page that takes text", [text for text, _ in starts], AIMS["start"]),
        _row("start to the first picture", [picture for _, picture in starts], None),
    ]


def _row(name: str, seconds: list[float], aim: float | None) -> Result:
    middle = sorted(seconds)[len(seconds) // 2]
    return Result(
        name,
        spread(seconds, 1e3, " ms"),
        aim="" if aim is None else f"{aim * 1e3:,.0f} ms",
        met=None if aim is None else middle <= aim,
    )


def _click(page: Any, head: int, layer: int) -> float:
    """Choose a head in the grid -> seconds to its heatmap."""
    before = page.evaluate(DRAWN)
    box = page.locator("canvas.cells").first.bounding_box()
    # The middle of a tile, with the names of layers and heads around the tiles left out.
    x, y = box["x"] + box["width"] * (head + 0.5) / 8, box["y"] + box["height"] * (layer + 0.5) / 4
    page.mouse.click(x, y)
    done = until_painted(
        page, f"() => {{ const now = {DRAWN}; return now && now !== {before!r}; }}"
    )
    page.wait_for_selector(IDLE)
    return (done - page.evaluate("acted")) / 1e3


def _enter(page: Any, i: int) -> float:
    """Type a sentence and press Enter -> seconds to all its heads."""
    before = page.locator("[data-painted]").first.get_attribute("data-painted")
    box = page.get_by_label("Sentence", exact=True)
    box.fill(" ".join([*SENTENCES[i % 5 :], *SENTENCES[: i % 4]]) + f" {i}")
    box.press("Enter")
    done = until_painted(
        page, f"() => {{ const id = {GRID}?.dataset.painted; return id && id !== {before!r}; }}"
    )
    page.wait_for_selector(IDLE)
    return (done - page.evaluate("acted")) / 1e3


def _switch(page: Any, i: int) -> float:
    """Switch one more head off -> seconds to the KL divergence of the new prediction."""
    known = "document.querySelector('[data-testid=stMetricValue]')?.innerText"
    before = page.evaluate(known)
    page.locator(".head-switches .tile").nth(3 * i).click()
    done = until_painted(page, f"() => {known} !== {before!r}")
    page.wait_for_selector(IDLE)
    return (done - page.evaluate("acted")) / 1e3


def _start(browser: Any) -> tuple[float, float]:
    """Seconds from the process to a text box that takes text, and to the first picture."""
    context = browser.new_context(viewport=VIEWPORT)
    try:
        begin = time.perf_counter()
        with running() as (url, _):
            page = context.new_page()
            page.goto(url, wait_until="commit")
            until_painted(page, "() => document.querySelector('textarea:enabled, input:enabled')")
            takes_text = time.perf_counter() - begin
            until_painted(page, f"() => {GRID}")
            return takes_text, time.perf_counter() - begin
    finally:
        context.close()


@contextmanager
def running() -> Iterator[tuple[str, int]]:
    """The app on a free port, from the moment it answers: its address, and its process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    options = ["--server.address", "127.0.0.1", "--server.headless", "true"]
    app = subprocess.Popen(
        command + options, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/_stcore/health", app)
        yield f"http://127.0.0.1:{port}/", app.pid
    finally:
        app.terminate()
        app.wait(20)


def _wait_for(url: str, app: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and app.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("the app did not start within 60 s")
