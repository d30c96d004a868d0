"""The head switches in Streamlit: a grid of all heads, each of them on or off.

What is drawn is decided in head_switches.js.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st
from jaxtyping import Num
from torch import Tensor

from mha_viz.core.layer_numbers import is_counted
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.frame import as_numbers, check_head
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser, session
from mha_viz.ui.widgets.components.component import LateComponent, carry, event_of, validate_cell
from mha_viz.web import theme
from mha_viz.web.payload import unpack

Head = tuple[int, int]  # layer, head
_NAME_LETTERS = 60
_switches = LateComponent("head_switches")


def head_switches(
    n_layers: int,
    n_heads: int,
    *,
    off: Sequence[Head],
    value: Num[np.ndarray | Tensor, "layer head"] | None = None,
    value_name: str = "",
    selected: Head | None = None,
    payload: bytes | None = None,
    scale: str = "sqrt",
    layer_numbers: Sequence[int] = (),
    key: str,
    take: Callable[[tuple[Head, ...]], object],
) -> None:
    """Draw all heads as switches, a row per layer and a column per head.

    A click switches a head, a drag all heads that it touches, a click on a layer's name or a head's
    number the whole row or column. Keyboard: arrows, Space or Enter, Shift+Space for the layer.

    `take` is called with the heads that are off, in order, after the user changed them and before
    the run that this causes. Keep them and pass them as `off`: any other set changes the switches.

    - `off`: (layer, head) of the heads that are off, in any order.
    - `value`: (layer, head), as colour; on a diverging scale where one is below 0; NaN is grey.
    - `value_name`: the value's name, with its unit; any text.
    - `selected`: the head with a frame.
    - `payload`: of `grid_payload` for these heads: each tile then holds its head's pattern, and the
      first of its labels once a payload of "notes" has brought them.
    - `layer_numbers`: the model's own, 0, 1, 2 ... if not given.
    - `key`: unique in the app; `{key}-heard` in the session's state belongs to it.

    Raises ArgumentError: no head at all, a head that does not exist. ShapeError: a value that is
    not (n_layers, n_heads).
    """
    if n_layers < 1 or n_heads < 1:
        raise ArgumentError(f"There is no head among {n_layers} layers with {n_heads} heads.")
    drawn = sorted({check_head(head, n_layers, n_heads) for head in off})
    settings: dict[str, Any] = {
        "layers": n_layers,
        "heads": n_heads,
        **({} if is_counted(layer_numbers) else {"layer_numbers": list(layer_numbers)}),
        "off": [list(head) for head in drawn],
        "value": None if value is None else _coloured(value, (n_layers, n_heads)),
        "name": value_name[:_NAME_LETTERS],
        "heard": session().heard.get(key),
        "payload": None if payload is None else unpack(payload)[0]["id"],
        "scale": theme.check_scale(scale),
        "selected": None if selected is None else list(check_head(selected, n_layers, n_heads)),
    }

    @guarded
    def on_event() -> None:
        sent = event_of(from_browser(key), "switch")
        name = sent.get("id")
        session().heard[key] = name[:40] if isinstance(name, str) else None
        switched = _switched(sent, n_layers, n_heads)
        if switched is not None:
            take(switched)

    # The style of all pages reserves the height that so many heads need.
    with st.container(gap=None, key=f"{key}-{n_layers}-layers-{n_heads}-heads"):
        _switches(key=key, data=settings, on_switch_change=on_event)
        if payload is not None:
            carry(payload, key=f"{key}-payload")
        _switches.bring(f"{key}-script")


def _coloured(value: Any, shape: tuple[int, int]) -> dict[str, Any]:
    """Return the numbers, row by row, the ends of their scale and its colours in both themes."""
    numbers = as_numbers(value, 2, "value (layer, head)")
    if numbers.shape != shape:
        raise ShapeError(f"value must have shape {shape}, layers and heads; got {numbers.shape}.")
    known = numbers[np.isfinite(numbers)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    signed, reach = low < 0, max(-low, high) or 1.0
    scale = theme.diverging if signed else theme.sequential
    return {
        # Six digits: more than the page ever shows.
        "numbers": [float(f"{v:.6g}") if math.isfinite(v) else None for v in numbers.ravel()],
        "low": -reach if signed else 0.0,
        "high": reach,
        "light": list(scale(False)),
        "dark": list(scale(True)),
        "missing": {"light": theme.missing(False), "dark": theme.missing(True)},
    }


def _switched(sent: Any, n_layers: int, n_heads: int) -> tuple[Head, ...] | None:
    """Return the heads that the browser sent, if all exist: anyone can send anything.

    >>> _switched({"of": [2, 3], "off": [[1, 2], [0, 1], [1, 2]]}, 2, 3)
    ((0, 1), (1, 2))
    >>> _switched({"of": [2, 3], "off": [[2, 0]]}, 2, 3) is None
    True
    """
    if not isinstance(sent, Mapping) or sent.get("of") != [n_layers, n_heads]:
        return None  # also where the page has gone on to another model meanwhile
    off = sent.get("off")
    if not isinstance(off, list) or len(off) > n_layers * n_heads:
        return None
    heads = {validate_cell(pair, (n_layers, n_heads)) for pair in off}
    known = sorted(head for head in heads if head is not None)
    return None if None in heads else tuple(known)
