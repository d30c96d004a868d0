"""Figures with their table, files and clicks, in a real Chromium.

What a button for files does where plotly.js fails is tested in test_figure_download.js.
"""

import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Page, expect

from tests.browser.compare_page import click_dot
from tests.browser.demo_figures import HOSTILE
from tests.browser.ready import next_run
from tests.browser.tabs import OpenPage


def open_export(page: Page) -> None:
    with next_run(page):
        page.get_by_role("button", name="Export").click()
    page.get_by_role("button", name="HTML", exact=True).wait_for()


def download(page: Page, label: str, folder: Path) -> Path:
    with page.expect_download() as started:
        page.get_by_role("button", name=label, exact=True).click()
    target = folder / started.value.suggested_filename
    started.value.save_as(target)
    return target


def test_figure_counts_each_click_once_and_runs_only_its_fragment(show_figures: OpenPage) -> None:
    page = show_figures()
    clicks = page.get_by_text(re.compile("^clicked "))
    opacities = "paths => paths.map((path) => getComputedStyle(path).opacity)"
    points = page.locator(".js-plotly-plot").first.locator(".points path")
    before = points.evaluate_all(opacities)
    for count, dot in enumerate((2, 2, 5), start=1):
        with next_run(page):
            click_dot(page, dot)
        expect(clicks).to_have_text(f"clicked {[[0, 2], [0, 2], [1, 1]][:count]}")
    assert points.evaluate_all(opacities) == before  # a click dims nothing
    expect(page.get_by_text("app runs 1")).to_be_visible()
    bar = page.locator(".js-plotly-plot").first.locator(".barlayer .points path").first
    bar.click(position={"x": 40, "y": 30}, force=True)  # it has no data: nothing is told
    for name in ("Run the fragment again", "Run all again"):
        with next_run(page):
            page.get_by_role("button", name=name).click()
        expect(clicks).to_have_text("clicked [[0, 2], [0, 2], [1, 1]]")


def test_figure_hostile_names_stay_text_in_every_file(
    show_figures: OpenPage, tmp_path: Path
) -> None:
    page = show_figures("hostile")
    expect(page.get_by_text("Each dot is a head of <script>alert(1)</script>")).to_be_visible()
    assert page.locator("[data-testid=stCaptionContainer] :is(b, script, .katex)").count() == 0
    open_export(page)
    files = {label: download(page, label, tmp_path) for label in ("PNG", "SVG", "CSV", "HTML")}
    assert all(re.fullmatch(r"[\w.-]+", path.name) for path in files.values())
    root = ET.parse(files["SVG"]).getroot()
    assert HOSTILE in " ".join(" ".join(root.itertext()).split())
    assert not root.findall(".//{http://www.w3.org/2000/svg}script")
    data = files["CSV"].read_bytes()
    assert data.decode().startswith(f"# {HOSTILE}\n# {HOSTILE} · The old dog\n# square-root")
    table = pd.read_csv(io.BytesIO(data), comment="#")
    assert table["Head"].tolist() == [HOSTILE, "#7 “a,b”"]
    assert table["Weight"].tolist() == pytest.approx([1 / 3, 2e-7])
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.goto(files["HTML"].as_uri())
    page.locator(".points path").first.wait_for()
    assert page.locator("h1").inner_text() == HOSTILE
    expect(page.locator("p")).to_contain_text(f"{HOSTILE} · The old dog")
    assert not [url for url in urls if not url.startswith(("file:", "data:", "blob:"))]
