"""Parts of a page that Streamlit reads as markdown, and hostile text that would come alive."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from streamlit.testing.v1 import AppTest

# Typed into every box: each would be something else than its letters where it is not escaped.
LIVE = (
    "<script>", "<img src=q", "[q](javascript:", "![q](", "[q](https:", ":material/cake:", ":red[q",
    ":cake:", "**q**", "`q`", "$q^2$", "https://q.example", "www.q.example", "q@q.example", "~~q~~",
)  # fmt: skip
TYPED = (
    "<script>alert(1)</script> <img src=q onerror=alert(1)> [q](javascript:alert(1)) ![q](x.png) "
    "[q](https://q.example) :material/cake: :red[q] :cake: **q** `q` $q^2$ www.q.example "
    "q@q.example ~~q~~"
)
_READ = ("body", "label", "help", "caption", "captions", "content", "placeholder_text", "text")
# Read as nothing but letters, apart from their labels.
_PLAIN = ("code", "text_input", "text_area", "bidi_component", "plotly_chart", "arrow_data_frame")


def alive(app: AppTest) -> list[str]:
    """The hostile pieces in a page's markdown that stand there as typed, without a backslash."""
    pieces = [re.compile(r"(?<!\\)" + re.escape(piece)) for piece in LIVE]
    return [f"{p.pattern} in {text!r}" for text in _markdown(app) for p in pieces if p.search(text)]


def _markdown(app: AppTest) -> Iterator[str]:
    for part in (app.main, app.sidebar):
        for node in part:
            if node.type in _PLAIN:
                yield from _fields(node.proto, ("label", "help"))
            elif node.type == "table":
                yield node.value.to_string()  # Streamlit reads markdown in these cells
            elif node.proto is not None and node is not part:
                options = ("options",) if node.type in ("radio", "button_group") else ()
                yield from _fields(node.proto, (*_READ, *options))


def _fields(proto: Any, names: tuple[str, ...]) -> Iterator[str]:
    """The texts in these fields of a message, and of those within it."""
    if not hasattr(proto, "ListFields"):
        return
    for field, value in proto.ListFields():
        several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        for one in value if several else (value,):
            if isinstance(one, str) and field.name in names:
                yield _WHITHER.sub("]", one)
            else:
                yield from _fields(one, names)


# Where a link within the app leads: a text in an address is encoded, and nobody reads it as markup.
_WHITHER = re.compile(r"\]\([\w./-]*\?[^\s()]*\)")
