"""Every choice a user can make, and the URL that carries it.

Knows names and numbers; must not import torch, transformers or plotly: the page is there first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import streamlit as st

from mha_viz.capture.catalog import HUB_ID

SCALES = ("sqrt", "linear", "log")
SHOWS = ("heatmap", "carried", "lines", "pair", "table")
DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("float32", "bfloat16", "float16")
MAX_URL_TEXT = 1_500  # browsers and chat programs cut longer links
MAX_HEADS = 8
MAX_CLUSTERS = 12
SECTIONS = ("layers", "twins", "alike", "sides", "diversity", "flow")
MEASURES = ("hellinger", "jensen_shannon", "correlation", "redundancy", "cka")
SPACES = ("W_Q", "W_K", "W_V", "W_O", "W_QK", "W_OV")
ORDERS = ("layer", "cluster")
TEXTS = ("text", "pair", "text_b", "source")
HOWS = ("zero", "scale", "mean", "uniform", "patch_z", "patch_pattern")
METHODS = ("ablation", "gradient")
MAX_OFF = 2_500
LATE = 0.5  # seconds in which a browser may still send the address before the last one
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class View:
    """One view of the app; the same View gives the same page. Pages share it.

    Args:
        model, text, pair, part: what runs. `pair` "" is no second text.
        layer, head: the chosen head.
        heads: heads drawn together as lines, as (layer, head); empty is the chosen one.
        scale: colour scale. sort: "" by layer and head, or the key of a metric.
        least: heads with less of the metric they are sorted by are left out; 0 is all.
        only: "" for all heads, or the key of the label that heads must have.
        words: sub-words merged. no_special, no_first: tokens left out.
        show: which picture of the head. mass: share of a row's mass whose lines are drawn.
        query, key: the pair of tokens looked at; -1 is the pair with the largest weight.
        device, dtype: where the model runs, and in which numbers.
        section: what the Compare page compares. metric: what it draws by layer.
        measure: how any two heads are compared. order: of the matrix of all heads.
        clusters: into how many groups heads are cut.
        layer_b, head_b: the second head of a pair.
        text_b, model_b: the other side of two texts or two models; "" is the same one.
        space: the parameters, or products of them, whose likeness is shown.
        upto: the layer that rollout and flow lead to; -1 is the last one.
        off: heads that the Intervene page changes. how: what is done to them, with `factor`
            where they are scaled and `source`, a second text, where they are patched.
        place: the token whose prediction is shown; -1 is the last one, or the first mask.
        target, against: tokens whose probability is followed; "" is the likeliest, and none.
        method: how importance is found.
    """

    model: str = "tiny-bert"
    text: str = ""
    pair: str = ""
    part: str = "self"
    layer: int = 0
    head: int = 0
    heads: tuple[tuple[int, int], ...] = ()
    scale: str = "sqrt"
    sort: str = ""
    least: float = 0.0
    only: str = ""
    words: bool = False
    no_special: bool = False
    no_first: bool = False
    show: str = "heatmap"
    mass: float = 0.9
    query: int = -1
    key: int = -1
    device: str = "auto"
    dtype: str = "float32"
    section: str = "layers"
    metric: str = "entropy"
    measure: str = "hellinger"
    order: str = "layer"
    clusters: int = 4
    layer_b: int = 0
    head_b: int = 1
    text_b: str = ""
    model_b: str = ""
    space: str = "W_QK"
    upto: int = -1
    off: tuple[tuple[int, int], ...] = ()
    how: str = "zero"
    factor: float = 0.5
    source: str = ""
    place: int = -1
    target: str = ""
    against: str = ""
    method: str = "ablation"


DEFAULT = View(text="The animal didn't cross the street because it was too tired.")


def to_params(view: View) -> dict[str, str]:
    """The URL's parameters: model and text always, the rest where it is not the default."""
    params: dict[str, str] = {}
    for field in fields(View):
        value = getattr(view, field.name)
        if field.name in TEXTS and len(value) > MAX_URL_TEXT:
            continue
        if field.name in ("model", "text") or value != getattr(DEFAULT, field.name):
            params[field.name] = _write(value)
    return params


def from_params(params: Mapping[str, str], folders: Container[str] = ()) -> tuple[View, list[str]]:
    """A view from an untrusted URL, and what had to be ignored in it, in plain words.

    Anything unknown or out of range keeps its default; whether a layer or a model exists is seen
    later, when the model is there. A link may name one of `folders`, which somebody has typed by
    hand since the server started, but no other path.
    """
    view, problems = DEFAULT, []
    for field in fields(View):
        if field.name not in params:
            continue
        raw = params[field.name]
        try:
            known = field.name in ("model", "model_b") and raw in folders
            value: Any = raw if known else _READ[field.name](raw)
        except ValueError:
            shown = raw if len(raw) <= 40 else raw[:39] + "…"
            problems.append(f"The link's {field.name}={shown!r} makes no sense and was left out.")
            continue
        view = replace(view, **{field.name: value})
    return view, problems


