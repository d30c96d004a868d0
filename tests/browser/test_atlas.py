"""An atlas in a browser: opened from a disk, without a network."""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.making.hostile_study import HOSTILE, N_HEADS, N_LAYERS, hostile_model, hostile_study


@pytest.mark.journey
def test_an_atlas_opens_from_a_disk_and_leads_to_the_workbench(
    browser: Browser, tmp_path: Path
) -> None:
    model = hostile_model()
    first = hostile_study(model, tmp_path).atlas(tmp_path / "atlas", model)
    context = browser.new_context(offline=True)
    page, faults = context.new_page(), list[str]()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: faults.append(line.text))
    page.on("request", lambda asked: asked.url.startswith("file:") or faults.append(asked.url))
    page.goto(first.as_uri())
    dots = page.locator(".scatter-plot a")
    expect(dots).to_have_count(N_LAYERS * N_HEADS)
    page.get_by_label("Across").select_option("head")
    page.get_by_label("95 % intervals").check()
    expect(page.locator(".scatter-plot .interval").first).to_be_attached()
    assert parse_qs(urlsplit(page.url).fragment)["x"] == ["head"]
    page.reload()
    expect(page.get_by_label("Across")).to_have_value("head")
    dots.first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".scatter-plot .tip b")).to_have_text("L0 H1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("L0 H1")
    examples = page.locator(".example")
    expect(page.locator(".example .sentence-arcs[data-painted]")).to_have_count(examples.count())
    assert any(HOSTILE[1] in text for text in page.locator(".example .line").all_inner_texts())
    assert page.locator("img, .example b > *").count() == 0
    expect(page.locator("#space-plots [data-painted]")).to_have_count(4)
    page.locator("#spaces summary").click()
    n_tokens = page.evaluate("mhaAtlas.sample.label.length")
    assert n_tokens > 0
    expect(page.locator("#spaces tbody tr")).to_have_count(n_tokens)  # filled once it is open
    expect(page.locator("#spaces th")).to_have_count(4 + 2 * 4)
    page.locator("#space-controls").get_by_label("Up").select_option("0")  # the same as across
    expect(page.locator("#spaces th")).to_have_count(4 + 4)
    page.get_by_role("link", name="All heads on this text").first.click()
    head = page.locator("#bench .head-view")
    expect(head).to_have_attribute("data-selected", "L0 H1")
    text = urlsplit(page.url).fragment
    page.locator("#bench .head-grid canvas[tabindex]").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):  # the first one shows the head
        page.keyboard.press(key)
    expect(head).to_have_attribute("data-selected", "L1 H1")
    page.get_by_role("link", name="Open the page of L1 H1").click()
    expect(page).to_have_url(re.compile(rf"heads/L1H1\.html#{text}$"))
    expect(page.locator("#bench .head-view")).to_have_attribute("data-selected", "L1 H1")
    context.close()
    assert not faults
