"""Waits for the mark by which the app says that it is ready (components/page/ready.js)."""

import contextlib
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Page

RUN = 400_000  # ms, of the wait for a run: an app's first one loads torch and transformers
READY = "() => Number(document.documentElement.dataset.ready)"  # NaN while it works

# Notes that something is on its way to the page, or has come (components/shared/readiness.js).
# Returns the ready mark and the visibility of the progress bar right afterwards.
PENDING = """(isPending) => {
  const { pending, onChange } = globalThis[Symbol.for("mha_viz.readiness")];
  pending[isPending ? "add" : "delete"]("a late number");
  onChange();
  const bar = document.getElementById("page-progress");
  return [document.documentElement.dataset.ready, getComputedStyle(bar).visibility];
}"""


def wait_until(page: Page, condition: str, timeout: int = RUN) -> Any:
    """Return what a function of the page returns, once it holds.

    Playwright's own `wait_for_function` has the page make a script of a string again and again,
    which the app's content security policy forbids.

    Args:
        page: that is asked, often.
        condition: a JavaScript function without arguments.
        timeout: in milliseconds.
    """
    return page.evaluate(
        f"""() => new Promise((done, fail) => {{
          const end = performance.now() + {timeout}, holds = {condition};
          const look = () => {{
            const held = holds();
            if (held) done(held);
            else if (performance.now() > end) fail(new Error("it never held: " + holds));
            else setTimeout(look, 40);
          }};
          look();
        }})"""
    )


def next_frame(page: Page) -> None:
    """Return once a frame has been drawn, with the events of what was scrolled before."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")


def wait_ready(page: Page, after: int = 0) -> int:
    """Return the number of the run whose pictures are painted, once it is greater than `after`.

    What a component of ours causes is waited for. What a widget of Streamlit causes is not, until
    the server has heard of it: use `next_run` around the action.
    """
    return int(wait_until(page, f"() => ({READY})() > {after} && ({READY})()"))


@contextlib.contextmanager
def next_run(page: Page) -> Iterator[None]:
    """Leave the block once a run that began after its beginning has painted all its pictures."""
    before = wait_ready(page)
    yield
    wait_ready(page, before)
