"""The moving picture of the README: a sentence, a head, and the prediction without that head.

`python -m docs.make_pictures` makes it, from the real app.
"""

import io
import re
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Locator, Page

from docs.real_app import open_page, rest

PATH = Path(__file__).parent / "images" / "film.gif"
TEXT = "In spring Captain Zorval opened the green box. At night Captain Zorval opened the green"
WINDOW = {"width": 1180, "height": 1080}
WIDTH = 760
ARROW = ((0, 0), (0, 17), (4, 13), (7, 19), (10, 18), (7, 12), (12, 12))


class Frame(NamedTuple):
    """A picture, and how long it stays, in milliseconds."""

    picture: Image.Image
    stays: int


class Film:
    """Takes frames of a page, the pointer among what is seen."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[Frame] = []
        self.pointer = (WINDOW["width"] // 2, 300)

    def take(self, stays: int) -> None:
        """One more frame."""
        picture = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        left, top = self.pointer
        outline = [(left + 1.4 * x, top + 1.4 * y) for x, y in ARROW]
        ImageDraw.Draw(picture).polygon(outline, fill="black", outline="white")
        height = round(picture.height * WIDTH / picture.width)
        self.frames.append(Frame(picture.resize((WIDTH, height), Image.Resampling.LANCZOS), stays))

    def click(
        self, target: Locator, across: float = 0.5, down: float = 0.5, steps: int = 4
    ) -> None:
        """The pointer goes to a place in the target (shares of its size) and presses."""
        target.wait_for()
        box = target.bounding_box()
        assert box, "what is clicked can be seen"
        goal = (box["x"] + across * box["width"], box["y"] + down * box["height"])
        start = self.pointer
        for step in range(1, steps + 1):
            share = step / steps
            x, y = ((1 - share) * a + share * b for a, b in zip(start, goal, strict=True))
            self.pointer = (round(x), round(y))
            self.page.mouse.move(x, y)
            self.take(80)
        self.page.mouse.down()
        self.page.mouse.up()


def shoot(address: str, browser: Browser) -> bytes:
    """The GIF of about ten seconds."""
    context = browser.new_context(color_scheme="light", viewport=WINDOW, reduced_motion="reduce")
    page = context.new_page()
    open_page(page, f"{address}/?model=tiny-gpt2", "canvas.cells")
    film = Film(page)
    _type_the_sentence(film)
    _look_at_the_head(film)
    _switch_it_off(film)
    context.close()
    return _gif(film.frames)


def _type_the_sentence(film: Film) -> None:
    box = film.page.get_by_label("Sentence", exact=True)
    film.click(box)
    box.fill("")
    for two_words in re.findall(r"\s?\S+(?: \S+)?", TEXT):
        box.press_sequentially(two_words)
        film.take(160)
    box.press("Enter")
    rest(film.page)
    film.take(1_300)


def _look_at_the_head(film: Film) -> None:
    """L0 H7, which looks at the token before: the last of the first row."""
    page = film.page
    film.click(page.locator("canvas.cells"), across=0.95, down=0.16)
    page.get_by_role("heading", name="L0 H7").wait_for()
    rest(page)
    film.take(1_300)


def _switch_it_off(film: Film) -> None:
    page = film.page
    film.click(page.locator(".head-view").get_by_role("button", name="Switch off", exact=True))
    page.locator(".prediction-view .outcome").first.wait_for()
    rest(page)
    film.take(3_600)


def _gif(frames: list[Frame]) -> bytes:
    """All frames in the colours of all of them, so that what stays the same takes no bytes."""
    first = frames[0].picture
    sheet = Image.new("RGB", (first.width, first.height * len(frames)))
    for number, frame in enumerate(frames):
        sheet.paste(frame.picture, (0, number * first.height))
    colours = sheet.quantize(200, Image.Quantize.MAXCOVERAGE)
    pictures = [
        frame.picture.quantize(palette=colours, dither=Image.Dither.NONE) for frame in frames
    ]
    gif = io.BytesIO()
    pictures[0].save(
        gif,
        "GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=[frame.stays for frame in frames],
        loop=0,
        optimize=True,
    )
    return gif.getvalue()
