"""Work that takes a while: a button, progress with Stop, and results kept by their settings.

Not for a fragment: there neither Stop nor another choice would end the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import streamlit as st
from cachetools import LRUCache

from mha_viz.learn.frame.choices import Choices
from mha_viz.ui.run import heavy
from mha_viz.ui.widgets.messages import progress

if TYPE_CHECKING:
    from mha_viz.core.stored_runs import StoredRun

T = TypeVar("T")


@dataclass(frozen=True)
class LabRun(Generic[T]):
    """A run of seconds or minutes, with all that its result depends on.

    Args:
        make: a function of the library with its arguments but `progress_argument`, which it calls
            with the number of steps done, and may with that of all.
        settings: all that the result depends on.
        total: the steps that `make` will report.
        stored: the run whose result is there at once under its settings.
        seconds: that it takes, about; None where that is unknown.
        progress_argument: the argument of `make` that takes its progress.
    """

    make: partial[T]
    settings: tuple[object, ...]
    total: int
    stored: StoredRun[Any] | None = None
    seconds: float | None = None
    progress_argument: str = "on_step"


def offer_run(
    choices: Choices, run: LabRun[T], *, name: str = "train", label: str = "Train", keep: int = 4
) -> T | None:
    """Draw a button that does a run, and return its result under these settings, or None.

    A session keeps the last `keep` results of this `name`.
    """
    choices.publish()  # it may take a while, and the link is true before it
    results: LRUCache[tuple[object, ...], T]
    results = st.session_state.setdefault(choices.key(f"{name}-results"), LRUCache(keep))
    row = st.container(horizontal=True, vertical_alignment="center")
    cached_result, precomputed = results.get(run.settings), False
    if cached_result is None and run.stored is not None and run.settings == run.stored.settings:
        from mha_viz.core import stored_runs

        cached_result, precomputed = stored_runs.read(run.stored), True
    kind: Literal["primary", "secondary"] = "primary" if cached_result is None else "secondary"
    again = "Run it yourself" if precomputed else f"{label} again"
    button = label if cached_result is None else again
    work = heavy.work(run.make, run.settings, run.seconds, run.progress_argument)
    heavy.expect(work)
    if row.button(button, icon=":material/play_arrow:", key=choices.key(name), type=kind):
        results[run.settings] = progress.done(
            work,
            choices.key(f"{name}-stop"),
            "Starting …",
            lambda done, of=run.total: (done / max(of, 1), f"Step {done:,} of {of:,}"),
            row,
        )
        st.rerun()
    if precomputed:
        row.caption("Precomputed with these settings.")
    return cached_result
