"""The app as a person meets it: from a click or a sentence to what they see."""

from __future__ import annotations

import os
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import mha_viz as mv
from benchmarks.browser import VIEWPORT, chromium, until_painted
from benchmarks.measure import Result, at_most, spread

ROOT = Path(__file__).parents[1]
REPEATS = 9
FOLLOWS = 300  # ms after which all that follows a sentence has begun
START = 300  # seconds, on a machine that has other things to do
AIMS = {"click": 0.2, "switch": 0.2}  # seconds
ENTER = 1.5, 0.12  # forward passes and seconds more
BESIDE_STUDY = 1.5  # times as long as without one
SENTENCES = "the old dog slept while a young cat watched birds".split()
TITLE = "The app"
ABOUT = """`mha-viz app`, the shipped tiny-bert (4 layers x 8 heads), Chromium of 1280 x
900. A click counts from the pointer to the frame with the new head's heatmap and its name; Enter
from the key to the frame with all heads of a sentence not seen before, beside the pass of such a
sentence by itself; a switch from the pointer on "Switch off" (tiny-gpt2) to the frame with the
likeliest tokens of the new prediction, of which a forward pass takes some ten milliseconds.
Beside a study: while 2,000 texts of some 25 words are studied for another visitor."""
IDLE = "[data-testid=stApp][data-test-script-state=notRunning]"
# When a person acted, on the page's own clock.
NOTE = """() => { for (const kind of ["pointerdown", "keydown"])
  addEventListener(kind, () => { window.acted = performance.now(); }, true); }"""
# All heads, named by their text once they are painted.
PAINTED = ".head-grid[data-painted]"
# The same element; a component may live in a shadow tree of its own.
GRID = f"""(() => {{ for (const host of document.querySelectorAll("*")) {{
  const grid = host.shadowRoot?.querySelector("{PAINTED}"); if (grid) return grid; }}
  return document.querySelector("{PAINTED}"); }})()"""
# What the model predicts without the heads that are off; "" while it is on its way.
PREDICTED = """(() => { for (const host of [document, ...document.querySelectorAll("*")]) {
  const root = host.shadowRoot ?? (host === document ? document : null);
  const found = root?.querySelector(".prediction-view[aria-busy=false] .kl");
  if (found) return found.textContent; } return ""; })()"""
# The head that is drawn beside the grid.
DRAWN = """(() => { for (const host of document.querySelectorAll("*")) {
  const found = host.shadowRoot?.querySelector(".head-view[data-selected]");
  if (found) return found.dataset.selected; } return ""; })()"""


def measure() -> list[Result]:
    with chromium() as browser, running() as (url, _):
        page = browser.new_context(viewport=VIEWPORT).new_page()
        page.goto(url)
        page.wait_for_selector(PAINTED)
        page.wait_for_selector(IDLE)
        page.evaluate(NOTE)
        # The first sentences wait for the model, which is loaded behind the first picture.
        enters = [_enter(page, i) for i in range(REPEATS + 2)]
        clicks = [_click(page, head=(3 * i + 1) % 8, layer=i % 3) for i in range(REPEATS + 2)]
        with _somebody_studies(browser, url):
            page.bring_to_front()
            beside = [
                ("Enter", enters[2:], [_enter(page, 100 + i) for i in range(REPEATS)]),
                (
                    "click",
                    clicks[2:],
                    [_click(page, (3 * i + 1) % 8, i % 3) for i in range(REPEATS)],
                ),
            ]
        page.goto(f"{url}?model=tiny-gpt2")
        page.wait_for_selector(PAINTED)
        page.wait_for_selector(IDLE)
        page.evaluate(NOTE)
        switches = [_switch(page, i) for i in range(REPEATS + 2)]
    return [
        _row("click on a head to its heatmap", clicks[2:], AIMS["click"]),
        _enter_row("Enter to all heads of a new sentence", enters[2:], _passes("tiny-bert")),
        _row("switch of a head to the new prediction", switches[2:], AIMS["switch"]),
        *(_beside_study(*one) for one in beside),
    ]


