"""The wait for a page of the app to be at rest: it has asked, heard and drawn what there was."""

import contextlib
from collections.abc import Iterator

from playwright.sync_api import Page

RUN = 400_000  # ms, of the wait for a run: an app's first one loads torch and transformers
IDLE = """() => document.querySelector("[data-testid=stApp][data-test-script-state=notRunning]")
  && !document.querySelector("[data-testid=stSkeleton]")"""  # where a chart will be
# Notes when a page asks the server for a run, and when a run has begun there and ended. The first
# byte tells what asks for a run (BackMsg.rerun_script) from what need not be answered; of what is
# heard (ForwardMsg) the first field that is neither a hash nor metadata tells the kind. And keeps
# the timers that are soon due: Streamlit sends some of what was chosen after a short delay (of
# 200 ms, the slider's).
WATCH = """(() => {
  const RERUN_SCRIPT = 0x5a;
  const HASH = 0x0a, METADATA = 0x12, NEW_SESSION = 0x22, SCRIPT_FINISHED = 0x30;
  const FOR_ANOTHER = 2; // how a run ends that another one follows at once
  const talk = (window.talk = {
    count: 0, asked: 0, begun: 0, ended: 0, heard: 0, several: false, soon: new Set() });
  const kind = (bytes) => {
    for (let at = 0; ; ) {
      const field = bytes[at++];
      if (field !== HASH && field !== METADATA) return [field, bytes[at]];
      let length = 0, byte = 128;
      for (let shift = 0; byte > 127; shift += 7) length |= ((byte = bytes[at++]) & 127) << shift;
      at += length;
    }
  };
  window.WebSocket = class extends WebSocket {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => {
        talk.count += 1;
        talk.heard = performance.now();
        const [heard, how] = data instanceof ArrayBuffer ? kind(new Uint8Array(data)) : [];
        if (heard === NEW_SESSION) talk.begun = talk.count;
        if (heard === SCRIPT_FINISHED && how !== FOR_ANOTHER) talk.ended = talk.count;
      });
    }
    send(data) {
      const bytes = ArrayBuffer.isView(data) ? data : new Uint8Array(data);
      if (bytes[0] === RERUN_SCRIPT) {
        talk.several = talk.begun < talk.asked; // the one before waits, too
        talk.asked = talk.count += 1;
      }
      super.send(data);
    }
  };
  const { setTimeout, clearTimeout } = window;
  window.setTimeout = (call, delay = 0, ...given) => {
    if (typeof call !== "function" || delay > 250) return setTimeout(call, delay, ...given);
    const timer = setTimeout((...values) => {
      talk.soon.delete(timer);
      call(...values);
    }, delay, ...given);
    talk.soon.add(timer);
    return timer;
  };
  window.clearTimeout = (timer) => (talk.soon.delete(timer), clearTimeout(timer));
})()"""
# What is heard after a question may still be of the run before it. Of two questions that wait, the
# first one's run may be the one that is heard: the second one's follows at once.
ANSWERED = f"""() => (!window.talk || (talk.begun >= talk.asked && talk.ended >= talk.begun
    && (!talk.several || performance.now() - talk.heard > 400)))
  && ({IDLE})()"""
# By the page's own frames and in its own queue: what a click has put there, at once or after a
# short delay, comes before. What came last is drawn once there is nothing else to do. A page that
# sets one short timer after another is waited for no longer than such a delay takes. What unfolds
# moves for half a second: a press that begins on a button and ends beside it is no click.
REST = """() => new Promise((done) => {
  const end = performance.now() + 300, ends = (each) => each.effect?.getComputedTiming().endTime;
  const moving = () => document.getAnimations().some(
    (each) => each.playState === "running" && Number.isFinite(ends(each)) && ends(each) < 2000);
  const look = () => requestAnimationFrame(() => requestIdleCallback(() => {
    if ((window.talk?.soon.size && performance.now() < end) || moving()) look();
    else done(window.talk?.count ?? 0);
  }, { timeout: 5000 }));
  look();
})"""


def wait_until(page: Page, condition: str, timeout: int = RUN) -> None:
    """Return when a function of the page says so.

    Playwright's own `wait_for_function` has the page make a script of a string again and again,
    which the app's content security policy forbids.

    Args:
        page: that is asked, often.
        condition: a JavaScript function without arguments.
        timeout: in milliseconds.
    """
    page.evaluate(
        f"""() => new Promise((done, fail) => {{
          const end = performance.now() + {timeout}, holds = {condition};
          const look = () => holds() ? done()
            : performance.now() > end ? fail(new Error("it never held: " + holds))
            : setTimeout(look, 40);
          look();
        }})"""
    )


@contextlib.contextmanager
def run_asked_for(page: Page) -> Iterator[None]:
    """Leave the block once the page has asked the server for another run than before it."""
    before = page.evaluate("talk.asked")
    yield
    wait_until(page, f"() => talk.asked > {before}")


def wait_idle(page: Page) -> None:
    """Return when the app has done what was asked of it last."""
    said = -1
    while said != (said := page.evaluate(REST)):  # until nothing is asked and nothing comes
        wait_until(page, ANSWERED)
