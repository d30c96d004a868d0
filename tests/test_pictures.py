"""The pictures of the documentation: a changed page is noticed, another machine's fonts are not."""

import pytest
from PIL import Image, ImageDraw

from docs import make_pictures
from docs.picture_compare import SEEN, differences, lasting

PAGE = """- button "Undo"
- text: KL divergence 3.149
- text: difference 1e-07
- text: 4 layers, computed in 72 ms. Takes about 40 seconds on this machine."""


def picture(seen: str = PAGE, size: tuple[int, int] = (800, 600), shift: int = 0) -> Image.Image:
    """A page with lines of text and a drawing, moved by some pixels."""
    drawn = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(drawn)
    for line in range(10, 300, 20):
        pen.text((10 + shift, line + shift), "a line of words to be read " * 4, fill="black")
    pen.rectangle((100 + shift, 320, 300 + shift, 500), fill="navy")
    drawn.info[SEEN] = lasting(seen)
    return drawn


def test_other_fonts_last_digits_and_times_are_the_same_page() -> None:
    other = (
        PAGE.replace("3.149", "3.151")
        .replace("1e-07", "6e-08")
        .replace("72 ms", "1.4 s")
        .replace("about 40", "a few")
        .replace("8501", "40123")
    )
    assert not differences(picture(other, shift=2), picture())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (picture(PAGE.replace("Undo", "Back")), "Back"),
        (picture(PAGE.replace("3.149", "0.1")), "3.149"),
        (picture(PAGE + '\n- tab "New"'), "New"),
        (picture(size=(800, 640)), "640"),
        (Image.eval(picture(), lambda value: 255 - value), "drawn otherwise"),
    ],
)
def test_a_changed_page_is_told_of(changed: Image.Image, words: str) -> None:
    assert any(words in found for found in differences(changed, picture()))


def test_every_picture_is_kept_with_what_is_seen_on_its_page() -> None:
    kept = {path.stem for path in make_pictures.FOLDER.glob("*.png")}
    endings = make_pictures.SCHEMES.values()
    assert kept == {f"{name}{ending}" for name in make_pictures.PICTURES for ending in endings}
    for name in kept:
        picture = Image.open(make_pictures.FOLDER / f"{name}.png")
        assert len(picture.info[SEEN].splitlines()) > 20, name