@contextmanager
def _somebody_studies(browser: Any, url: str) -> Iterator[None]:
    """Inside, texts are studied that another visitor has given; stopped at the end."""
    dice = random.Random(0)
    texts = [" ".join(dice.choices(SENTENCES, k=dice.randint(10, 40))) for _ in range(2_000)]
    page = browser.new_context(viewport=VIEWPORT).new_page()
    page.goto(f"{url}corpus")
    page.get_by_role("heading", name="Search").wait_for(timeout=120_000)
    page.wait_for_selector(IDLE)
    page.get_by_text("Study texts of your own").click()
    page.get_by_label("Texts, one per line").fill("\n".join(texts))
    page.get_by_role("button", name="Study them").click()
    page.get_by_text("of 2,000 texts,").wait_for(timeout=120_000)
    yield
    if not page.get_by_text("of 2,000 texts,").count():
        raise RuntimeError("the study was done before everything was measured beside it")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_text("Stopped after").wait_for(timeout=120_000)
    page.context.close()


def _beside_study(name: str, alone: list[float], beside: list[float]) -> Result:
    times = statistics.median(beside) / statistics.median(alone)
    return Result(
        f"{name} beside a study",
        spread(beside, 1e3, " ms"),
        f"{spread(alone, 1e3, ' ms')} without one",
        f"{times:.2f}",
        f"at most {BESIDE_STUDY}",
        at_most(times, BESIDE_STUDY),
    )


def _enter_row(name: str, seconds: list[float], bare: list[float]) -> Result:
    row = _row(name, seconds, ENTER[0] * statistics.median(bare) + ENTER[1])
    return replace(row, beside=f"`model.trace` {spread(bare, 1e3, ' ms')}")


def _passes(name: str) -> list[float]:
    """Seconds of the pass that Enter asks for, without an app around it."""
    model, seconds = mv.load(name), []
    for i in range(REPEATS + 2):
        begin = time.perf_counter()
        model.trace(_sentence(i), keep=("pattern", "z", "query", "key", "value"))
        seconds.append(time.perf_counter() - begin)
    return seconds[2:]


def _sentence(i: int) -> str:
    return " ".join([*SENTENCES[i % 5 :], *SENTENCES[: i % 4]]) + f" {i}"


def _row(name: str, seconds: list[float], aim: float) -> Result:
    middle = sorted(seconds)[len(seconds) // 2]
    shown = spread(seconds, 1e3, " ms")
    return Result(name, shown, aim=f"{aim * 1e3:,.0f} ms", met=at_most(middle, aim))


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
    before = page.locator(PAINTED).first.get_attribute("data-painted")
    box = page.get_by_label("Sentence", exact=True)
    box.fill(_sentence(i))
    box.press("Enter")
    done = until_painted(
        page, f"() => {{ const id = {GRID}?.dataset.painted; return id && id !== {before!r}; }}"
    )
    page.wait_for_timeout(FOLLOWS)
    page.wait_for_selector(IDLE)
    return (done - page.evaluate("acted")) / 1e3


def _switch(page: Any, i: int) -> float:
    """Switch one more head off -> seconds to the likeliest tokens of the new prediction."""
    _click(page, (3 * i + 1) % 8, (i + i // 8) % 4)
    before = page.evaluate(PREDICTED)
    page.locator(".head-view").get_by_role("button", name="Switch off", exact=True).click()
    done = until_painted(
        page, f"() => {{ const now = {PREDICTED}; return now && now !== {before!r}; }}"
    )
    page.wait_for_selector(IDLE)
    return (done - page.evaluate("acted")) / 1e3


@contextmanager
def running(*options: str, **environment: str) -> Iterator[tuple[str, int]]:
    """The app on a free port, from the moment it answers: its address, and its process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mha_viz", "app", "--port", str(port), *options]
    app = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/_stcore/health", app)
        yield f"http://127.0.0.1:{port}/", app.pid
    finally:
        app.terminate()
        app.wait(20)


def _wait_for(url: str, app: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end and app.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"the app did not start within {START} s")
