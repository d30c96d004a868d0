"""A bar that shows how far heavy work is, and a button that stops it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.ui.lanes.work import Waiting, Work
from mha_viz.ui.session import heavy

Said = tuple[float, str]  # the share that is done, and a few words


def done(
    work: Work,
    key: str,
    begin: str,
    words: Callable[..., Said],
    place: DeltaGenerator | None = None,
) -> Any:
    """What some heavy work finds; a bar and a button "Stop" are there while it waits and is done.

    Args:
        work: to be done.
        key: of the button.
        begin: what the bar says until the work has told something.
        words: from what the work tells to what the bar says.
        place: where the button stands; beside nothing else if not given.

    Raises:
        MhaVizError: the work's own error; JobError where the server has no room for it, or it took
            too long, or its process ended.
    """
    bar, stop = st.progress(0.0, begin), (place or st).empty()
    stop.button("Stop", key=key, icon=":material/stop:")

    def told(news: Waiting | tuple[Any, ...]) -> None:
        share, said = (0.0, waiting(news)) if isinstance(news, Waiting) else words(*news)
        bar.progress(min(share, 1.0), said)

    try:
        return heavy.do(work, told)
    finally:
        bar.empty()
        stop.empty()


def of_total(done: int, total: int) -> Said:
    """How far work is that counts.

    >>> of_total(1_200, 4_800)
    (0.25, '1,200 of 4,800')
    """
    return done / max(total, 1), f"{done:,} of {total:,}"


def waiting(place: Waiting) -> str:
    """A place in the queue, in words.

    >>> waiting(Waiting(2, 70.0)), waiting(Waiting(1, 4.0))
    ('Waiting: 2 before you, about 1 min', 'Waiting: 1 before you, about 10 s')
    """
    seconds = 10 * max(1, round(place.seconds / 10))
    about = f"{seconds} s" if seconds < 60 else f"{round(seconds / 60)} min"
    return f"Waiting: {place.before} before you, about {about}"
