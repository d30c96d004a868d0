"""The head grid and the token lines in a real Chromium, inside a small app of their own."""

import base64
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, WebSocket, expect

from mha_viz.plots.payload import grid_payload
from mha_viz.plots.standalone import fragment, grid_html, head_html
from tests.browser.demo_components import WORDS, made_up

ROOT = Path(__file__).parents[2]
HOSTILE = ["<b>x</b>", "<script>alert(1)", "$a$ $b$", "&lt;i&gt;", "<a href='x'>y</a>"]
DEMO = Path(__file__).with_name("demo_components.py")

pytestmark = pytest.mark.xdist_group("components")


@pytest.fixture(scope="module")
def demo_url(chromium: str) -> Iterator[str]:
    """The demo app on a free port, with the theme of the real one."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(DEMO), "--server.port", str(port)]
    app = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/_stcore/health", timeout=2).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url
    finally:
        app.terminate()
        try:
            app.wait(10)
        except subprocess.TimeoutExpired:
            app.kill()
            app.wait()


@pytest.fixture
def show(
    browser: Browser, demo_url: str, wait_idle: Callable[[Page], None]
) -> Iterator[Callable[..., Page]]:
    """`show(query, **context)` opens the demo; the test fails where the console has an error."""
    contexts, faults = [], []

    def show(query: str = "", **context: Any) -> Page:
        options = {"viewport": {"width": 1180, "height": 900}, "reduced_motion": "reduce"} | context
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: faults.append(f"page error: {error}"))
        page.on("console", lambda line: line.type == "error" and faults.append(line.text))
        page.goto(f"{demo_url}/?{query}")
        wait_idle(page)
        return page

    yield show
    for context in contexts:
        context.close()
    assert not faults, "\n".join(faults)


def grid(page: Page) -> Locator:
    root = page.locator(".head-grid[data-painted]")
    root.wait_for()
    return root


def lines(page: Page) -> Locator:
    root = page.locator(".token-lines[data-painted]")
    root.wait_for()
    return root


def pixels(page: Page, selector: str) -> np.ndarray:
    """The canvas's own pixels, RGBA."""
    size, data = page.locator(selector).evaluate(
        """canvas => {
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            let text = "";
            for (let i = 0; i < data.length; i += 8192)
                text += String.fromCharCode(...data.subarray(i, i + 8192));
            return [[height, width], btoa(text)];
        }"""
    )
    return np.frombuffer(base64.b64decode(data), dtype=np.uint8).reshape(*size, 4)


def tile_box(page: Page, layer: int, head: int) -> dict[str, float]:
    """Where a tile of the 4 x 8 matrix lies, from the labels around it."""
    page.locator(".head-grid .axis").first.wait_for()
    canvas = page.locator(".head-grid canvas").bounding_box()
    row = page.locator(".head-grid .axis.row", has_text=re.compile(rf"^L{layer}$")).bounding_box()
    column = page.locator(".head-grid .axis.column", has_text=re.compile(rf"^H{head}$"))
    box = column.bounding_box()
    assert canvas and row and box
    size = page.locator(".head-grid .selected").bounding_box()
    assert size
    side = size["width"] - 6
    x = box["x"] + box["width"] / 2 - side / 2
    y = row["y"] + row["height"] / 2 - side / 2
    return {"x": x, "y": y, "side": side}


def point_at(page: Page, layer: int, head: int, query: int, key: int, n: int = 12) -> None:
    tile = tile_box(page, layer, head)
    cell = tile["side"] / n
    page.mouse.move(tile["x"] + (key + 0.5) * cell, tile["y"] + (query + 0.5) * cell)


