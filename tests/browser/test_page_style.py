"""Pages do not jump while they load: the style of all pages is there before their first picture."""

import pytest

from tests.browser.idle import wait_idle

SEEN = """(() => {
  window.seen = new Set();
  const look = () => {
    const page = document.querySelector("[data-testid=stMainBlockContainer]");
    if (page) window.seen.add(getComputedStyle(page).paddingTop);
    requestAnimationFrame(look);
  };
  look();
})()"""


@pytest.mark.parametrize("path", ["/", "/compare?section=sides", "/learn", "/intervene"])
def test_a_page_stands_where_it_stays_from_its_first_frame(browser, app_url, path):
    context = browser.new_context(base_url=app_url, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(SEEN)
    page.goto(path)
    wait_idle(page)
    assert page.evaluate("[...window.seen]") == ["60px"]
    context.close()
