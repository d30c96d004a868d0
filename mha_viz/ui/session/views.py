"""Every choice a user can make, and the link that carries it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from mha_viz.checkpoints.hub_cache import HUB_ID

SCALES = ("sqrt", "linear", "log")
SHOWS = ("heatmap", "carried", "lines", "pair", "table")
DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = ("float32", "bfloat16", "float16")
MAX_URL_TEXT = 1_500  # browsers and chat programs cut longer links
MAX_HEADS = 8
MAX_CLUSTERS = 12
SECTIONS = ("layers", "twins", "alike", "sides", "diversity", "flow")
MEASURES = ("hellinger", "jensen_shannon", "correlation", "redundancy", "cka")
OUTPUTS = ("cka", "redundancy")
SPACES = ("W_Q", "W_K", "W_V", "W_O", "W_QK", "W_OV")
ORDERS = ("layer", "cluster")
TEXTS = ("text", "pair", "text_b", "source")
HOWS = ("zero", "scale", "mean", "uniform", "patch_z", "patch_pattern")
METHODS = ("ablation", "gradient")
MAX_OFF = 2_500


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
        outputs: how what any two heads write is compared.
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
    outputs: str = "cka"
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


NAMES = frozenset(field.name for field in fields(View))
DEFAULT = View(text="The animal didn't cross the street because it was too tired.")


def to_params(view: View) -> dict[str, str]:
    """The URL's parameters: model and text always, the rest where it is not what a link means."""
    always = ("model", "text", *(("layer_b", "head_b") if _two_runs(view) else ()))
    params: dict[str, str] = {}
    for field in fields(View):
        value = getattr(view, field.name)
        if field.name in TEXTS and len(value) > MAX_URL_TEXT:
            continue
        if field.name in always or value != getattr(DEFAULT, field.name):
            params[field.name] = written(value)
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
    if _two_runs(view) and not {"layer_b", "head_b"} & params.keys():
        view = replace(view, layer_b=view.layer, head_b=view.head)
    return view, problems


def _two_runs(view: View) -> bool:
    """Another text or model: seen through the same head, as long as no other one is chosen."""
    return bool(view.text_b.strip() or view.model_b)


def written(value: Any) -> str:
    """A choice as a link has it."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, tuple):
        return ",".join(f"{layer}.{head}" for layer, head in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def one_of(allowed: tuple[str, ...]) -> Callable[[str], str]:
    """Reads one of these words."""

    def read(raw: str) -> str:
        if raw not in allowed:
            raise ValueError
        return raw

    return read


def whole(low: int, high: int) -> Callable[[str], int]:
    """Reads a whole number of that range."""

    def read(raw: str) -> int:
        if len(raw) > 9 or not low <= int(raw) <= high:
            raise ValueError
        return int(raw)

    return read


def real(low: float, high: float) -> Callable[[str], float]:
    """Reads a number of that range."""

    def read(raw: str) -> float:
        value = float(raw)
        if not low <= value <= high:  # NaN fails, too
            raise ValueError
        return value

    return read


def _heads(raw: str, most: int = MAX_HEADS) -> tuple[tuple[int, int], ...]:
    index = whole(0, 9_999)
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
    """The key of a metric or label; whether there is such a one is seen later."""
    if not raw.isidentifier() or len(raw) > 40:
        raise ValueError
    return raw


def _metric(raw: str) -> str:
    """The key of a metric; what it was called in an older link is what it is called now."""
    from mha_viz.core.metrics import RENAMED  # not above: it brings torch

    return RENAMED.get(raw, _key(raw))


_READ: dict[str, Callable[[str], Any]] = {
    "model": _model,
    "text": _text,
    "pair": _text,
    "part": one_of(("self", "encoder", "decoder", "cross")),
    "layer": whole(0, 9_999),
    "head": whole(0, 9_999),
    "heads": _heads,
    "scale": one_of(SCALES),
    "sort": _metric,
    "least": real(0.0, 1e6),
    "only": _key,
    "words": lambda raw: one_of(("0", "1"))(raw) == "1",
    "no_special": lambda raw: one_of(("0", "1"))(raw) == "1",
    "no_first": lambda raw: one_of(("0", "1"))(raw) == "1",
    "show": one_of(SHOWS),
    "mass": real(0.2, 1.0),
    "query": whole(-1, 9_999),
    "key": whole(-1, 9_999),
    "device": one_of(DEVICES),
    "dtype": one_of(DTYPES),
    "section": one_of(SECTIONS),
    "metric": _metric,
    "measure": one_of(MEASURES),
    "order": one_of(ORDERS),
    "clusters": whole(1, MAX_CLUSTERS),
    "layer_b": whole(0, 9_999),
    "head_b": whole(0, 9_999),
    "text_b": _text,
    "model_b": _model,
    "outputs": one_of(OUTPUTS),
    "space": one_of(SPACES),
    "upto": whole(-1, 9_999),
    "off": lambda raw: _heads(raw, MAX_OFF),
    "how": one_of(HOWS),
    "factor": real(-10.0, 10.0),
    "source": _text,
    "place": whole(-1, 9_999),
    "target": lambda raw: raw[:100],
    "against": lambda raw: raw[:100],
    "method": one_of(METHODS),
}
