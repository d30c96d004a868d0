"""A page that is loaded again has a text that is too long for its address, and nobody else has."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from mha_viz.ui.state.views import DEFAULT
from tests.browser.idle import run_asked_for, wait_until
from tests.browser.tabs import OpenPage

LONG = " ".join(f"The {number} old dogs slept." for number in range(80))  # for no address
ADDRESS = "/intervene?model=tiny-gpt2&off=0.1,1.2&place=300"
LEFT = """[sessionStorage.getItem("mha_viz texts")?.slice(0, 300),
  performance.getEntriesByType("navigation").map(({ type, name }) => [type, name]),
  performance.navigation.type]"""
FULL = """Object.defineProperty(window, "sessionStorage", {
  get() { throw new DOMException("The quota has been exceeded.", "QuotaExceededError"); } })"""
# What the server says is heard after five seconds: longer than the page waits to send a text again.
SLOW = """window.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    const heard = new WeakSet();
    this.addEventListener("message", (event) => {
      if (heard.has(event)) return;
      event.stopImmediatePropagation();
      const again = new MessageEvent("message", { data: event.data });
      heard.add(again);
      window.late = (window.late ?? 0) + 1;
      setTimeout(() => this.dispatchEvent(again) && window.late--, 5000);
    });
  }
}"""


def type_text(page: Page, text: str) -> None:
    sentence = page.get_by_label("Sentence", exact=True)
    sentence.fill(text)
    with run_asked_for(page):
        sentence.press("Enter")


def shows(page: Page, text: str) -> None:
    try:
        expect(page.get_by_label("Sentence", exact=True)).to_have_value(text)
    except AssertionError as error:  # whether it was never kept, never taken, or replaced again
        error.add_note(f"{page.url}: {page.evaluate(LEFT)}")
        raise
    expect(page.get_by_text("2 of 32 heads off")).to_be_visible()


def test_a_long_text_is_there_after_a_reload_and_in_no_other_page(
    open_page: OpenPage, wait_idle: Callable[[Page], None]
) -> None:
    page = open_page(ADDRESS)
    type_text(page, LONG)
    wait_idle(page)
    shows(page, LONG)
    address = page.url
    assert "text=" not in address and "off=" in address

    page.reload()
    wait_idle(page)
    shows(page, LONG)
    assert page.url == address  # with the place, which the example does not have

    page.goto("/_stcore/health")
    page.go_back()
    wait_idle(page)
    shows(page, LONG)

    page.goto("/_stcore/health")  # to go where one is may be to load it again
    other = page.context.new_page()
    for opened in (other, page):  # a link begins anew, in this tab as well
        opened.goto(address)
        wait_idle(opened)
        shows(opened, DEFAULT.text)


def test_a_browser_that_stores_nothing_begins_with_the_address(
    open_page: OpenPage, wait_idle: Callable[[Page], None]
) -> None:
    page = open_page()
    page.add_init_script(FULL)
    page.goto(ADDRESS)
    wait_idle(page)
    type_text(page, LONG)
    wait_idle(page)
    shows(page, LONG)
    page.reload()
    wait_idle(page)
    shows(page, DEFAULT.text)
    page.close()  # the next test has a storage


def test_a_page_that_hears_late_asks_again_and_loses_nothing(
    open_page: OpenPage, wait_idle: Callable[[Page], None]
) -> None:
    page = open_page(ADDRESS)
    type_text(page, LONG)
    wait_idle(page)
    page.add_init_script(SLOW)
    page.reload()
    for _ in range(2):  # what was asked again before the text was there is answered after it
        shows(page, LONG)
        wait_until(page, "() => talk.begun >= talk.asked && talk.ended >= talk.begun && !late")
    page.close()  # the next test hears at once