def _write(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, tuple):
        return ",".join(f"{layer}.{head}" for layer, head in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _one_of(allowed: tuple[str, ...]) -> Callable[[str], str]:
    def read(raw: str) -> str:
        if raw not in allowed:
            raise ValueError
        return raw

    return read


def _number(low: int, high: int) -> Callable[[str], int]:
    def read(raw: str) -> int:
        if len(raw) > 9 or not low <= int(raw) <= high:
            raise ValueError
        return int(raw)

    return read


def _share(raw: str) -> float:
    value = float(raw)
    if not 0.2 <= value <= 1.0:  # NaN fails, too
        raise ValueError
    return value


def _amount(raw: str) -> float:
    value = float(raw)
    if not 0.0 <= value <= 1e6:
        raise ValueError
    return value


def _factor(raw: str) -> float:
    value = float(raw)
    if not -10.0 <= value <= 10.0:
        raise ValueError
    return value


def _heads(raw: str, most: int = MAX_HEADS) -> tuple[tuple[int, int], ...]:
    index = _number(0, 9_999)
    pairs = [part.split(".") for part in raw.split(",")][:most] if raw else []
    return tuple((index(layer), index(head)) for layer, head in pairs)


def _text(raw: str) -> str:
    return raw[: 4 * MAX_URL_TEXT]


def _model(raw: str) -> str:
    # A link may name a model, never a path: what is loaded from a folder is typed by hand.
    if not HUB_ID.fullmatch(raw) or ".." in raw:
        raise ValueError
    return raw


def _key(raw: str) -> str:
    """The key of a metric; whether there is such a one is seen later."""
    if not raw.isidentifier() or len(raw) > 40:
        raise ValueError
    return raw


_READ: dict[str, Callable[[str], Any]] = {
    "model": _model,
    "text": _text,
    "pair": _text,
    "part": _one_of(("self", "encoder", "decoder", "cross")),
    "layer": _number(0, 9_999),
    "head": _number(0, 9_999),
    "heads": _heads,
    "scale": _one_of(SCALES),
    "sort": _key,
    "least": _amount,
    "only": _key,
    "words": lambda raw: _one_of(("0", "1"))(raw) == "1",
    "no_special": lambda raw: _one_of(("0", "1"))(raw) == "1",
    "no_first": lambda raw: _one_of(("0", "1"))(raw) == "1",
    "show": _one_of(SHOWS),
    "mass": _share,
    "query": _number(-1, 9_999),
    "key": _number(-1, 9_999),
    "device": _one_of(DEVICES),
    "dtype": _one_of(DTYPES),
    "section": _one_of(SECTIONS),
    "metric": _key,
    "measure": _one_of(MEASURES),
    "order": _one_of(ORDERS),
    "clusters": _number(1, MAX_CLUSTERS),
    "layer_b": _number(0, 9_999),
    "head_b": _number(0, 9_999),
    "text_b": _text,
    "model_b": _model,
    "space": _one_of(SPACES),
    "upto": _number(-1, 9_999),
    "off": lambda raw: _heads(raw, MAX_OFF),
    "how": _one_of(HOWS),
    "factor": _factor,
    "source": _text,
    "place": _number(-1, 9_999),
    "target": lambda raw: raw[:100],
    "against": lambda raw: raw[:100],
    "method": _one_of(METHODS),
}


# -- the view in Streamlit's session ---------------------------------------------------------------


def current() -> View:
    """The session's view; on its first run, what the URL asks for."""
    if "view" not in st.session_state:
        st.session_state.view, st.session_state.problems = from_params(_address(), folders())
    view = st.session_state.view
    assert isinstance(view, View)
    return view


def follow() -> None:
    """Take the address's view where Back or Forward led to it; for the start of a page's run.

    A page that is opened from another has no parameters and keeps the view. Where something was
    chosen since the address was last written, or a click is faster than the new address, the
    address is only late.
    """
    params, late = _address(), st.session_state.pop("changed", False)
    overwritten, at = st.session_state.get("overwritten", ({}, 0.0))
    late = late or (params == overwritten and time.monotonic() - at < LATE)
    if "view" not in st.session_state or late or params in ({}, st.session_state.get("published")):
        return
    view, st.session_state.problems = from_params(params, folders())
    if "text" not in params:  # it was too long for a link
        view = replace(view, text=st.session_state.view.text)
    st.session_state.view = view


def _address() -> dict[str, str]:
    return {name: st.query_params[name] for name in st.query_params}


@st.cache_resource(show_spinner=False)
def folders() -> set[str]:
    """Models typed by hand since the server started."""
    return set()


def problems() -> list[str]:
    """What the URL asked for in vain; each is told until the next choice."""
    return list(st.session_state.get("problems", ()))


def tell(problem: str) -> None:
    if problem not in st.session_state.problems:
        st.session_state.problems.append(problem)


def change(**values: Any) -> View:
    """Replace parts of the view."""
    before = current()
    st.session_state.view = replace(before, **values)
    if current() != before:
        st.session_state.changed = True
    return current()


def publish() -> None:
    """Write the view into the URL, where it is not there yet."""
    params, before = to_params(current()), _address()
    if params != before:
        st.session_state.overwritten = before, time.monotonic()
        st.query_params.from_dict(params)
    st.session_state.published = params
    settle()


def settle() -> None:
    """The address says all that was chosen, or as much of it as can be shown."""
    st.session_state.changed = False


def show(key: str, value: Any) -> None:
    """Give a widget a value that it does not have.

    To give it the one that it has would take back what is chosen in the browser at this moment.
    But on another page Streamlit takes a widget for a new one, without a value, while its key
    still answers for the old one.
    """
    given: dict[str, Any] = st.session_state.setdefault("given", {})
    page = st.session_state.get("page")
    if given.get(key) != page or key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    given[key] = page


def bound(
    name: str,
    widget: Callable[..., T],
    *args: Any,
    also: Callable[[], None] | None = None,
    **options: Any,
) -> T:
    """A widget that shows `view.name` and writes what the user chooses back into it.

    `also` is called after that.

    The view, not the widget, is the source of truth: Streamlit forgets a widget that is not drawn.
    """
    key = f"ask_{name}"
    show(key, getattr(current(), name))

    def store() -> None:
        st.session_state.problems = []
        value = st.session_state[key]
        if value is not None:  # a segmented control can be switched off; then nothing changes
            change(**{name: value})
        if also is not None:
            also()

    return widget(*args, key=key, on_change=store, **options)
