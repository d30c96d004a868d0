"""The browser components' source, joined into one script: for the app and for standalone pages.

Reads the files beside it, in components/; knows no screen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from mha_viz.web.theme import palette

# In the order in which they need each other. Each is an ES module of its own; joined, they share
# one scope, so that their imports and exports go and no name may be used twice.
_GRID = ("grid_layout", "grid_paint", "grid_marks", "grid_values", "grid_parts", "head_grid")
_LINES = ("lines_model", "lines_paint", "lines_parts", "token_lines")
_HEAT = ("heat_layout", "heat_paint", "heat_view")
_BENCH = ("workbench_parts", "bench_weights", "bench", "grid_view", "head_view", "workbench")
_FLOW = ("flow_model", "flow_layout", "flow_paint", "flow_says", "flow_walk", "flow_graph")
_SCRIPTS = {
    "block_map": ("block_map",),
    "figure_download": ("figure_download",),
    "flow_graph": ("shared", *_FLOW),
    "head_grid": ("shared", *_GRID, "head_grid_alone"),
    "head_switches": ("shared", "grid_paint", "switch_parts", "switch_input", "head_switches"),
    "number_table": ("shared", "number_parts", "number_table"),
    "class_cookie": ("class_cookie",),
    "coming_back": ("coming_back",),
    "page_address": ("page_address",),
    "payload_carrier": ("shared", "payload_carrier"),
    "player": ("shared", "play_button", "player"),
    "sentence_arcs": ("shared", "arc_layout", "sentence_arcs"),
    "workbench": (
        *("shared", *_GRID, *_LINES, "head_facts", *_HEAT),
        *("token_axes", "sentence_view", *_BENCH),
    ),
    "written_text": ("shared", "play_button", "written_parts", "written_text"),
}
_CARRIER, _LATE = (("script_store", part) for part in ("script_carrier", "script_late"))
_DRAWN = ("flow_graph", "head_grid", "head_switches", "number_table", "player", "sentence_arcs")
_STYLES = {
    "block_map": ("block_map",),
    "figure_download": ("figure_download",),
    "written_text": ("shared", "player", "written_text"),
    **{name: ("shared", name) for name in _DRAWN},
    "workbench": ("shared", "head_grid", "token_lines", "workbench"),
}
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)


@cache
def script(name: str) -> str:
    """The ES module of a component; its default export takes what a Streamlit component takes."""
    return f"const PALETTE = {json.dumps(palette())};\n{_parts(_SCRIPTS[name])}"


@cache
def carrier_script(name: str) -> str:
    """The ES module that brings a component's script into the page, for `late_script`."""
    inside = re.sub(r"export default function (\w+)", r"function \1", script(name))
    drawing = re.findall(r"^export default function (\w+)", script(name), re.MULTILINE)[0]
    return "\n".join(
        [
            f"const COMPONENT = {json.dumps(name)};",
            inside,
            f"const DRAW = {drawing};",
            _parts(_CARRIER),
        ]
    )


@cache
def late_script(name: str) -> str:
    """The ES module of a component whose script comes in an element of its own.

    Streamlit sends a component's script with each of its data. This one is short.
    """
    return f"const COMPONENT = {json.dumps(name)};\n{_parts(_LATE)}"


@cache
def notebook_script() -> str:
    """The workbench as the ES module that anywidget wants."""
    inside = script("workbench").replace("export default ", "")
    return "\n".join([inside, _IMPORT.sub("", _read("notebook_widget.js"))])


@cache
def style(name: str) -> str:
    """The style sheet of a component."""
    return "\n".join(_read(f"{part}.css") for part in _STYLES[name])


def _parts(names: Iterable[str]) -> str:
    """Modules joined, without their imports and exports."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", _read(f"{name}.js"))) for name in names)


def _read(name: str) -> str:
    return files("mha_viz").joinpath("web", "components", name).read_text(encoding="utf-8")
