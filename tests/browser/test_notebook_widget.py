"""`record.explore()` in a notebook: the widget's script in a browser, its traits in Python."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import mha_viz as mv
from tests.browser.ready import wait_until
from tests.browser.workbench_page import click_head, name_of, word

pytest.importorskip("anywidget")
from mha_viz.explorer import Explorer
from tests.waiting import wait_for

# The part of a notebook that a widget sees: traits that travel both ways, and an element.
NOTEBOOK = """async ([script, traits]) => {
  const decode = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const listeners = {};
  const take = (news) => {
    for (const name of ["payload", "exact"]) if (name in news) news[name] = decode(news[name]);
    Object.assign(traits, news);
    for (const name of Object.keys(news)) listeners[`change:${name}`]?.forEach((hear) => hear());
  };
  const model = {
    get: (name) => traits[name],
    set: (name, value) => (traits[name] = value),
    save_changes: async () => {
      window.asked = (window.asked ?? 0) + 1;
      take(await window.send(traits.sent));
      window.answered = (window.answered ?? 0) + 1;
    },
    on: (name, hear) => (listeners[name] ??= []).push(hear),
  };
  take(traits);
  const file = new Blob([script], { type: "text/javascript" });
  const { default: widget } = await import(URL.createObjectURL(file));
  widget.render({ model, el: document.getElementById("output") });
}"""


@pytest.fixture
def notebook(browser: Any) -> Any:
    """`notebook(explorer)` is a page on which that widget is drawn, its answers from Python."""
    page = browser.new_context(viewport={"width": 1100, "height": 900}).new_page()
    page.set_content("<body style='background: white'><div id='output'></div></body>")
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))

    def draw(explorer: Explorer) -> Page:
        def traits(*names: str) -> dict[str, Any]:
            values = {name: getattr(explorer, name) for name in names}
            return {name: _text(value) for name, value in values.items()}

        def send(message: dict[str, Any]) -> dict[str, Any]:
            explorer.sent = message
            return traits("exact", "settings")

        page.expose_function("send", send)
        all_of_them = traits("payload", "exact", "settings", "styles", "themes")
        page.evaluate(NOTEBOOK, [explorer._esm, all_of_them])
        return page

    yield draw
    assert faults == []
    page.context.close()


def _text(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _wait_for(page: Page, holds: Callable[[], bool]) -> None:
    """Return when Python has heard it; the page gathers what comes close together."""

    def heard() -> bool:
        page.evaluate("new Promise(requestAnimationFrame)")  # Python hears a page while it asks it
        return holds()

    wait_for(heard, "a choice to reach Python")


def test_a_choice_stays_and_reaches_python(notebook: Callable[[Explorer], Page]) -> None:
    explorer = Explorer(mv.load("tiny-bert").trace("The cat sat on the mat."), (1, 1))
    page = notebook(explorer)
    expect(name_of(page)).to_have_text("L1 H1")
    click_head(page, 2, 5)
    expect(name_of(page)).to_have_text("L2 H5")
    _wait_for(page, lambda: explorer.selected == (2, 5))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    word(page, 2).click()
    _wait_for(page, lambda: (explorer.selected, explorer.pair[0]) == ((3, 6), 2))
    wait_until(page, "() => window.answered === window.asked")
    # Python's answer came after the choice, and took none of it back.
    expect(name_of(page)).to_have_text("L3 H6")
    expect(word(page, 2)).to_have_attribute("aria-pressed", "true")
