"""Work that takes a while: a button, progress with Stop, and results kept by their settings.

Not for a fragment: there neither Stop nor another choice would end the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import streamlit as st

from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.session.one_thread import one_thread
from mha_viz.ui.widgets.progress import progress

T = TypeVar("T")
Progress = Callable[[int], None]


def trained(
    choices: Choices,
    settings: tuple[object, ...],
    total: int,
    train: Callable[[Progress], T],
    *,
    name: str = "train",
    label: str = "Train",
    keep: int = 4,
) -> T | None:
    """What `train` found under these settings, if it has been run; and a button that runs it.

    Args:
        choices: of the lab.
        settings: all that the result depends on.
        total: how many steps `train` will report.
        train: takes what it has to call with the number of steps done.
        name: of this training, unique in its lab.
        label: what the button says.
        keep: how many results a session remembers.
    """
    key = choices.key(f"{name}-results")
    results: dict[tuple[object, ...], T] = st.session_state.setdefault(key, {})
    place = st.container(horizontal=True, vertical_alignment="center")
    again = settings in results
    kind: Literal["primary", "secondary"] = "secondary" if again else "primary"
    button = f"{label} again" if again else label
    if place.button(button, icon=":material/play_arrow:", key=choices.key(name), type=kind):
        with progress(choices.key(f"{name}-stop"), "Starting …", place) as tell, one_thread():
            results[settings] = train(
                lambda done: tell(done / max(total, 1), f"Step {done:,} of {total:,}")
            )
        while len(results) > keep:
            results.pop(next(iter(results)))
        st.rerun()
    return results.get(settings)
