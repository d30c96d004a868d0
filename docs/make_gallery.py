"""Draw the heads of the gallery: `python -m docs.make_gallery` (needs no browser).

Each entry of docs/gallery.md links to one head of a shipped model; its picture is that head's.
"""

import base64
import io
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from PIL import Image

import mha_viz as mv
from mha_viz.core.output_file import write_file
from mha_viz.ui.state.links import from_params
from mha_viz.ui.state.views import View

PAGE = Path(__file__).parent / "gallery.md"
FOLDER = Path(__file__).parent / "images"
ENTRY = re.compile(r"^\[Open (L\d H\d) of .*?\]\((.*?)\)(?:.|\n)*?\), ([\d.]+) here", re.M)
COLOURS = 24  # of a picture: weights and letters stay as they are
SCALE = 2  # pixels of the drawn picture for one of the stored one


def entries() -> list[tuple[str, View, float]]:
    """Return the head's name, the view that the link opens, and the score of each entry."""
    found = ENTRY.findall(PAGE.read_text("utf-8"))
    views = [from_params(dict(parse_qsl(urlsplit(link).query)))[0] for _, link, _ in found]
    return [(name, view, float(score)) for (name, _, score), view in zip(found, views, strict=True)]


def pictures() -> Iterator[tuple[Path, bytes]]:
    """Yield the file of each entry's picture and the PNG of its head's weights."""
    for _, view, _ in entries():
        record = mv.load(view.model).trace(view.text, view.pair or None)
        bundle = mv.show_head(record, view.layer, view.head)._repr_mimebundle_()
        drawn = Image.open(io.BytesIO(base64.b64decode(bundle["image/png"]))).convert("RGB")
        small = drawn.reduce(SCALE).quantize(COLOURS, dither=Image.Dither.NONE)
        png = io.BytesIO()
        small.save(png, "PNG", optimize=True)
        yield FOLDER / f"gallery-{view.sort}.png", png.getvalue()


def main() -> None:
    """Write all pictures."""
    for path, png in pictures():
        write_file(path, png)


if __name__ == "__main__":
    main()
