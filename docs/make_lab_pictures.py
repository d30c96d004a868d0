"""Take the small pictures of the labs on Learn: `python -m docs.make_lab_pictures [KEY ...]`.

All of them, or those of the labs that are named; it needs a Chromium. A picture is made of the
figures that tell most of what a lab is about, side by side.
"""

import io
import sys

from PIL import Image, ImageOps
from playwright.sync_api import Browser, Page

from docs.make_pictures import SCHEMES
from docs.real_app import (
    CHROMIUM,
    PATIENCE,
    answer_questions,
    app_and_browser,
    open_page,
    rest,
)
from mha_viz.core.output_file import write_file
from mha_viz.learn.frame.contents import BY_KEY
from mha_viz.learn.page import FOLDER, SIZE

COLOURS = 48  # of a picture: few, since all of them together are sent with the first page of Learn
GAP = 24  # pixels between figures, and around them


def main() -> None:
    """Write the pictures of each lab, one for light pages and one for dark ones."""
    if CHROMIUM is None:
        sys.exit("Taking pictures needs a Chromium on PATH (apt install chromium); none is there.")
    keys = sys.argv[1:] or list(BY_KEY)
    if unknown := sorted(set(keys) - BY_KEY.keys()):
        sys.exit(f"No lab is called {', '.join(unknown)}; there are {', '.join(BY_KEY)}.")
    with app_and_browser() as (address, browser):
        for key in keys:
            for scheme in SCHEMES:
                write_file(FOLDER / f"{key}-{scheme}.png", taken(address, browser, key, scheme))


def taken(address: str, browser: Browser, key: str, scheme: str) -> bytes:
    """The PNG file of a lab as the app shows it now."""
    lab = BY_KEY[key]
    size = {"width": lab.picture.width, "height": 1000}
    context = browser.new_context(color_scheme=scheme, viewport=size)
    page = context.new_page()
    open_page(page, f"{address}/{lab.address}?{lab.picture.link}", "h1")
    answer_questions(page)
    figures = [_figure(page, f".st-key-{key}-{figure}") for figure in lab.picture.figures]
    context.close()
    return small(figures)


def _figure(page: Page, selector: str) -> Image.Image:
    figure = page.locator(selector).first
    figure.wait_for(timeout=PATIENCE)
    rest(page)
    figure.evaluate("figure => figure.scrollIntoView({block: 'center'})")  # off the app's header
    page.mouse.move(0, 0)  # what it points at has a toolbar
    return Image.open(io.BytesIO(figure.screenshot())).convert("RGB")


def small(figures: list[Image.Image]) -> bytes:
    """Figures side by side, undistorted, as a PNG file of few colours and of a card's size."""
    background = figures[0].getpixel((0, 0))
    width = sum(figure.width + GAP for figure in figures) + GAP
    height = max(figure.height for figure in figures) + 2 * GAP
    row, x = Image.new("RGB", (width, height), background), GAP
    for figure in figures:
        row.paste(figure, (x, (height - figure.height) // 2))
        x += figure.width + GAP
    fitted = ImageOps.pad(row, SIZE, Image.Resampling.LANCZOS, color=background)
    drawn = fitted.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    colours = drawn.getpalette()
    place = 3 * drawn.getpixel((0, 0))
    colours[place : place + 3] = background  # exactly the page's, or its edges would be seen
    drawn.putpalette(colours)
    png = io.BytesIO()
    drawn.save(png, "PNG", optimize=True)
    return png.getvalue()


if __name__ == "__main__":
    main()
