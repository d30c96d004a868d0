"""The board in Streamlit: several heads beside each other, with cells of one size.

What is drawn is decided in board.js.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import streamlit as st

from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser
from mha_viz.ui.widgets.components.component import LateComponent, carry, event_of
from mha_viz.web.payload import unpack

MAX_NOTE = 200  # letters
Actions = Sequence[str]  # of "left", "right", "remove", "heads", "note"

_board = LateComponent("board")


class Edit(NamedTuple):
    """Something that a person did to a panel of the board."""

    panel: int
    action: str
    text: str = ""


def board(
    payload: bytes,
    *,
    key: str,
    scale: str,
    window: Sequence[Sequence[int]] = (),
    waiting: str = "",
    actions: Sequence[Actions] = (),
    on_edit: Callable[[Edit], object] | None = None,
) -> None:
    """Draw the heads of a payload, and what each panel offers.

    `waiting` stands where the verdict will; "" is no room for one. `on_edit` is called before the
    run that it causes.
    """
    name = unpack(payload)[0]["id"]
    data: dict[str, Any] = {"name": key, "payload": name, "scale": scale, "waiting": waiting}
    data |= {
        "window": [list(span) for span in window],
        "actions": [list(action) for action in actions],
    }

    @guarded
    def on_event() -> None:
        edit = _validate(from_browser(key), name, actions)
        if edit is not None and on_edit is not None:
            on_edit(edit)

    with st.container(gap=None):
        _board(key=key, data=data, on_edit_change=on_event)
        _board.bring(f"{key}-script")
        carry(payload, key=f"{key}-payload")


def _validate(event: Any, payload: str, actions: Sequence[Actions]) -> Edit | None:
    """Return what the browser sent about this payload, if it is offered; None for anything else.

    >>> _validate({"edit": {"of": "a", "panel": 0, "action": "left"}}, "a", [["left"]])
    Edit(panel=0, action='left', text='')
    >>> bad = ({"panel": 1}, {"panel": True}, {"action": "note"}, {"of": "b"}, {"text": 3})
    >>> sent = {"of": "a", "panel": 0, "action": "left"}
    >>> [_validate({"edit": sent | other}, "a", [["left"]]) for other in bad]
    [None, None, None, None, None]
    """
    sent = event_of(event, "edit")
    panel, action, text = sent.get("panel"), sent.get("action"), sent.get("text", "")
    if sent.get("of") != payload or type(panel) is not int or not 0 <= panel < len(actions):
        return None
    if not isinstance(action, str) or action not in actions[panel] or not isinstance(text, str):
        return None
    return Edit(panel, action, " ".join(text.split())[:MAX_NOTE])
