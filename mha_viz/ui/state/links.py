"""The parameters of an address that carries a view, and what is read of untrusted ones."""

from collections.abc import Callable, Container, Mapping
from dataclasses import fields, replace
from typing import Any

from mha_viz.ui.state import link_values as read
from mha_viz.ui.state.layer_numbers import by_number
from mha_viz.ui.state.link_values import MAX_URL_PINS, MAX_URL_TEXT, written
from mha_viz.ui.state.views import (
    BENCH,
    DEFAULT,
    NAMES,
    Choice,
    Shared,
    View,
    parameter_of,
    two_runs,
)

MODELS = ("model", "model_b", "corpus_model_b")
TEXTS = ("text", "pair", "text_b", "source", "pairs")
MAX_LENGTHS = dict.fromkeys(TEXTS, MAX_URL_TEXT) | {"pins": MAX_URL_PINS}  # in a link
GONE_MESSAGES = (
    "This address names a long text that the server no longer keeps: enter it again.",
    "This address names pinned heads that the server no longer keeps: pin them again.",
)
# Pictures that older links name, and the choices that show the same today.
FORMER_SHOWS = {
    "carried": {"show": "heatmap", "weighted": "1"},
    "pair": {"show": "heatmap"},
    "plotly": {"show": "heatmap"},
}
# Sections of Compare that older links name, and the choices that show the same today.
FORMER_SECTIONS = {
    "layers": {"section": "board"},  # the page itself leads to Heads
    "twins": {"section": "similar"},
    "alike": {"section": "similar"},
    "sides": {"section": "board"},
    "diversity": {"section": "more", "more": "diversity"},
    "flow": {"section": "more", "more": "flow"},
    "pins": {"section": "board"},
}
# Sections of the former page Circuits; "words" the page itself leads to Heads.
FORMER_CIRCUITS = {
    "writes": {"why": "prediction"},
    "graph": {"why": "prediction", "prediction": "graph"},
    "looks": {"why": "score"},
    "map": {"why": "score", "score": "map"},
    "weights": {"why": "connections"},
    "effect": {"why": "connections", "connections": "effect"},
    "edges": {"why": "connections", "connections": "task"},
    "patching": {"why": "patching"},
    "test": {"why": "test"},
    "importance": {"why": "test", "test": "importance"},
    "words": {"show": "numbers"},
}
FORMER_NAMES = frozenset({"circuit"})  # of choices, which older links have


def to_params(view: Shared) -> dict[str, str]:
    """Return the URL's parameters: model and text always, the rest where it is no default."""
    params: dict[str, str] = {}
    view = by_number(view)
    for choice in fields(view):
        value = getattr(view, choice.name)
        if choice.name in ("model", "text") or value != getattr(DEFAULT, choice.name):
            raw, name = written(value), parameter_of(choice)
            params[name] = read.reference(raw) if is_long(name, raw) else raw
    return params


def is_long(name: str, raw: str) -> bool:
    """Return whether a choice cannot stand in an address as it is written."""
    return name in MAX_LENGTHS and (
        len(raw) > MAX_LENGTHS[name] or read.referenced(raw) is not None
    )


def long_values(view: Shared) -> list[str]:
    """Return the texts and pins of a view for which its address has their hashes."""
    values = {name: written(getattr(view, name, "")) for name in MAX_LENGTHS}
    return [raw for name, raw in values.items() if is_long(name, raw)]


def from_params(
    params: Mapping[str, str],
    folders: Container[str] = (),
    stored: Callable[[str], str | None] = lambda name: None,
) -> tuple[View, list[str]]:
    """Read a view from an untrusted URL, and what had to be ignored in it, in plain words.

    Anything unknown or out of range keeps its default; whether a layer or a model exists is found
    out later, when the model is there. A link may name one of `folders`, which somebody has typed
    by hand since the server started, but no other path. `stored` returns the text of a hash.
    """
    view, problems = DEFAULT, list[str]()
    params = _with_present_names(params)
    for choice in fields(View):
        name = parameter_of(choice)
        if name not in NAMES or name not in params:
            continue
        raw = params[name]
        hashed = read.referenced(raw) if name in MAX_LENGTHS else None
        if hashed is not None:
            if (text := stored(hashed)) is None:
                problems.append(GONE_MESSAGES[name == "pins"])
                continue
            raw = text
        try:
            value: Any = raw
            if name == "pins":
                value = read.pins(raw, folders, problems)
            elif hashed is None and not (name in MODELS and raw in folders):
                value = choice.metadata["read"](raw)
        except ValueError:
            shown = raw if len(raw) <= 40 else raw[:39] + "…"
            problems.append(f"The link's {name}={shown!r} is not valid and was ignored.")
            continue
        view = replace(view, **{choice.name: value})
    if max(view.chosen) >= 0:  # an older link leaves out the one that is 0
        view = replace(view, layer=max(view.layer, 0), head=max(view.head, 0))
    if max(view.second) >= 0:  # an older link leaves out what was L0 H1
        head = view.head_b if view.head_b >= 0 else 1
        view = replace(view, layer_b=max(view.layer_b, 0), head_b=head)
    elif two_runs(view):
        view = replace(view, layer_b=view.layer, head_b=view.head)
    return view, problems


def _with_present_names(params: Mapping[str, str]) -> Mapping[str, str]:
    """Return an older link's parameters under their present names."""
    section = params.get("section", "")
    shown = FORMER_SHOWS.get(params.get("show", ""), {}) | FORMER_SECTIONS.get(section, {})
    circuit = params.get("circuit", "")
    shown |= FORMER_CIRCUITS.get(circuit, {})
    if circuit == "effect" and params.get("averaged") == "1":
        shown |= FORMER_CIRCUITS["edges"]
    present = {**params, **shown}
    if section == "sides":  # what it showed beside each other was not the pins
        present.pop("pins", None)
    return present


def validate_choices(sent: object) -> dict[str, Choice]:
    """Return the valid choices that the workbench sent: anyone can send anything.

    >>> validate_choices({"layer": "3", "scale": "log", "words": "1", "model": "a/b", "head": "x"})
    {'layer': 3, 'scale': 'log', 'words': True}
    """
    if not isinstance(sent, Mapping):
        return {}
    choices: dict[str, Choice] = {}
    for choice in fields(View):
        raw = sent.get(choice.name)
        if choice.name not in BENCH or not isinstance(raw, str):
            continue
        default = getattr(DEFAULT, choice.name)
        try:  # "" is no order, and no kind of heads
            choices[choice.name] = default if raw == default else choice.metadata["read"](raw)
        except ValueError:
            continue
    return choices
