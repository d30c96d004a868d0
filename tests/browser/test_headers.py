"""The browser refuses what a stranger might bring into a page.

That no page of the app needs what is refused is seen in all other tests of browsers: each fails
where a page reports an error, as a browser does of what its policy forbids.
"""

import pytest
from playwright.sync_api import Browser

from tests.browser.idle import wait_idle

REFUSED = """async () => {
  const seen = [];
  addEventListener("securitypolicyviolation", event => seen.push(event.effectiveDirective));
  window.done = "nothing";
  const script = document.createElement("script");
  script.textContent = "window.done = 'a script in the page'";
  document.body.append(script);
  const button = document.createElement("button");
  button.setAttribute("onclick", "window.done = 'an attribute'");
  document.body.append(button);
  button.click();
  await fetch("http://localhost:9/").catch(() => {});
  button.remove();
  for (let i = 0; i < 100 && seen.length < 3; i++) await new Promise(done => setTimeout(done, 50));
  return [window.done, ...new Set(seen)].join(" | ");
}"""


@pytest.mark.journey
def test_scripts_in_the_page_and_other_hosts_are_refused(browser: Browser, app_url: str) -> None:
    page = browser.new_context(base_url=app_url).new_page()  # what it reports is no fault
    page.goto("/glossary")
    wait_idle(page)
    done, *refused = page.evaluate(REFUSED).split(" | ")
    assert done == "nothing"
    assert set(refused) >= {"script-src-elem", "script-src-attr", "connect-src"}
    page.context.close()
