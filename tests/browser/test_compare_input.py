"""Input of the Compare page, typed or put into its address, in a real Chromium."""

import re

import pytest
from playwright.sync_api import expect

from mha_viz.ui.state.views import SECTIONS
from tests.browser.compare_page import plot


def test_hostile_text_stays_text(open_page, wait_idle):
    hostile = (
        "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'> $x^2$ **b** "
        "http://a.b www.a.b me@a.b %{y}"
    )
    page = open_page()
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", name="Compare heads")).to_be_visible()
    box = page.get_by_label("Sentence", exact=True)
    box.fill(hostile)
    box.press("Enter")
    page.wait_for_url(re.compile("script"))
    wait_idle(page)
    typed = page.url
    for section, name in SECTIONS.items():
        if section == "sides":
            page.goto(f"{typed}&section=sides&text_b=b {hostile}")
        page.get_by_role("radio", name=re.compile(rf"^{re.escape(name)}( \(1\))?$")).click()
        wait_idle(page)
        plot(page)
        if section == "sides":
            page.get_by_role("button", name=re.compile("^Pin A")).first.click()
            wait_idle(page)
        assert page.get_by_test_id("stAlertContentError").count() == 0, section
        assert page.evaluate("window.hacked") is None, section
        main = page.get_by_test_id("stMain")
        assert main.locator("a[href*='a.b']").count() == 0, section
        marks = main.locator("[data-testid=stMarkdown] :is(img, script, .katex)")
        assert marks.count() == 0, section


def test_a_long_text_is_cut_and_said_to_be(open_page, wait_idle):
    page = open_page("/compare?section=twins")
    box = page.get_by_label("Sentence", exact=True)
    box.fill("the cat sat " * 33_334)
    box.press("Enter")
    expect(page.get_by_text(re.compile("was cut to 128 tokens"))).to_be_visible()
    wait_idle(page)
    plot(page)
    assert page.get_by_test_id("stAlertContentError").count() == 0


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("section=nonsense", "is not valid"),
        ("section=twins&layer_b=99", "There is no L99 H1"),
        ("section=sides&model_b=../../etc", "is not valid"),
        ("metric=unknown", "There is no metric"),
        ("section=twins&clusters=0", "is not valid"),
    ],
)
def test_a_bad_link_says_so_and_shows_something(open_page, link, message):
    page = open_page(f"/compare?{link}")
    expect(page.get_by_text(message).first).to_be_visible()
    plot(page)
