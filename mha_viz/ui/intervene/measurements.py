"""Measurements that take a while: how long, and their results, kept for the session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.interventions.duration import n_tokens, seconds_per_token
from mha_viz.ui.run import heavy
from mha_viz.ui.widgets.messages import progress

KEPT = 8  # measurements that a visitor may come back to


def results(kind: str) -> dict[Any, Any]:
    """Return a visitor's measurements of a kind by their settings, the latest last."""
    held: dict[Any, Any] = st.session_state.setdefault(f"measured_{kind}", {})
    return held


def keep(kind: str, key: object, result: object) -> None:
    """Keep a measurement; the oldest goes where there are too many."""
    held = results(kind)
    held[key] = result
    while len(held) > KEPT:
        held.pop(next(iter(held)))


def seconds(
    checkpoint: object, model: AttentionModel, texts: Sequence[str], passes: float
) -> float | None:
    """Estimate how long so many passes over the texts take in the lane of heavy work.

    The pace of a model is measured once in a session, in as many threads as the work will have.
    """
    try:
        if checkpoint not in results("pace"):
            with heavy.threads_for(model):
                keep("pace", checkpoint, seconds_per_token(model, texts))
        pace: float = results("pace")[checkpoint]
        return pace * n_tokens(model, texts) * passes
    except MhaVizError:
        return None


def estimate(seconds: float | None) -> str:
    """Write how long something will take; "" where nobody knows."""
    return "" if seconds is None else f"Takes {progress.about(seconds)} on this machine."
