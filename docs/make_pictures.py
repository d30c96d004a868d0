"""Take the README's pictures of the app: `python -m docs.make_pictures [NAME ...]`.

All of them, or those that are named; it needs a Chromium. With `--check` nothing is written: it
fails where a picture no longer shows what the app shows.
"""

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from PIL import Image, PngImagePlugin
from playwright.sync_api import Browser, ViewportSize

from docs import film
from docs.picture_compare import SEEN, differences, lasting
from docs.real_app import CHROMIUM, answer_questions, app_and_browser, open_page
from mha_viz.core.output_file import write_file

FOLDER = Path(__file__).parent / "images"
COLOURS = 128  # of a picture: more are not seen, and take a fifth more bytes
SHARED = {
    "model": "tiny-gpt2",
    "text": f"{film.TEXT} box",
    "layer": "1",  # a head that looks at what followed the same token last time
    "head": "2",
}
SCHEMES: dict[Literal["light", "dark"], str] = {"light": "", "dark": "-dark"}


class Picture(NamedTuple):
    """A page of the app: its path and view, its size, and what is there once it is drawn."""

    path: str
    view: dict[str, str]
    size: ViewportSize
    drawn: str


FILM = "film"
BERT = {"model": "tiny-bert", "text": film.TEXT, "layer": "1", "head": "0"}
PICTURES = {
    "explore": Picture("", {}, {"width": 1280, "height": 900}, ".summary b"),
    "compare": Picture(
        "compare",
        {"section": "similar", "order": "cluster", "layer_b": "1", "head_b": "3"},
        {"width": 1280, "height": 1150},
        ".js-plotly-plot .heatmaplayer image",
    ),
    "many-texts": Picture(
        "many_texts",
        BERT,
        {"width": 1280, "height": 900},
        ".js-plotly-plot .scatterlayer .point",
    ),
    "many-texts-grammar": Picture(
        "many_texts",
        BERT | {"tab": "grammar"},
        {"width": 1280, "height": 900},
        ".js-plotly-plot .heatmaplayer image",
    ),
    "why": Picture(
        "why",
        {"text": film.TEXT},
        {"width": 1280, "height": 930},
        ".js-plotly-plot .barlayer",
    ),
    "why-graph": Picture(
        "why",
        {"text": film.TEXT, "prediction": "graph", "target": "box", "against": "dog"},
        {"width": 1280, "height": 900},
        ".flow-graph canvas",
    ),
    "learn": Picture(
        "lab-convolution",
        {},
        {"width": 1280, "height": 1720},
        ".st-key-convolution-predict-same",  # its pictures are covered before
    ),
    "prediction": Picture(
        "",
        {"text": film.TEXT, "layer": "0", "head": "7", "off": "0.7"},
        {"width": 1280, "height": 900},
        ".prediction-view .outcome",
    ),
}


def main() -> None:
    """Write docs/images/NAME.png and NAME-dark.png for each of PICTURES, and the moving one."""
    checking = sys.argv[1:] == ["--check"]
    names = [name for name in sys.argv[1:] if not checking] or [*PICTURES, FILM]
    if unknown := sorted(set(names) - {*PICTURES, FILM}):
        sys.exit(f"No picture is called {', '.join(unknown)}; there are {', '.join(PICTURES)}.")
    if CHROMIUM is None:
        sys.exit("Taking pictures needs a Chromium on PATH (apt install chromium); none is there.")
    with app_and_browser() as (address, browser):
        if checking:
            check(taken(address, browser, names))
            return
        for name, png in taken(address, browser, names):
            write_file(FOLDER / f"{name}.png", png)
        if FILM in names:
            write_file(film.PATH, film.shoot(address, browser))


def check(pictures: Iterable[tuple[str, bytes]]) -> None:
    """End with an error where one of them, by name, is no longer as it is kept."""
    changed = []
    for name, png in pictures:
        found = differences(Image.open(io.BytesIO(png)), Image.open(FOLDER / f"{name}.png"))
        changed += [f"docs/images/{name}.png: {difference}" for difference in found]
    if changed:
        again = "Look at what changed; if it is meant, run python -m docs.make_pictures."
        sys.exit("\n".join([*changed, again]))


def taken(address: str, browser: Browser, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The name of each of these pictures and the PNG file that the app gives for it now."""
    for name, picture in PICTURES.items():
        if name not in names:
            continue
        for scheme, ending in SCHEMES.items():
            context = browser.new_context(color_scheme=scheme, viewport=picture.size)
            page = context.new_page()
            view = urlencode(SHARED | picture.view)
            open_page(page, f"{address}/{picture.path}?{view}", picture.drawn)
            answer_questions(page)
            seen = PngImagePlugin.PngInfo()
            seen.add_itxt(SEEN, lasting(page.locator("body").aria_snapshot()), zip=True)
            shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            png = io.BytesIO()
            shot.quantize(COLOURS).save(png, "PNG", optimize=True, pnginfo=seen)
            yield f"{name}{ending}", png.getvalue()
            context.close()


if __name__ == "__main__":
    main()
