"""Take the README's pictures of the app: `python -m docs.make_pictures` (needs a Chromium).

Drives the app as the browser tests do.
"""

import io
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Error, Page, ViewportSize, sync_playwright

from mha_viz.core.output_file import write_file

FOLDER = Path(__file__).parent / "images"
SHARED = {
    "model": "tiny-gpt2",
    "text": "In spring Captain Zorval opened the green box. At night Captain Zorval opened the "
    "green box",
    "layer": "1",  # a head that looks at what followed the same token last time
    "head": "2",
}
SCHEMES: dict[Literal["light", "dark"], str] = {"light": "", "dark": "-dark"}
IDLE = "[data-testid=stApp][data-test-script-state=notRunning]"


class Picture(NamedTuple):
    """A page of the app: its path and view, its size, and what is there once it is drawn."""

    path: str
    view: dict[str, str]
    size: ViewportSize
    drawn: str


PICTURES = {
    "explore": Picture("", {"show": "lines"}, {"width": 1280, "height": 1815}, "canvas.cells"),
    "compare": Picture(
        "compare",
        {"section": "twins", "order": "cluster", "layer_b": "1", "head_b": "3"},
        {"width": 1280, "height": 1285},
        ".js-plotly-plot .heatmaplayer image",
    ),
    "learn": Picture(
        "lab-convolution",
        {},
        {"width": 1280, "height": 1720},
        ".number-table canvas",
    ),
    "intervene": Picture(
        "intervene",
        {"text": SHARED["text"].removesuffix(" box"), "off": "0.7", "target": "box"},
        {"width": 1280, "height": 1180},
        ".head-switches .tile",
    ),
}


def main() -> None:
    """Write docs/images/NAME.png and NAME-dark.png for each of PICTURES."""
    FOLDER.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    app = subprocess.Popen(command, cwd=Path(__file__).parents[1])
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"),
                args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
            )
            for name, picture in PICTURES.items():
                address = f"http://127.0.0.1:{port}/{picture.path}"
                for scheme, ending in SCHEMES.items():
                    context = browser.new_context(color_scheme=scheme, viewport=picture.size)
                    page = context.new_page()
                    _open(page, f"{address}?{urlencode(SHARED | picture.view)}", picture.drawn)
                    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                    png = io.BytesIO()
                    shot.quantize(256).save(png, "PNG", optimize=True)
                    write_file(FOLDER / f"{name}{ending}.png", png.getvalue())
                    context.close()
    finally:
        app.terminate()
        app.wait()


def _open(page: Page, url: str, drawn: str, tries: int = 60) -> None:
    for _ in range(tries):  # the server takes a moment to listen
        try:
            page.goto(url)
            break
        except Error:  # connection refused: it is not listening yet
            page.wait_for_timeout(500)
    page.locator(drawn).first.wait_for(timeout=60_000)
    page.locator(IDLE).wait_for(timeout=60_000)
    page.wait_for_timeout(2_000)


if __name__ == "__main__":
    main()
