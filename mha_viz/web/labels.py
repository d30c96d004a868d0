"""Token labels made fit to be drawn: visible, short, and never read as markup.

Tokens are untrusted text.
"""

import base64
import html
import re
import textwrap
import unicodedata
from collections.abc import Sequence

from mha_viz.core.layer_numbers import head_name as head_name
from mha_viz.core.layer_numbers import layer_name as layer_name
from mha_viz.core.layer_numbers import layer_names as layer_names
from mha_viz.errors import ShapeError

MAX_LABEL = 24  # longer tokens are URLs or noise; their position tells them apart
MAX_CAPTION = 2_000  # letters of one line of a caption
_JOINERS = "‌‍"  # Indic scripts and emoji sequences need them
# What XML 1.0 does not allow: control characters, half characters, U+FFFE and U+FFFF. No reader
# opens a picture (SVG) that contains one of them.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def drawable(text: str) -> str:
    """Return a text with U+FFFD in place of every character that XML and HTML may not hold.

    >>> drawable("a\uffffb")
    'a\ufffdb'
    """
    return _NOT_XML.sub("\ufffd", text)


def html_text(text: str) -> str:
    """Return any text as a piece of HTML or an attribute's value, where it is shown as it is.

    >>> html_text("<b>\\x00")
    '&lt;b&gt;\ufffd'
    """
    return html.escape(drawable(text))


def png_address(png: bytes) -> str:
    """Return a PNG file as an address that holds it, for pages that fetch no picture.

    >>> png_address(b"abc")
    'data:image/png;base64,YWJj'
    """
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def clean(label: str, limit: int = MAX_LABEL) -> str:
    """Return a label without characters that draw nothing or turn the direction of what follows.

    Control characters become their Unicode pictures, invisible and direction-changing ones go,
    what XML may not hold (`drawable`) becomes U+FFFD, and what is longer than `limit` characters
    ends in an ellipsis.

    >>> clean("a\\tb"), clean("x" * 30, limit=4), clean("")
    ('a␉b', 'xxx…', '∅')
    """
    text = "".join(_visible(char) for char in label[: 8 * limit])
    if len(text) > limit:
        text = text[: limit - 1].rstrip(_JOINERS) + "…"
    return text or "∅"


def _visible(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    category = unicodedata.category(char)
    if category in ("Cc", "Zl", "Zp") or (category == "Cf" and char not in _JOINERS):
        return ""
    return drawable(char)


def clean_all(labels: Sequence[str], expected: int, axis: str) -> list[str]:
    """Return all labels of an axis, cleaned; their number is checked.

    Raises:
        ShapeError: not as many labels as the pattern has rows or columns.
    """
    if len(labels) != expected:
        raise ShapeError(f"The pattern has {expected} {axis}, but {len(labels)} labels were given.")
    return [clean(label) for label in labels]


def wrapped(text: str, columns: int) -> list[str]:
    """Return a caption in lines of at most so many letters; East Asian letters count twice."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        line = clean(" ".join(line.split()), MAX_CAPTION)
        wide = sum(unicodedata.east_asian_width(char) in "WF" for char in line)
        lines += textwrap.wrap(line, max(20, columns * len(line) // (len(line) + wide)))
    return lines


def plotly_text(label: str) -> str:
    """Return a label that plotly shows as it is, although plotly reads tags, entities and TeX.

    >>> plotly_text("<b>$x$</b>")
    '&lt;b&gt;&#36;x&#36;&lt;/b&gt;'
    """
    return html.escape(drawable(label), quote=False).replace("$", "&#36;")


def hover_text(label: str) -> str:
    """Return a label fit to stand in a hovertemplate, which also reads %{...}.

    >>> hover_text("%{x} <b>")
    '&#37;{x} &lt;b&gt;'
    """
    return plotly_text(label).replace("%", "&#37;")
