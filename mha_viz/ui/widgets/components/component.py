"""The base of all components: scripts and payloads travel once, and events are validated."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from mha_viz.web.browser import carrier_script, component_script, late_script, style


def component(name: str) -> Any:
    """Declare a component of Streamlit with the script and the style of its name."""
    return st.components.v2.component(f"mha_viz.{name}", css=style(name), js=component_script(name))


class LateComponent:
    """A component of Streamlit in two elements: one brings its script, the other has its data.

    Streamlit sends a component's script again with each message about it, but leaves out a message
    that has not changed.
    """

    def __init__(self, name: str) -> None:
        self._carrier = st.components.v2.component(
            f"mha_viz.{name}_script", js=carrier_script(name)
        )
        self._component = st.components.v2.component(
            f"mha_viz.{name}", css=style(name), js=late_script(name)
        )

    def bring(self, key: str) -> None:
        """Bring the script: once on a page, before or after what it draws."""
        self._carrier(key=key)

    def __call__(self, *, key: str, data: Any, **on_change: Any) -> Any:
        """Draw it; nothing is seen before its script is there."""
        return self._component(key=key, data=data, **on_change)


_carrier = st.components.v2.component(
    "mha_viz.payload_carrier", js=component_script("payload_carrier")
)


def carry(*payloads: bytes, key: str) -> None:
    """Put payloads where every component of the page finds them, by the ids in their headers.

    All travel in one message, of an element of its own: it stays the same while what draws them
    changes, so that the bytes do not travel again.
    """
    from mha_viz.web.payload import bundle  # it imports torch: the first page does not wait for it

    if payloads:
        _carrier(key=key, data=payloads[0] if len(payloads) == 1 else bundle(payloads))


def event_of(event: Any, name: str) -> Mapping[str, Any]:
    """Return what the browser sent under a name; empty where it is none of our messages.

    >>> event_of({"step": {"to": 2}}, "step"), event_of({"step": 2}, "step"), event_of(None, "step")
    ({'to': 2}, {}, {})
    """
    sent = event.get(name) if isinstance(event, Mapping) else None
    return sent if isinstance(sent, Mapping) else {}


def validate_cell(sent: Any, sizes: Sequence[int]) -> tuple[int, int] | None:
    """Return the row and column that the browser names; None where there is no such place.

    >>> validate_cell([1, 2], (2, 3))
    (1, 2)
    >>> [validate_cell(sent, (2, 3)) for sent in ([2, 0], [0, -1], [True, 0], [0], "01", None)]
    [None, None, None, None, None, None]
    """
    if not isinstance(sent, list) or len(sent) != 2 or {type(i) for i in sent} != {int}:
        return None
    row, column = sent
    return (row, column) if 0 <= row < sizes[0] and 0 <= column < sizes[1] else None


def validate_step(event: Any, count: int) -> tuple[int, bool] | None:
    """Return the next value and whether others follow; None for anything else.

    >>> validate_step({"step": {"to": 2, "playing": True}}, 3)
    (2, True)
    >>> bad = ({"to": 3, "playing": True}, {"to": True, "playing": True}, {"to": 1}, [1], None)
    >>> [validate_step({"step": sent}, 3) for sent in bad]
    [None, None, None, None, None]
    """
    sent = event_of(event, "step")
    to, playing = sent.get("to"), sent.get("playing")
    if type(to) is not int or type(playing) is not bool or not 0 <= to < count:
        return None
    return to, playing
