"""Work that takes a while: a button, progress with Stop, and results kept by their settings.

Not for a fragment: there neither Stop nor another choice would end the run.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import streamlit as st
from cachetools import LRUCache

from mha_viz.learn.frame.choices import Choices
from mha_viz.ui.run import heavy
from mha_viz.ui.widgets.messages import progress

if TYPE_CHECKING:
    from mha_viz.core.stored_runs import StoredRun


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
    stored: StoredRun[Any] | None = None,
    progress_argument: str = "on_step",
) -> Any:
    """Draw a button that runs `train`, and return its result under these settings, or None.

    `settings` are all that the result depends on, `total` the steps that `train` will report.
    `train` is a function of the library with its arguments but `on_step` (`progress_argument`),
    which it calls with the number of steps done, and may with that of all. A session keeps the last
    `keep` results. Under the settings of the `stored` run its result is there at once.
    """
    choices.publish()  # it may take a while, and the link is true before it
    key = choices.key(f"{name}-results")
    results: LRUCache[tuple[object, ...], Any]
    results = st.session_state.setdefault(key, LRUCache(keep))
    place = st.container(horizontal=True, vertical_alignment="center")
    found, precomputed = results.get(settings), False
    if found is None and stored is not None and settings == stored.settings:
        from mha_viz.core import stored_runs

        found, precomputed = stored_runs.read(stored), True
    kind: Literal["primary", "secondary"] = "primary" if found is None else "secondary"
    again = "Run it yourself" if precomputed else f"{label} again"
    button = label if found is None else again
    work = heavy.work(train, settings, seconds, progress_argument)
    heavy.expect(work)
    if place.button(button, icon=":material/play_arrow:", key=choices.key(name), type=kind):
        results[settings] = progress.done(
            work,
            choices.key(f"{name}-stop"),
            "Starting …",
            lambda done, of=total: (done / max(of, 1), f"Step {done:,} of {of:,}"),
            place,
        )
        st.rerun()
    if precomputed:
        place.caption("Precomputed with these settings.")
    return found
