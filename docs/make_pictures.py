"""Take the README's pictures of the app: `python -m docs.make_pictures` (needs a Chromium).

Drives the app as the browser tests do. Knows the app from outside only.
"""

import io
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Error, Page, sync_playwright

FOLDER = Path(__file__).parent / "images"
VIEW = {
    "model": "tiny-gpt2",
    "text": "In spring Captain Zorval opened the green box. At night Captain Zorval opened the "
    "green box",
    "layer": "1",  # a head that looks at what followed the same token last time
    "head": "2",
    "show": "lines",
}
SIZE = {"width": 1280, "height": 1420}


def main() -> None:
    """Write docs/images/explore.png and explore-dark.png."""
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
            for scheme, name in (("light", "explore"), ("dark", "explore-dark")):
                page = browser.new_context(color_scheme=scheme, viewport=SIZE).new_page()
                _open(page, f"http://127.0.0.1:{port}/?{urlencode(VIEW)}")
                picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                picture.quantize(256).save(FOLDER / f"{name}.png", optimize=True)
    finally:
        app.terminate()
        app.wait()


def _open(page: Page, url: str, tries: int = 60) -> None:
    for _ in range(tries):  # the server takes a moment to listen
        try:
            page.goto(url)
            break
        except Error:  # connection refused: it is not listening yet
            page.wait_for_timeout(500)
    page.locator("canvas.cells").wait_for(timeout=60_000)
    page.wait_for_timeout(2_000)


if __name__ == "__main__":
    main()