def test_grid_is_painted_in_the_colours_of_the_weights(show: Callable[..., Page]) -> None:
    page = show("only=grid&layers=2&heads=3&n=5&keys=7")
    grid(page)
    image = pixels(page, ".head-grid canvas")
    assert (image[..., 3] > 0).mean() > 0.5
    # Dark where attention is strong: the darkest pixels of each tile are where its maximum lies.
    pattern = made_up(2, 3, 5, 7)
    lightness = np.where(image[..., 3] > 0, image[..., :3].sum(-1), 999)
    columns = np.flatnonzero((image[..., 3] > 0).any(0))
    rows = np.flatnonzero((image[..., 3] > 0).any(1))
    across = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
    down = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    assert (len(down), len(across)) == (2, 3)
    for layer, head in np.ndindex(2, 3):
        tile = lightness[np.ix_(down[layer], across[head])]
        y, x = np.unravel_index(tile.argmin(), tile.shape)
        cell = (y * 5 // tile.shape[0], x * 7 // tile.shape[1])
        best = np.unravel_index(pattern[layer, head].argmax(), (5, 7))
        assert pattern[layer, head][cell] == pytest.approx(pattern[layer, head][best], rel=0.02)


def test_hover_names_head_tokens_and_the_exact_weight(show: Callable[..., Page]) -> None:
    page = show("only=grid")
    grid(page)
    pattern = made_up(4, 8, 12, 12)
    for layer, head, query, key in ((0, 0, 1, 0), (3, 7, 10, 4), (2, 5, 11, 10)):
        point_at(page, layer, head, query, key)
        tip = page.locator(".head-grid .tip")
        expect(tip.locator(".tip-title b")).to_have_text(f"L{layer} H{head}")
        weight = float(pattern[layer, head, query, key])
        text = f"{weight:#.4g}" if weight >= 1e-4 else f"{weight:.3e}"
        expect(tip.locator(".weight")).to_have_text(text)
        assert tip.locator(".token").all_text_contents() == [WORDS[query], WORDS[key]]
    assert page.locator(".head-grid .tip script, .head-grid .tip .token b").count() == 0


def test_without_exact_weights_no_more_digits_than_known(show: Callable[..., Page]) -> None:
    page = show("only=grid&coded=1")
    grid(page)
    point_at(page, 0, 1, 3, 0)
    shown = page.locator(".head-grid .tip .weight").text_content()
    assert shown and shown.startswith("≈ ") and len(shown) <= len("≈ 0.12")
    assert float(shown[2:]) == pytest.approx(made_up(4, 8, 12, 12)[0, 1, 3, 0], abs=0.006)


def test_click_selects_at_once_and_reruns_only_the_fragment(
    show: Callable[..., Page], wait_idle: Callable[[Page], None]
) -> None:
    page = show("only=grid")
    root = grid(page)
    expect(root).to_have_attribute("data-selected", "L1 H2")
    point_at(page, 3, 4, 5, 5)
    page.mouse.down()
    page.mouse.up()
    assert root.get_attribute("data-selected") == "L3 H4"
    expect(page.get_by_text("python: L3 H4 events 1 runs 2")).to_be_visible()
    wait_idle(page)
    # A second choice of another widget must not bring the click back.
    page.get_by_text("linear", exact=True).click()
    expect(page.get_by_text("python: L3 H4 events 1 runs 3")).to_be_visible()
    expect(page.get_by_text("app runs 1")).to_be_visible()
    assert root.get_attribute("data-selected") == "L3 H4"


def test_the_payload_travels_once(browser: Browser, demo_url: str, show: Any) -> None:
    context = browser.new_context(viewport={"width": 1180, "height": 900})
    page = context.new_page()
    sizes: list[int] = []

    def listen(web: WebSocket) -> None:
        web.on("framereceived", lambda frame: sizes.append(len(frame)))

    page.on("websocket", listen)
    page.goto(f"{demo_url}/?only=grid&layers=12&heads=12&n=64")
    grid(page)
    page.wait_for_timeout(500)
    assert max(sizes) > 12 * 12 * 64 * 64
    sizes.clear()
    point_at(page, 3, 4, 5, 5, n=64)
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_text("python: L3 H4 events 1")).to_be_visible()
    assert sum(sizes) < 100_000
    context.close()


