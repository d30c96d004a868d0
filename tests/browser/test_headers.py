"""The browser refuses what a stranger might bring into a page.

That no page of the app needs what is refused is seen in all other tests of browsers: each fails
where a page reports an error, as a browser does of what its policy forbids.
"""

from playwright.sync_api import Browser

from tests.browser.ready import wait_ready, wait_until

FORBIDDEN = """async () => {
  window.violations = [], window.ran = [];
  addEventListener("securitypolicyviolation", (event) => violations.push(event.effectiveDirective));
  const script = document.createElement("script");
  script.textContent = "window.ran.push('a script in the page')";
  document.body.append(script);
  const button = document.createElement("button");
  button.setAttribute("onclick", "window.ran.push('an attribute')");
  document.body.append(button);
  button.click();
  await fetch("http://localhost:9/").catch(() => {});
  button.remove();
}"""


def test_scripts_in_the_page_and_other_hosts_are_refused(browser: Browser, app_url: str) -> None:
    page = browser.new_context(base_url=app_url).new_page()  # what it reports is no fault
    page.goto("/glossary")
    wait_ready(page)
    page.evaluate(FORBIDDEN)
    wait_until(page, "() => new Set(violations).size >= 3")
    expected = {"script-src-elem", "script-src-attr", "connect-src"}
    assert set(page.evaluate("violations")) >= expected
    assert page.evaluate("ran") == []
    page.context.close()
