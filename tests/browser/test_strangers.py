"""Strangers' texts in a real Chromium: nothing of them comes alive, in the app and its exports.

That no page of the app needs what the browser refuses is seen in all other tests of browsers: each
fails where a page reports an error, as a browser does of what its policy forbids.
"""

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, expect

from mha_viz.plots.heatmap import head_html
from mha_viz.text.from_weights import record
from mha_viz.web.payload import grid_payload
from mha_viz.web.standalone import grid_html
from tests.browser.demo_components import made_up
from tests.browser.ready import next_run, wait_ready, wait_until
from tests.strangers.hostile_texts import MARKUP
from tests.strangers.shown import TYPED

# Elements that run a script, request a picture, or lead to a stranger.
LIVE_MARKUP = (
    "img[src=x], img[src=q], img[src*='x.png'], svg[onload], iframe[srcdoc*=alert], .katex-html,"
    "a[href*=javascript], a[href*='q.example'], a[href*='example.org'], script:text('alert(1)')"
)


def dialogs(page: Page) -> list[str]:
    """Collect the dialogs that a script opens from now on; the fixtures watch all requests."""
    messages: list[str] = []
    page.on("dialog", lambda dialog: (messages.append(dialog.message), dialog.dismiss()))
    return messages


def test_nothing_runs_in_an_exported_page(open_page, tmp_path: Path) -> None:
    pattern = made_up(2, 2, len(MARKUP), len(MARKUP))
    words = {"title": " ".join(MARKUP), "caption": TYPED}
    pages = {
        "grid": (grid_html(grid_payload(record(pattern, list(MARKUP))), **words), "[data-painted]"),
        "head": (head_html(pattern[0, 0], (MARKUP, MARKUP), **words), ".heatmaplayer image"),
    }
    page = open_page("/glossary")
    opened = dialogs(page)
    for name, (text, drawn) in pages.items():
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
        page.goto((tmp_path / f"{name}.html").as_uri())
        page.locator(drawn).first.wait_for()
        assert TYPED in page.locator("p").last.inner_text()
        assert page.locator(LIVE_MARKUP).count() == 0
    assert not opened


def test_files_of_a_figure_have_a_hostile_text_as_text(open_page, tmp_path: Path) -> None:
    text = f"<b>q</b> {TYPED[:99]}"  # plotly reads the first as bold; captions cut long texts
    page = open_page(f"/compare?section=flow&{urlencode({'text': text})}")
    opened = dialogs(page)
    with next_run(page):
        page.get_by_role("button", name="Export").first.click()
    files = {}
    for label in ("PNG", "SVG", "CSV", "HTML"):
        with page.expect_download() as started:
            page.get_by_role("button", name=label, exact=True).first.click()
        files[label] = tmp_path / started.value.suggested_filename
        started.value.save_as(files[label])
    assert all(re.fullmatch(r"[\w.-]+", path.name) for path in files.values())
    root = ET.parse(files["SVG"]).getroot()
    assert text in " ".join(" ".join(root.itertext()).split())
    assert not root.findall(".//{http://www.w3.org/2000/svg}script")
    assert text in files["CSV"].read_text("utf-8")
    page.goto(files["HTML"].as_uri())
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    expect(page.locator("p")).to_contain_text(text)
    assert page.locator(LIVE_MARKUP).count() == 0
    assert not opened


def test_nothing_of_a_link_or_a_text_runs_in_the_app(open_page) -> None:
    text = f"the cat {TYPED}"
    for path in ("/compare?section=sides", "/?off=0.1&how=mean"):
        query = urlencode({"text": text, "text_b": TYPED, "target": TYPED, "sort": TYPED})
        page = open_page(f"{path}&{query}")
        opened = dialogs(page)
        page.reload()
        wait_ready(page)
        assert TYPED in page.get_by_role("textbox").first.input_value()
        assert page.locator(LIVE_MARKUP).count() == 0
        assert not opened


def test_tables_have_no_download_that_keeps_formulas(open_page) -> None:
    page = open_page("/?text=" + "%3D1%2B1+the+cat")
    page.get_by_text("All heads as a table").click()
    table = page.get_by_test_id("stDataFrame").last
    table.hover()
    tools = page.get_by_test_id("stElementToolbar").last
    expect(tools.get_by_role("button").first).to_be_visible()
    assert tools.get_by_role("button", name="Download as CSV").count() == 0


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