def test_keyboard_moves_and_selects(show: Callable[..., Page]) -> None:
    page = show("only=grid")
    root = grid(page)
    page.locator(".head-grid canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".head-grid .live")).to_contain_text("L1 H3, entropy")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    expect(page.locator(".head-grid .live")).to_contain_text("L2 H0")
    expect(page.locator(".head-grid .focused")).to_be_visible()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(root).to_have_attribute("data-selected", "L2 H7")
    expect(page.get_by_text("python: L2 H7")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    expect(page.get_by_text("python: L2 H6 events 2")).to_be_visible()


def test_scale_changes_colours_only(show: Callable[..., Page]) -> None:
    page = show("only=grid")
    grid(page)
    before = pixels(page, ".head-grid canvas")
    page.get_by_text("log", exact=True).click()
    expect(page.locator(".head-grid .legend-kind")).to_have_text("logarithmic")
    after = pixels(page, ".head-grid canvas")
    assert after.shape == before.shape and (after != before).any()
    assert page.locator(".head-grid .tick").all_text_contents()[-1] == "1"


def test_dark_mode_follows_without_reload(show: Callable[..., Page]) -> None:
    page = show("only=grid", color_scheme="dark")
    root = grid(page)
    expect(root).to_have_attribute("data-theme", "dark")
    dark = pixels(page, ".head-grid canvas")
    page.emulate_media(color_scheme="light")
    expect(root).to_have_attribute("data-theme", "light")
    light = pixels(page, ".head-grid canvas")
    assert dark[..., :3].mean() < light[..., :3].mean() - 60


def test_ranked_tiles_flow_with_names_and_values(show: Callable[..., Page]) -> None:
    page = show("only=grid&ranked=1")
    grid(page)
    captions = page.locator(".head-grid .caption").all_text_contents()
    assert len(captions) == 32
    values = [float(re.sub(r"^L\d H\d", "", caption)) for caption in captions]
    assert values == sorted(values)
    page.locator(".head-grid canvas").click(position={"x": 40, "y": 60})
    name = re.match(r"L\d H\d", captions[0])
    assert name
    expect(page.get_by_text(f"python: {name[0]} events 1")).to_be_visible()


def test_pooled_tiles_say_so(show: Callable[..., Page]) -> None:
    page = show("only=grid&layers=2&heads=3&n=300")
    grid(page)
    expect(page.locator(".head-grid .note")).to_have_text(
        "Each cell is the largest of 3 × 3 weights."
    )
    point_at(page, 1, 1, 10, 20, n=100)
    tip = page.locator(".head-grid .tip")
    expect(tip).to_contain_text("largest of 3×3")
    expect(tip.locator(".position").first).to_have_text("30–32")
    block = made_up(2, 3, 300, 300)[1, 1, 30:33, 60:63]
    expect(tip.locator(".weight")).to_have_text(f"{block.max():#.4g}")


def test_phone_scrolls_inside_and_taps(show: Callable[..., Page]) -> None:
    page = show("only=grid", viewport={"width": 390, "height": 844}, has_touch=True)
    root = grid(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    scroller = page.locator(".head-grid .scroller")
    assert scroller.evaluate("box => box.scrollWidth > box.clientWidth")
    tile = tile_box(page, 2, 1)
    assert tile["side"] >= 44  # large enough for a thumb
    page.touchscreen.tap(tile["x"] + 20, tile["y"] + 20)
    expect(root).to_have_attribute("data-selected", "L2 H1")
    expect(page.locator(".head-grid .tip")).to_contain_text("L2 H1")


def test_a_broken_payload_is_told_in_words(show: Callable[..., Page]) -> None:
    page = show("only=grid&bad=1")
    expect(page.locator(".head-grid .message")).to_contain_text("cannot be drawn")


def test_lines_show_exact_weights_of_a_query(show: Callable[..., Page]) -> None:
    page = show("only=lines")
    lines(page)
    assert (pixels(page, ".token-lines canvas")[..., 3] > 0).mean() > 0.02
    page.locator(".token-lines .queries .row").nth(3).hover()
    row = page.locator(".token-lines .values.keys .value-row").nth(2)
    pattern = made_up(4, 8, 12, 12)
    expected = [f"{pattern[0, head, 3, 2]:#.4g}" for head in range(3)]
    expect(row.locator(".number")).to_have_text(expected)
    page.locator(".token-lines .keys .row").nth(0).hover()
    row = page.locator(".token-lines .values.queries .value-row").nth(5)
    expect(row.locator(".number").nth(1)).to_have_text(f"{pattern[0, 1, 5, 0]:#.4g}")


def test_lines_pin_pair_and_escape(show: Callable[..., Page]) -> None:
    page = show("only=lines")
    lines(page)
    page.locator(".token-lines .queries .row").nth(3).click()
    expect(page.locator(".token-lines .pinned")).to_have_count(1)
    page.locator(".token-lines .keys .row").nth(8).click()
    expect(page.get_by_text("pair: (3, 8)")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".token-lines .pinned")).to_have_count(0)


def test_lines_from_the_keyboard(show: Callable[..., Page]) -> None:
    page = show("only=lines")
    lines(page)
    page.locator(".token-lines .head").last.focus()
    page.keyboard.press("Tab")  # to the slider
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".token-lines .live")).to_contain_text("The looks at L0 H0:")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_text("pair: (1, 2)")).to_be_visible()


