"""The Heads page without a browser, and what it hands to the workbench there."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

from streamlit.testing.v1 import AppTest

from mha_viz.web.labels import head_name
from mha_viz.web.payload import unpack
from tests.ui.opening import APP, components, opened

FOLDED = ("heads-table",)


def heads_page(
    *, export: bool = False, session: Mapping[str, object] | None = None, **params: str
) -> AppTest:
    """Open the page under a link with its table, the files where asked, and these keys set."""
    folded = dict.fromkeys((*FOLDED, *(["export"] if export else [])), True)
    return opened(APP, session=folded | dict(session or {}), **params)


def choose(app: AppTest, **choices: object) -> AppTest:
    """Run the page with another view, as a click in the workbench does."""
    app.session_state.view = replace(app.session_state.view, **choices)
    return app.run()


def bench(app: AppTest) -> dict[str, Any]:
    """Return the settings that the workbench got."""
    (part,) = components(app, "workbench")
    return json.loads(part.json)


def brought(app: AppTest, kind: str) -> dict[str, Any]:
    """The header of what was brought to the browser: "grid", "notes" or "head"."""
    return next(header for header in _headers(app) if header["kind"] == kind)


def kinds_brought(app: AppTest) -> set[str]:
    """The kinds of payloads that were brought to the browser."""
    return {header["kind"] for header in _headers(app)}


def chosen(app: AppTest) -> str:
    """The head that the workbench opens with."""
    view = bench(app)["view"]
    return head_name(view["layer"], view["head"])


def captions(app: AppTest) -> str:
    """All that stands on the page in small letters."""
    return "\n".join(caption.value for caption in app.caption)


def _headers(app: AppTest) -> list[dict[str, Any]]:
    return [
        header for part in components(app, "payload_carrier") for header in _bundled(part.bytes)
    ]


def _bundled(payload: bytes) -> list[dict[str, Any]]:
    header, body = unpack(payload)
    if header["kind"] != "bundle":
        return [header]
    starts = accumulate((size + -size % 4 for size in header["sizes"]), initial=0)
    return [unpack(body[start:])[0] for start, _ in zip(starts, header["sizes"], strict=False)]
