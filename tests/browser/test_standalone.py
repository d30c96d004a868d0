"""Pictures that stand alone as files: the head grid and a head's heatmap, in a real Chromium."""

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from mha_viz.text.from_weights import record
from mha_viz.web.payload import grid_payload
from mha_viz.web.standalone import fragment, grid_html
from tests.browser.demo_components import made_up

HOSTILE = ["<b>x</b>", "<script>alert(1)", "$a$ $b$", "&lt;i&gt;", "<a href='x'>y</a>"]


def test_standalone_grid_works_without_a_server(
    open_page: Callable[..., Page], tmp_path: Path
) -> None:
    pattern = made_up(2, 3, 5, 5)
    payload = grid_payload(record(pattern, HOSTILE))
    (tmp_path / "grid.html").write_text(
        fragment(grid_html(payload, dark=True)) + fragment(grid_html(payload, dark=False))
    )
    page = open_page("/glossary")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((tmp_path / "grid.html").as_uri())
    for number, theme in enumerate(("dark", "light")):
        frame = page.frame_locator("iframe").nth(number)
        root = frame.locator(".head-grid[data-painted]")
        expect(root).to_have_attribute("data-theme", theme)
        frame.locator("canvas.cells").click(position={"x": 50, "y": 60})
        expect(root).to_have_attribute("data-selected", "L0 H0")
        expect(frame.locator(".head-grid .tip")).to_contain_text("≈")
    assert not [url for url in requests if not url.startswith(("file:", "about:", "blob:"))]