def test_lines_say_how_many_are_hidden_and_heads_toggle(show: Callable[..., Page]) -> None:
    page = show("only=lines")
    lines(page)
    pattern = made_up(4, 8, 12, 12)[0, :3]
    ranked = -np.sort(-pattern, axis=-1)
    before = ranked.cumsum(-1) - ranked
    kept = (before < 0.9 - 1e-6).sum((1, 2))
    drawn = (pattern > 0).sum((1, 2))
    hidden = page.locator(".token-lines .hidden")
    expect(hidden).to_have_text(f"{(drawn - kept).sum()} fainter lines not drawn")
    page.locator(".token-lines .head").first.click()
    expect(hidden).to_have_text(f"{(drawn - kept)[1:].sum()} fainter lines not drawn")
    page.locator(".token-lines input[type=range]").fill("100")
    expect(hidden).to_contain_text(re.compile("All lines drawn|fainter"))


def test_lines_fit_a_phone(show: Callable[..., Page]) -> None:
    page = show("only=lines", viewport={"width": 390, "height": 844}, has_touch=True)
    lines(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator(".token-lines .queries .row").nth(2).tap()
    expect(page.locator(".token-lines .values.keys .number").first).to_be_visible()


def test_standalone_grid_works_without_a_server(show: Callable[..., Page], tmp_path: Path) -> None:
    pattern = made_up(2, 3, 5, 5)
    payload = grid_payload(pattern, HOSTILE, HOSTILE)
    (tmp_path / "grid.html").write_text(
        fragment(grid_html(payload, dark=True)) + fragment(grid_html(payload, dark=False))
    )
    page = show("only=lines")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "grid.html").as_uri())
    for number, theme in enumerate(("dark", "light")):
        frame = page.frame_locator("iframe").nth(number)
        root = frame.locator(".head-grid[data-painted]")
        expect(root).to_have_attribute("data-theme", theme)
        frame.locator("canvas").click(position={"x": 50, "y": 60})
        expect(root).to_have_attribute("data-selected", "L0 H0")
        expect(frame.locator(".tip")).to_contain_text("≈")
    assert not [url for url in asked if not url.startswith(("file:", "about:"))]


def test_heatmap_shows_hostile_tokens_literally(show: Callable[..., Page], tmp_path: Path) -> None:
    pattern = made_up(1, 1, 5, 5)[0, 0]
    (tmp_path / "head.html").write_text(head_html(pattern, HOSTILE, HOSTILE))
    page = show("only=lines")
    page.goto((tmp_path / "head.html").as_uri())
    cells = page.locator(".heatmaplayer image").first
    cells.wait_for()
    for index, token in enumerate(HOSTILE):  # labels are cut at 16 characters, hover is not
        assert page.locator(".x2tick text", has_text=token[:15]).count() == 1
        box = cells.bounding_box()
        assert box
        place = (index + 0.5) / 5
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * place)
        weight = f"{float(f'{pattern[index, 2]:.4g}'):g}"
        hover = page.locator(".hoverlayer")
        expect(hover).to_contain_text(f"{token} → {HOSTILE[2]}")
        expect(hover).to_contain_text(weight if "e" not in weight else "0.0000")
    assert page.locator(".plot-container a[href=x], .x2tick tspan").count() == 0
