"""The labs as a student meets them: from a changed control to what it shows, and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.app import IDLE, NOTE, PAINTED, running
from benchmarks.browser import VIEWPORT, chromium, until_painted
from benchmarks.measure import Result, at_most, spread
from benchmarks.memory import MIB, status
from mha_viz.learn.frame.contents import LABS, Lab

REPEATS = 7
AIM, MOST = 0.2, 500  # seconds, MiB
TITLE = "The labs"
ABOUT = """`streamlit run app.py`, tiny-bert, Chromium of 1280 x 900. A change counts from an arrow
key on one of the lab's sliders, to a place where it has not been if there is one, to the frame in
which the page has drawn everything again; in lab 10 it is the switch of a picture, in lab 11 the
next task or the one before, in lab 12 the answer to its question. Memory is what the process grew
by while the lab was opened and its control used, with nothing trained or measured; the first lab
also loads what all share."""
SLIDERS = {  # the changed slider of a lab, where it is not the first on the page
    "soft-lookup": "Temperature T",
    "own-reflection": "Tokens",
    "two-places": "Steps",
    "step-by-step": "Step",
    "value-output": "Tokens n",
    "convolution": "Sharpness α",
    "any-pattern": "Tokens n",
    "cost": "At n tokens",
    "how-heads-learn": "Steps",
    "induction-circuit": "Word of a copy",
    "translation-and-pictures": "Digit",
}
BUTTONS = {
    "statements": ("Picture by layer", "Picture by layer"),
    "find-the-head": ("Next task", "Previous task"),
    "what-heads-learn": ("Show the answer", "Hide the answer"),
    "shared-keys": ("Show the answer", "Hide the answer"),
}
# what holds a lab's button or slider
FOLDED = {"statements": "1. The heads’ subspaces are orthogonal", "cost": "Typical models"}
RUNS = "document.querySelector('[data-testid=stApp]').dataset.testScriptState"
# A run of the page has begun since. One that is over within a frame shows in the address or, after
# a button, in what the page has become; a slider changes the page before its run.
WATCH = """button => { window.began = false;
  new MutationObserver((_, self) => { window.began = true; self.disconnect(); }).observe(
    document.querySelector("[data-testid=stApp]"),
    { attributes: true, attributeFilter: ["data-test-script-state"], subtree: button,
      childList: button, characterData: button }); }"""


def measure() -> list[Result]:
    results = []
    with chromium() as browser, running() as (url, process):
        page = browser.new_context(viewport=VIEWPORT).new_page()
        page.goto(url)
        page.wait_for_selector(PAINTED)
        page.wait_for_selector(IDLE)
        for number, lab in enumerate(LABS, 1):
            before = _held(process)
            page.goto(f"{url}{lab.address}")
            page.wait_for_selector(IDLE)
            page.wait_for_selector("[data-testid=stPageLink]")  # the end of the page
            page.wait_for_selector(IDLE)
            if lab.key in FOLDED:
                page.get_by_text(FOLDED[lab.key]).click()
            page.evaluate(NOTE)
            seconds = [_change(page, lab, i) for i in range(REPEATS + 2)][2:]
            grown = (_held(process) - before) / MIB
            middle = sorted(seconds)[len(seconds) // 2]
            results.append(
                Result(
                    f"{number}. {lab.title}",
                    spread(seconds, 1e3, " ms"),
                    beside=f"{grown:,.0f} MiB, at most {MOST}",
                    aim=f"{AIM * 1e3:,.0f} ms",
                    met=at_most(middle, AIM) and grown <= MOST,
                )
            )
    return results


def _held(process: int) -> int:
    return status("VmRSS", process) if Path(f"/proc/{process}/status").exists() else 0


def _change(page: Any, lab: Lab, i: int) -> float:
    """Change the lab's control -> seconds until all is drawn."""
    page.evaluate(WATCH, lab.key in BUTTONS)
    before = page.evaluate("location.search")
    if lab.key in BUTTONS:
        page.get_by_text(BUTTONS[lab.key][i % 2], exact=True).first.click()
    else:
        slider = page.get_by_role("slider", name=SLIDERS.get(lab.key)).first
        slider.focus()
        # on and on: the browser keeps what it has drawn before
        at_end = slider.evaluate("slider => slider.value === slider.min")
        slider.press("End" if at_end else "ArrowLeft")
    begun = f"(window.began || location.search !== {before!r})"
    done = until_painted(page, f"() => {begun} && {RUNS} === 'notRunning'")
    return (done - page.evaluate("acted")) / 1e3
