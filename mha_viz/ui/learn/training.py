"""Training on a lab's page: a button, progress with Stop, and results kept by their settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from mha_viz.ui.learn.choices import Choices

KEPT = 4  # results in a session, for each name
_THREADS = torch.get_num_threads()
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
) -> T | None:
    """What `train` found under these settings, if it has been run; and a button that runs it.

    Not for a fragment: there neither Stop nor another choice would end the run.

    Args:
        settings: all that the result depends on. total: how many steps `train` will report.
        train: takes what it has to call with the number of steps done.
        name: of this training, unique in its lab. label: what the button says.
    """
    key = choices.key(f"{name}-results")
    results: dict[tuple[object, ...], T] = st.session_state.setdefault(key, {})
    place = st.container(horizontal=True, vertical_alignment="center")
    again = settings in results
    kind: Literal["primary", "secondary"] = "secondary" if again else "primary"
    button = f"{label} again" if again else label
    if place.button(button, icon=":material/play_arrow:", key=choices.key(name), type=kind):
        results[settings] = _run(choices.key(f"{name}-stop"), place, total, train)
        while len(results) > KEPT:
            results.pop(next(iter(results)))
        st.rerun()
    return results.get(settings)


def _run(key: str, place: DeltaGenerator, total: int, train: Callable[[Progress], T]) -> T:
    stop, bar = place.empty(), st.empty()
    stop.button("Stop", key=key, icon=":material/stop:")

    def on_step(done: int) -> None:
        # Drawing is where Streamlit ends a run that another click has overtaken.
        bar.progress(min(done / max(total, 1), 1.0), f"Step {done:,} of {total:,}")

    try:
        with _one_thread():
            return train(on_step)
    finally:
        stop.empty()
        bar.empty()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Matrices this small gain nothing from threads, which wait for each other on a busy machine.

    Always back to the same number: another session may be in here as well.
    """
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(_THREADS)
