"""Heads on the board: those of a view, and boards without repetition."""

from collections.abc import Sequence

from mha_viz.ui.state.layer_numbers import by_number
from mha_viz.ui.state.link_values import MAX_PINS, Pin
from mha_viz.ui.state.views import Shared


def chosen_pin(view: Shared) -> Pin:
    """Return the chosen head of a view's run."""
    return Pin(view.model, view.text, view.pair, view.part, by_number(view).layer, view.head)


def joined(pins: Sequence[Pin]) -> tuple[Pin, ...]:
    """Return the different ones of these heads, as many as a board holds.

    >>> pin = Pin("tiny-bert", "a", "", "self", 0, 1)
    >>> [pin.head for pin in joined([pin, pin._replace(note="again"), pin._replace(head=2)])]
    [1, 2]
    """
    distinct: list[Pin] = []
    for pin in pins:
        distinct += [] if pin.is_in(distinct) else [pin]
    return tuple(distinct[:MAX_PINS])
