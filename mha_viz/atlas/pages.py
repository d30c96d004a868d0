"""Common parts of all pages of an atlas: frame, files that they load, and links to heads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from mha_viz.corpus.query.study import Study
from mha_viz.paper.figures import Head, name_in, source_line
from mha_viz.paper.report import PAGES
from mha_viz.web.browser import plain_script, style
from mha_viz.web.standalone import document, theme_rules

ASSETS = "assets"
# A browser that knows no "self" of pages on a disk knows the scheme.
_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data: blob:; "
    "script-src 'self' file:; style-src 'self' file: 'unsafe-inline'"
)


def head_file(study: Study, head: Head) -> str:
    """Return the name of a head's page in the folder."""
    return f"heads/{name_in(study, head).replace(' ', '')}.html"


def page(
    study: Study, template: str, title: str, content: Mapping[str, Any], data: Mapping[str, Any]
) -> bytes:
    """Fill a template of this folder; `data` are for the scripts of the page."""
    up = "" if template == "index.html" else "../"
    # No "<" is in it: it ends no element, and is no markup.
    code = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    about = {"up": up, "assets": ASSETS, "title": title, "data": code, "source": source_line(study)}
    body = PAGES.get_template(f"atlas/{template}").render({**about, **content})
    look = f'@import url("{up}{ASSETS}/atlas.css");'
    return document(title, look, body, policy=_POLICY).encode()


def page_assets() -> Iterator[tuple[str, bytes]]:
    """Make the files that all pages load."""
    yield f"{ASSETS}/atlas.js", plain_script("atlas").encode()
    yield f"{ASSETS}/atlas.css", f"{theme_rules(None)}\n{style('atlas')}".encode()


def made_on() -> str:
    """Return today's date, in UTC."""
    return datetime.now(UTC).date().isoformat()
