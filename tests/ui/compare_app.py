"""The Compare page as an app of its own, and what stands on it."""

import base64
import json
import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from streamlit.testing.v1 import AppTest

from mha_viz.ui.state.views import TITLES
from mha_viz.web.payload import decode, unpack
from tests.ui.opening import components, open_tables, opened

SECTIONS = (*(key for key in TITLES["sections"] if key != "more"), *TITLES["more"])
TEXT = "The old dog slept while the young cat watched the old dog."
OTHER = "The old cat slept while a dog watched."
MODELS = ("tiny-bert", "tiny-gpt2")
NAMES = [f"L{i} H{j}" for i in range(4) for j in range(8)]  # the heads of both
HOSTILE = "<script>alert(1)</script> $x^2$ **b** :material/home: http://a.b [x](javascript:1) %{y}"
FOLDED = ("details", "alike-sides", "matched-layers")
_NOT_A_NUMBER = re.compile(r"\b(nan|NaN|None|inf|Infinity)\b|<NA>")
_WRITTEN = ("text", "hovertext", "name", "title", "ticktext", "hovertemplate")


def compare(*tables: str, **params: str) -> AppTest:
    """The page under a link, with the tables of these figures open."""
    session = open_tables(*tables) | dict.fromkeys(FOLDED, True)
    return opened("mha_viz.ui.compare.page.page", session=session, **params)


def turn_to(app: AppTest, section: str) -> str:
    """Another section of the open page, which comes whole; returns what it says."""
    analysis = section if section in TITLES["more"] else ""
    chosen = "more" if analysis else section
    if app.segmented_control(key="ask_section").value != chosen:
        app.segmented_control(key="ask_section").set_value(chosen).run()
    if analysis and app.segmented_control(key="ask_more").value != analysis:
        app.segmented_control(key="ask_more").set_value(analysis).run()
    return check(app)


class ShownHead(NamedTuple):
    """A panel of the board as the browser gets it; NaN: masked, or no token of that sentence."""

    about: dict[str, Any]
    weights: np.ndarray


def board(app: AppTest) -> list[ShownHead]:
    """The panels of the board on the page."""
    header, body = next(payload for payload in _payloads(app) if payload[0]["kind"] == "board")
    shown, start = list[ShownHead](), 0
    for panel in header["panels"]:
        rows, columns = panel.get("rows", 0), panel.get("cols", 0)
        codes = np.frombuffer(body, np.uint8, rows * columns, start).reshape(rows, columns)
        shown.append(ShownHead(panel, np.where(codes == 0, np.nan, decode(codes))))
        start += rows * columns
    return shown


def board_names(app: AppTest) -> list[str]:
    """The names of the heads on the board."""
    return [panel.about["name"] for panel in board(app)]


def board_notes(app: AppTest) -> dict[str, Any]:
    """The verdict on the board, and the labels of its heads."""
    return next(header for header, _ in _payloads(app) if header["kind"] == "notes")


def _payloads(app: AppTest) -> list[tuple[dict[str, Any], bytes]]:
    return [unpack(proto.bytes) for proto in components(app, "payload_carrier")]


def table(app: AppTest, *columns: str) -> pd.DataFrame:
    """The table on the page that has all of these columns."""
    found = [shown.value for shown in app.dataframe if set(columns) <= set(shown.value.columns)]
    assert found, [list(shown.value.columns) for shown in app.dataframe]
    return found[0]


def figures(app: AppTest) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def numbers(values: dict[str, str] | list) -> np.ndarray:
    """The numbers of a trace, as plotly writes them for the browser."""
    if not isinstance(values, dict):
        return np.array(values, dtype=float)
    flat = np.frombuffer(base64.b64decode(values["bdata"]), np.dtype(values["dtype"]))
    return flat.reshape([int(n) for n in str(values.get("shape", len(flat))).split(",")])


def matrices(app: AppTest) -> list[dict]:
    """The matrices of numbers on the page, as the browser gets them."""
    tables = (json.loads(proto.json)["tables"] for proto in components(app, "number_table"))
    return [matrix for of_one in tables for matrix in of_one]


def written(app: AppTest, title: str) -> list[list[str]]:
    """Return the words in the cells of the first matrix whose title begins so, row by row."""
    found = next(matrix for matrix in matrices(app) if matrix["title"].startswith(title))
    wide = len(found["names"][1])
    return [found["texts"][i : i + wide] for i in range(0, len(found["texts"]), wide)]


def said(app: AppTest) -> str:
    """All text on the page; what tables lack is shown in words of its own."""
    kinds = ("title", "header", "markdown", "caption", "info", "warning", "error")
    lines = [part.value for kind in kinds for part in getattr(app, kind)]
    for shown in app.dataframe:
        assert shown.proto.placeholder or not shown.value.isna().to_numpy().any(), shown.value
        lines.append(shown.value.to_string(na_rep="·"))
    lines += [shown.value.to_string(na_rep="·") for shown in app.table]
    lines += [text for figure in figures(app) for text in _strings(figure)]
    for header, _ in _payloads(app):
        if "verdict" in header:
            lines += [header["verdict"], *header["labels"]]
        for panel in header.get("panels", ()):
            lines += [panel[name] for name in ("name", "source", "text", "problem", "note")]
    for matrix in matrices(app):
        lines += [matrix["title"], matrix["shape"], *(matrix["texts"] or ())]
        lines += [name for axis in matrix["names"] for name in axis]
    return "\n".join(lines)


def _strings(part: object, key: str = "") -> list[str]:
    """Return the words of a figure; its other strings are plotly's."""
    if isinstance(part, dict):
        return [s for k, v in part.items() for s in _strings(v, k)]
    if isinstance(part, list):
        return [s for v in part for s in _strings(v, key)]
    return [part] if isinstance(part, str) and key in _WRITTEN else []


def check(app: AppTest) -> str:
    """The page came whole, and nothing on it reads like NaN; returns what it says."""
    assert not app.exception and not app.error, [e.value for e in app.error]
    text = said(app)
    found = _NOT_A_NUMBER.search(text)
    assert not found, text[max(0, found.start() - 80) : found.end() + 80]
    return text


def seen(weights, causal):
    """Return weights as a table shows them: none where a causal model's mask hides the key."""
    weights = np.asarray(weights, dtype=float)
    return np.where(np.tri(len(weights), dtype=bool), weights, np.nan) if causal else weights
