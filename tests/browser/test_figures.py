"""Figures with their table, files and clicks, in a real Chromium."""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from mha_viz.web import theme
from tests.browser.compare_page import no_double_click
from tests.browser.demo_figures import HOSTILE

Show = Callable[..., Page]
Wait = Callable[[Page], None]
PHONE = {"width": 390, "height": 844}


def points(page: Page):
    """The dots of the first figure."""
    found = page.locator(".js-plotly-plot").first.locator(".points path")
    found.first.wait_for()
    return found


def dots(page: Page) -> list[int]:
    """Which of the drawn points are dots and not bars."""
    radius = "points => points.map((path, i) => path.closest('.scatter') ? i : -1)"
    return [i for i in points(page).evaluate_all(radius) if i >= 0]


def click_dot(page: Page, number: int, wait_idle: Wait, **options) -> None:
    box = points(page).nth(dots(page)[number]).bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, **options)
    no_double_click(page)
    wait_idle(page)


def open_export(page: Page, wait_idle: Wait) -> None:
    points(page)
    page.get_by_role("button", name="Export").first.click()
    wait_idle(page)
    page.get_by_role("button", name="HTML", exact=True).wait_for()


def download(page: Page, label: str, folder: Path) -> Path:
    with page.expect_download() as started:
        page.get_by_role("button", name=label, exact=True).click()
    target = folder / started.value.suggested_filename
    started.value.save_as(target)
    return target


def hide_library(page: Page) -> None:
    """Take away the plotly.js that Streamlit leaves in the window."""
    page.evaluate("delete window.Plotly")


def said(page: Page) -> str:
    return page.get_by_text(re.compile("^clicked ")).inner_text()


@pytest.mark.extended
@pytest.mark.journey
def test_a_click_comes_back_once_and_only_the_fragment_runs(show_figures: Show, wait_idle: Wait):
    page = show_figures()
    click_dot(page, 5, wait_idle)
    assert said(page) == "clicked [[1, 1]]"
    page.get_by_role("button", name="Run the fragment again").click()
    wait_idle(page)
    assert said(page) == "clicked [[1, 1]]"
    page.get_by_role("button", name="Run all again").click()
    wait_idle(page)
    assert said(page) == "clicked [[1, 1]]"
    expect(page.get_by_text("app runs 2")).to_be_visible()


def test_every_click_counts_also_on_the_same_point(show_figures: Show, wait_idle: Wait):
    page = show_figures()
    for number in (2, 2, 2, 11):
        click_dot(page, number, wait_idle)
    assert said(page) == "clicked [[0, 2], [0, 2], [0, 2], [2, 3]]"


def test_a_click_dims_nothing(show_figures: Show, wait_idle: Wait):
    page = show_figures()
    opacities = "paths => paths.map((path) => getComputedStyle(path).opacity)"
    before = points(page).evaluate_all(opacities)
    click_dot(page, 0, wait_idle)
    assert points(page).evaluate_all(opacities) == before


def test_a_point_without_data_does_not_answer(show_figures: Show, wait_idle: Wait):
    page = show_figures()
    bar = next(i for i in range(points(page).count()) if i not in dots(page))
    points(page).nth(bar).click(position={"x": 40, "y": 30}, force=True)
    no_double_click(page)
    wait_idle(page)
    assert said(page) == "clicked []"


@pytest.mark.parametrize("context", [{}, {"viewport": PHONE, "color_scheme": "dark"}])
def test_the_table_opens_below_its_figure(show_figures: Show, wait_idle: Wait, context):
    page = show_figures(**context)
    assert page.get_by_test_id("stDataFrame").count() == 0
    page.get_by_text("As a table").first.click()
    wait_idle(page)
    table = page.get_by_test_id("stDataFrame")
    table.wait_for()
    box = table.bounding_box()
    assert box and box["width"] > 0.75 * page.viewport_size["width"]
    expect(page.get_by_text("app runs 1")).to_be_visible()
    expect(page.get_by_text("fragment runs 1")).to_be_visible()  # nor was the figure made again
    width = "document.documentElement.scrollWidth"
    assert page.evaluate(width) <= page.viewport_size["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_png_and_svg_hold_figure_and_caption(
    show_figures: Show, wait_idle: Wait, tmp_path: Path, scheme
):
    page = show_figures(color_scheme=scheme, viewport=PHONE)
    open_export(page, wait_idle)
    with Image.open(download(page, "PNG", tmp_path)) as image:
        assert image.width == 2000 and 720 < image.height < 900  # a phone's width does not matter
        shot = np.asarray(image.convert("RGB"))
    ground = np.array(theme.rgb(theme.paper(scheme == "dark")))
    assert (shot[2, 2] == ground).all()
    drawn = (np.abs(shot.astype(int) - ground) > 40).any(-1)
    assert 0.02 < drawn.mean() < 0.6
    assert drawn[-140:, :800].any() and not drawn[-20:].any()  # the caption, whole
    root = ET.parse(download(page, "SVG", tmp_path)).getroot()
    text = " ".join(" ".join(root.itertext()).split())
    assert "Dots and bars" in text and "tiny-bert · The old dog" in text
    assert "square-root colours" in text


def test_a_library_of_our_own_comes_once_where_the_page_has_none(
    show_figures: Show, wait_idle: Wait, tmp_path: Path
):
    page = show_figures()
    scripts: list[str] = []
    page.on("request", lambda asked: "/media/" in asked.url and scripts.append(asked.url))
    open_export(page, wait_idle)
    hide_library(page)
    assert not scripts  # it comes with the first click, not with the menu
    with Image.open(download(page, "PNG", tmp_path)) as image:
        assert image.width == 2000
    page.keyboard.press("Escape")
    wait_idle(page)
    page.get_by_role("button", name="Export").last.click()
    wait_idle(page)
    assert download(page, "SVG", tmp_path).name == "second.svg"
    assert len(scripts) == 1


def test_hostile_names_stay_text_in_every_file(show_figures: Show, wait_idle: Wait, tmp_path: Path):
    page = show_figures("hostile")
    expect(page.get_by_text("Each dot is a head of <script>alert(1)</script>")).to_be_visible()
    assert page.locator("[data-testid=stCaptionContainer] :is(b, script, .katex)").count() == 0
    open_export(page, wait_idle)
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
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(files["HTML"].as_uri())
    page.locator(".points path").first.wait_for()
    assert page.locator("h1").inner_text() == HOSTILE
    expect(page.locator("p")).to_contain_text(f"{HOSTILE} · The old dog")
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]


def test_a_library_that_does_not_come_is_said_and_tried_again(
    show_figures: Show, wait_idle: Wait, tmp_path: Path
):
    page = show_figures()
    page.route("**/media/*", lambda route: route.fulfill(body="", content_type="text/javascript"))
    open_export(page, wait_idle)
    hide_library(page)
    page.get_by_role("button", name="PNG", exact=True).click()
    expect(page.get_by_text("did not come from the server")).to_be_visible()
    page.unroute("**/media/*")
    assert download(page, "PNG", tmp_path).name == "tiny-bert.png"
    expect(page.get_by_text("did not come from the server")).to_be_hidden()


def test_the_button_says_that_it_is_drawing(show_figures: Show, wait_idle: Wait):
    page = show_figures()
    page.route("**/media/*", lambda route: None)  # never answered
    open_export(page, wait_idle)
    hide_library(page)
    page.get_by_role("button", name="SVG", exact=True).click()
    busy = page.get_by_role("button", name="Drawing …")
    expect(busy).to_have_attribute("aria-busy", "true")
