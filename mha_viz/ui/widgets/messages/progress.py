"""Progress of heavy work, a button that stops it, and its results, kept for the session."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import streamlit as st
from cachetools import LRUCache
from streamlit.delta_generator import DeltaGenerator

from mha_viz.errors import MhaVizError
from mha_viz.ui.jobs.ticket import Waiting, Work
from mha_viz.ui.run import heavy
from mha_viz.ui.state.session import session

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel

T = TypeVar("T")
Progress = tuple[float, str]  # the share that is done, and a few words
KEPT = 8  # measurements that a visitor may come back to
SURE = 2.0  # seconds of work after which its pace is known well enough


class TimeLeft:
    """The time that work still takes, by what it has done since it was first heard of.

    An estimate from before it began is wrong where the machine is busier now, or less so.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, float] | None = None

    def after(self, share: float) -> float | None:
        """Estimate the seconds left once this share is done; None while too little is known."""
        now = self._clock()
        if self._first is None:
            self._first = now, share
        began, before = self._first
        if now - began < SURE or share <= before:
            return None
        return (now - began) * max(1 - share, 0.0) / (share - before)


def done(
    work: Work,
    key: str,
    begin: str,
    words: Callable[..., Progress],
    slot: DeltaGenerator | None = None,
) -> Any:
    """Return what some heavy work finds, with a bar and a button "Stop" meanwhile.

    The bar says how much longer it takes, once that is known. `words` puts the work's news into
    words. Raises MhaVizError: the work's own error; JobError where the server has no room for it,
    or it took too long, or its process ended.
    """
    bar, stop = st.progress(0.0, begin), (slot or st).empty()
    stop.button("Stop", key=key, icon=":material/stop:")
    time_left = TimeLeft()
    job_share = 0.0

    def on_news(news: Waiting | tuple[Any, ...]) -> float | None:
        nonlocal job_share
        if isinstance(news, Waiting):
            bar.progress(0.0, waiting(news))
            return None
        share, label = words(*news)
        seconds_left, job_share = time_left.after(share), min(share, 1.0)
        bar.progress(
            job_share, label if seconds_left is None else f"{label}, {about(seconds_left)} left"
        )
        return share

    def on_silence(seconds: float) -> None:
        bar.progress(job_share, f"{silence(seconds)}. Stop ends it.")

    try:
        return heavy.do(work, on_news, on_silence)
    finally:
        bar.empty()
        stop.empty()


def of_total(done: int, total: int, of: str = "") -> Progress:
    """Return the progress of work that counts; `of` says what.

    >>> of_total(1_200, 4_800), of_total(3, 4, of=" paths")
    ((0.25, '1,200 of 4,800'), (0.75, '3 of 4 paths'))
    """
    return done / max(total, 1), f"{done:,} of {total:,}{of}"


def waiting(turn: Waiting) -> str:
    """Describe a place in the queue.

    >>> waiting(Waiting(2, 70.0)), waiting(Waiting(1, 4.0))
    ('Waiting: 2 before you, about 70 seconds', 'Waiting: 1 before you, a few seconds')
    """
    return f"Waiting: {turn.before} before you, {about(turn.seconds)}"


def silence(seconds: float) -> str:
    """Say that work may be stuck.

    >>> silence(64.0)
    'No progress for about 60 seconds: it may be stuck'
    """
    return f"No progress for {about(seconds)}: it may be stuck"


def about(seconds: float) -> str:
    """Describe a duration in round numbers: nobody knows it better beforehand.

    >>> [about(seconds) for seconds in (0.2, 7.0, 38.0, 140.0, 5e3)]
    ['a few seconds', 'about 10 seconds', 'about 40 seconds', 'about 2 minutes', 'about 83 minutes']
    """
    if seconds < 5:
        return "a few seconds"
    if seconds < 95:
        return f"about {max(10, round(seconds / 10) * 10)} seconds"
    return f"about {round(seconds / 60)} minutes"


def results(kind: str) -> LRUCache[Any, Any]:
    """Return a visitor's measurements of a kind by their settings; the oldest make room."""
    return session().measured.setdefault(kind, LRUCache(KEPT))


def on_request(
    kind: str, key: object, make: Callable[[], T], why: str, button: str, name: str
) -> T | None:
    """Return long work, done or kept; None, with why and a button of this name, until requested."""
    result: T | None = results(kind).get(key)
    if result is None:
        st.info(why)
        if not st.button(button, icon=":material/play_arrow:", key=name, type="primary"):
            return None
        results(kind)[key] = make()
        st.rerun()
    return result


def seconds(
    checkpoint: object, model: AttentionModel, texts: Sequence[str], passes: float
) -> float | None:
    """Estimate how long so many passes over the texts take in the lane of heavy work.

    The pace of a model is measured once in a session, in as many threads as the work will have.
    """
    from mha_viz.interventions.importance import n_tokens, seconds_per_token  # with transformers

    try:
        if checkpoint not in results("pace"):
            with heavy.threads_for(model):
                results("pace")[checkpoint] = seconds_per_token(model, texts)
        pace: float = results("pace")[checkpoint]
        return pace * n_tokens(model, texts) * passes
    except MhaVizError:
        return None


def estimate(seconds: float | None) -> str:
    """Write how long something will take; "" where nobody knows."""
    return "" if seconds is None else f"Takes {about(seconds)} on this machine."
