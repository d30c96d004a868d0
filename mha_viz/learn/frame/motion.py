"""Play and pause beside a slider: a choice that goes on by itself, value by value.

What is played and when is decided in play_button.js; what is drawn, by the lab, as if somebody had
moved the slider.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from mha_viz.learn.frame.choices import Choices
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets.components.component import validate_step
from mha_viz.web.browser import script, style

_player = st.components.v2.component("mha_viz.player", css=style("player"), js=script("player"))


def play(choices: Choices, name: str, value: float, frames: Sequence[float], what: str) -> None:
    """Draw a button that leads the choice `name` through these values, beginning near `value`.

    Args:
        choices: of the lab. While it plays they leave the address alone: each value would be a
            step of the browser's history.
        name: of the choice, whose control stands beside the button.
        value: of the choice now.
        frames: its values, the first one first.
        what: is played, to screen readers.
    """
    key = choices.key(f"{name}-player")

    @guarded
    def go() -> None:
        sent = validate_step(st.session_state.get(key), len(frames))
        if sent is not None:
            at, choices.moving = sent
            choices.set(name, frames[at])

    at = min(range(len(frames)), key=lambda i: abs(frames[i] - value))
    data = {"at": at, "last": len(frames) - 1, "what": what}
    _player(key=key, data=data, width="content", on_step_change=go)
