"""The browser components' source, joined into one script: for the app and for standalone pages.

Reads components/, which has a folder for each component, and shared/; knows no screen.
"""

import json
import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import chain
from string import Template

from mha_viz.web.theme import palette

# Modules that begin a component of another name.
_ENTRIES = {"head_grid": "head_grid_alone"}
_DRAWN = (
    "first_sentence",
    "flow_graph",
    "head_grid",
    "number_table",
    "player",
    "sentence_arcs",
)
_WORKBENCH = ("shared", "head_grid", "token_lines", "line_view", "workbench", "head_views")
_STYLES = {
    "block_map": ("block_map",),
    "figure_download": ("figure_download",),
    "written_text": ("shared", "player", "written_text"),
    **{name: ("shared", name) for name in _DRAWN},
    "query_key_map": ("shared", "head_grid", "query_key_map"),
    "board": ("shared", "board"),
    "workbench": _WORKBENCH,
    "atlas": (*_WORKBENCH, "sentence_arcs", "atlas"),
    "token_spaces": ("shared", "token_spaces"),
    "decile_texts": ("shared", "sentence_arcs", "decile_texts"),
    "worksheet": ("worksheet",),
}
_IMPORT = re.compile(r'^import [^;]* from "[^"]*?(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)


@cache
def script(name: str) -> str:
    """Return a component's ES module; its default export takes what a Streamlit component takes."""
    return f"const PALETTE = {json.dumps(palette())};\n{_joined(_ENTRIES.get(name, name))}"


@cache
def component_script(name: str) -> str:
    """Return the ES module of a Streamlit component; the page knows when it has drawn.

    As `script`, but its element is marked once it is painted, and the page waits for the runs that
    it causes (shared/readiness.js).
    """
    return _observed(f"{script(name)}\n{_missing_readiness(name)}")


@cache
def carrier_script(name: str) -> str:
    """Return the ES module that brings a component's script into the page, for `late_script`."""
    inside, function = _without_export(script(name))
    constants = f"const COMPONENT = {json.dumps(name)};\nconst DRAW = {function};"
    carrier = _joined("script_carrier")
    return _observed("\n".join([inside, constants, _missing_readiness(name), carrier]))


@cache
def late_script(name: str) -> str:
    """Return the ES module of a component whose script comes in an element of its own.

    Streamlit sends a component's script with each of its data. This one is short.
    """
    return f"const COMPONENT = {json.dumps(name)};\n{_joined('script_late')}"


@cache
def notebook_script() -> str:
    """Return the workbench as the ES module that anywidget wants."""
    inside = script("workbench").replace("export default ", "")
    return "\n".join([inside, _IMPORT.sub("", _read("notebook_widget.js"))])


@cache
def plain_script(name: str) -> str:
    """Return a component as a script that is no module, and that calls it.

    A browser loads no module from a page that lies on a disk.
    """
    inside, function = _without_export(script(name))
    return f'"use strict";\n(() => {{\n{inside}\n{function}();\n}})();\n'


@cache
def style(name: str) -> str:
    """Return the style sheet of a component."""
    return "\n".join(_read(f"{part}.css") for part in _STYLES[name])


def document_template() -> Template:
    """Return an HTML document with $policy, $title, $style and $body to be filled in."""
    return Template(_read("document.html"))


def _without_export(module: str) -> tuple[str, str]:
    """Return a module whose default export is an ordinary function, and that function's name."""
    function = re.findall(r"^export default function (\w+)", module, re.MULTILINE)[-1]
    return re.sub(r"^export default function", "function", module, flags=re.MULTILINE), function


def _observed(module: str) -> str:
    """Return a module whose component marks its painted element and notes its runs."""
    inside, function = _without_export(module)
    return f"""{inside}
export default function observedComponent(component) {{
  const end = {function}(observed(component));
  markPainted(component.parentElement);
  return end;
}}
"""


def _missing_readiness(name: str) -> str:
    """Return the module `readiness.js`, unless the component of that name imports it itself."""
    modules = _modules(f"{_ENTRIES.get(name, name)}.js")
    return "" if "readiness.js" in modules else _joined("readiness")


def _joined(entry: str) -> str:
    """Join a module and all that it imports, which come first, without imports and exports.

    Each is an ES module of its own; joined, they share one scope, so that no name is used twice.
    """
    sources = (_EXPORT.sub("", _IMPORT.sub("", _read(name))) for name in _modules(f"{entry}.js"))
    return "\n".join(sources)


def _modules(name: str) -> list[str]:
    """Return the files that a module imports, directly or not, each behind its own; and itself."""
    imported = (_modules(other) for other in _IMPORT.findall(_read(name)))
    return list(dict.fromkeys([*chain.from_iterable(imported), name]))


def _read(name: str) -> str:
    return _sources()[name].read_text(encoding="utf-8")


@cache
def _sources() -> dict[str, Traversable]:
    """Return the files of all components by their names, which are all different."""
    folders = files("mha_viz").joinpath("web", "components").iterdir()
    return {file.name: file for folder in folders if folder.is_dir() for file in folder.iterdir()}
