"""Views whose layers are positions on the layer axis, and addresses whose layers are numbers.

A page indexes arrays by position; an address and whatever a person reads have the model's own
number. They differ where a model has layers without attention.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from mha_viz.ui.state.link_values import UNTRAINED, Pin
from mha_viz.ui.state.views import Shared

V = TypeVar("V")
_LAYERS = ("layer", "layer_b")
_HEADS = ("heads", "off", "tested", "lasso")


def by_number(view: V) -> V:
    """Return a view of positions as an address has it: each layer by the model's own number."""
    numbers: Sequence[int] = getattr(view, "layer_numbers", ())
    if not numbers:
        return view
    number_of = dict(enumerate(numbers))
    numbered = _mapped(view, lambda layer: number_of.get(layer, layer))
    return replace(numbered, layer_numbers=())  # type: ignore[type-var]


def chosen_pin(view: Shared) -> Pin:
    """Return the chosen head of a view's run."""
    return Pin(view.model, view.text, view.pair, view.part, by_number(view).layer, view.head)


def by_position(view: V, numbers: Sequence[int]) -> V:
    """Return a view for a model with these layer numbers, () for 0, 1, 2 ...

    A layer that the model does not have gets a position beyond the axis.
    """
    view = by_number(view)
    if not numbers:
        return view
    positions = {number: position for position, number in enumerate(numbers)}
    positioned = _mapped(view, lambda layer: positions.get(layer, len(numbers)))
    return replace(positioned, layer_numbers=tuple(numbers))  # type: ignore[type-var]


def _mapped(view: V, of_layer: Callable[[int], int]) -> V:
    """Return a view with other numbers for the layers that its heads name; -1 stays."""
    names = {field.name for field in fields(view)}  # type: ignore[arg-type]
    model, other = getattr(view, "model", ""), getattr(view, "model_b", "")
    is_of_one_model = other.removesuffix(UNTRAINED) in ("", model, "untrained")
    layers = _LAYERS if is_of_one_model else _LAYERS[:1]
    changed: dict[str, Any] = {}
    for name in names.intersection(layers):
        layer = getattr(view, name)
        changed[name] = layer if layer < 0 else of_layer(layer)
    for name in names.intersection(_HEADS):
        changed[name] = tuple((of_layer(layer), head) for layer, head in getattr(view, name))
    return replace(view, **changed)  # type: ignore[type-var]
