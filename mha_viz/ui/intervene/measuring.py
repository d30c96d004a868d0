"""Work that takes a while: what it found stays for the session, a bar shows how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.interventions.duration import n_tokens, seconds_per_token

KEPT = 8  # measurements that a visitor may come back to


def found(kind: str) -> dict[Any, Any]:
    """What this visitor has measured, the latest last.

    Args:
        kind: of measurement, such as "importance".

    Returns:
        What it was measured with -> its result.
    """
    held: dict[Any, Any] = st.session_state.setdefault(f"measured_{kind}", {})
    return held


def keep(kind: str, key: object, result: object) -> None:
    """Keep a measurement; the oldest goes where there are too many.

    Args:
        kind: of measurement.
        key: what it was measured with.
        result: what was found.
    """
    held = found(kind)
    held[key] = result
    while len(held) > KEPT:
        held.pop(next(iter(held)))


def seconds(
    checkpoint: object, model: AttentionModel, texts: Sequence[str], passes: float
) -> float | None:
    """How long so many passes over the texts will take here.

    How fast a model is, is measured once in a session.

    Args:
        checkpoint: what the model was loaded from.
        model: that is to be run.
        texts: that are to be measured over.
        passes: over all of them.

    Returns:
        None where they cannot be measured over: the button will say why.
    """
    try:
        if checkpoint not in found("pace"):
            keep("pace", checkpoint, seconds_per_token(model, texts[0]))
        pace: float = found("pace")[checkpoint]
        return pace * n_tokens(model, texts) * passes
    except MhaVizError:
        return None


def estimate(seconds: float | None) -> str:
    """How long something will take, as a sentence; none where nobody knows.

    Args:
        seconds: 0 or more.
    """
    return "" if seconds is None else f"Takes {about(seconds)} on this machine."


def about(seconds: float) -> str:
    """A duration in round numbers: nobody knows it better beforehand.

    Args:
        seconds: 0 or more.

    >>> [about(seconds) for seconds in (0.2, 7.0, 38.0, 140.0, 5e3)]
    ['a few seconds', 'about 10 seconds', 'about 40 seconds', 'about 2 minutes', 'about 83 minutes']
    """
    if seconds < 5:
        return "a few seconds"
    if seconds < 95:
        return f"about {max(10, round(seconds / 10) * 10)} seconds"
    return f"about {round(seconds / 60)} minutes"
