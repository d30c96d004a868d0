"""Waits at the start: for the app's page, its first picture, the command's answer."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.app import GRID, ROOT, running
from benchmarks.browser import VIEWPORT, chromium, until_painted
from benchmarks.measure import Result, at_most, ratio, spread

ROUNDS = 5
STREAMLIT, BERT = "import streamlit", "from transformers import BertForMaskedLM"
AIMS = {"text": 5.0, "picture": 0.8}  # times those: 2.5 s and 4 s where they take 0.5 and 5.3 s
COMMANDS = {"--help": 0.3, "models": 1.0}  # seconds
TITLE = "The start"
ABOUT = f"""`mha-viz app`, from the process to the frame with a text box that can be typed into, and
to that with all heads of the first sentence, in Chromium of 1280 x 900 that is open already. Beside
them, in turns, what Python alone takes for `{STREAMLIT}`, without which there is no page, and for
`{BERT}`, the model's class, which the first picture does
without. Then the command, from the process to its end."""


def measure() -> list[Result]:
    seconds: dict[str, list[float]] = {}
    with chromium() as browser:
        _start(browser)  # what is read from the disk is in memory from then on
        for _ in range(ROUNDS):
            took = dict(zip(AIMS, _start(browser), strict=True))
            took |= {code: _process("-c", code) for code in (STREAMLIT, BERT)}
            took |= {name: _process("-m", "mha_viz", name) for name in COMMANDS}
            for name, value in took.items():
                seconds.setdefault(name, []).append(value)
    titles = {"text": "start to the page that takes text", "picture": "start to the first picture"}
    beside = {"text": STREAMLIT, "picture": BERT}
    return [
        *(_beside(titles[key], seconds[key], code, seconds[code], AIMS[key])
          for key, code in beside.items()),
        *(_command(name, seconds[name], aim) for name, aim in COMMANDS.items()),
    ]  # fmt: skip


def _beside(name: str, ours: list[float], code: str, theirs: list[float], aim: float) -> Result:
    times = ratio(ours, theirs)
    return Result(
        name,
        spread(ours, unit=" s", digits=2),
        f"`{code}` {spread(theirs, unit=' s', digits=2)}",
        f"{times:.2f}",
        f"at most {aim:.1f}",
        at_most(times, aim),
    )


def _command(name: str, seconds: list[float], aim: float) -> Result:
    shown = spread(seconds, unit=" s", digits=2)
    met = at_most(statistics.median(seconds), aim)
    return Result(f"`mha-viz {name}`", shown, aim=f"{aim:.1f} s", met=met)


def _process(*arguments: str) -> float:
    """Seconds from the process to its end."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def _start(browser: Any) -> tuple[float, float]:
    """Seconds from the process to a text box that takes text, and to the first picture."""
    context = browser.new_context(viewport=VIEWPORT)
    try:
        page = context.new_page()
        begin = time.perf_counter()
        with running() as (url, _):
            page.goto(url, wait_until="commit")
            until_painted(page, "() => document.querySelector('textarea:enabled, input:enabled')")
            takes_text = time.perf_counter() - begin
            until_painted(page, f"() => {GRID}")
            return takes_text, time.perf_counter() - begin
    finally:
        context.close()
