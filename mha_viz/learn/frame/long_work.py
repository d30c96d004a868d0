"""Work that takes a while: a button, progress with Stop, and results kept by their settings.

Not for a fragment: there neither Stop nor another choice would end the run.
"""

from functools import partial
from typing import Any, Literal

import streamlit as st

from mha_viz.learn.frame.choices import Choices
from mha_viz.ui.run import heavy
from mha_viz.ui.widgets.messages import progress


def trained(
    choices: Choices,
    settings: tuple[object, ...],
    total: int,
    train: partial[Any],
    *,
    name: str = "train",
    label: str = "Train",
    keep: int = 4,
    seconds: float | None = None,
) -> Any:
    """Draw a button that runs `train`, and return its result under these settings, or None.

    `settings` are all that the result depends on, `total` the steps that `train` will report.
    `train` is a function of the library with its arguments but `on_step`, which it calls with the
    number of steps done. A session keeps the last `keep` results.
    """
    choices.publish()  # it may take a while, and the link is true before it
    key = choices.key(f"{name}-results")
    results: dict[tuple[object, ...], Any] = st.session_state.setdefault(key, {})
    place = st.container(horizontal=True, vertical_alignment="center")
    again = settings in results
    kind: Literal["primary", "secondary"] = "secondary" if again else "primary"
    button = f"{label} again" if again else label
    work = heavy.work(train, settings, seconds, "on_step")
    heavy.expect(work)
    if place.button(button, icon=":material/play_arrow:", key=choices.key(name), type=kind):
        results[settings] = progress.done(
            work,
            choices.key(f"{name}-stop"),
            "Starting …",
            lambda done: (done / max(total, 1), f"Step {done:,} of {total:,}"),
            place,
        )
        while len(results) > keep:
            results.pop(next(iter(results)))
        st.rerun()
    return results.get(settings)
