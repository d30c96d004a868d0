"""Labels over a corpus: given where a head's interval clears the threshold and its baselines'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from mha_viz.core.metrics import LABELS, Label

# Whoever always looks at the token before has these labels by definition: nothing to beat there.
_MEANT_BY_OFFSET = ("previous_token", "local")
_SHORT = 3.0  # tokens; where uniform attention looks no further, near and far mean nothing
_ROUNDING = 1e-6
_COLUMNS = "layer head label mean low high baseline threshold share_of_texts earned".split()


@dataclass(frozen=True)
class Hurdle:
    """What every head of a layer must reach and beat; NaN where there is nothing to compare."""

    baseline: Float[np.ndarray, "*text layer"]
    threshold: Float[np.ndarray, "*text layer"]


def corpus_labels(
    n_layers: int,
    n_heads: int,
    tables: Mapping[str, pd.DataFrame],
    shares: Mapping[str, Float[np.ndarray, "layer head"]],
) -> pd.DataFrame:
    """Every head against every label: a row each, `earned` or not.

    A label of "at least" is earned where the lower end of the head's interval reaches the threshold
    and lies above the upper ends of its baselines: uniform attention, a fixed offset of -1, and the
    best head with random weights, over the same texts. "Local" asks the reverse of the upper end.
    Relative labels take their threshold from that baseline, as `head_labels` does. Induction has a
    text of its own and is not measured on a corpus. Without an interval, of fewer than two
    different texts, nothing is earned.

    Args:
        n_layers: of the model.
        n_heads: of a layer.
        tables: "texts", and "untrained" and "chance" where the study has them: means and intervals.
        shares: label -> on which share of single texts each head would have got it.
    """
    heads = tables["texts"]
    rows: list[pd.DataFrame] = []
    held: dict[str, Bool[np.ndarray, "layer head"]] = {}
    for label in LABELS.values():
        own = heads[heads.metric == label.metric]
        if own.empty:
            continue
        mean, low, high = (
            own[name].to_numpy().reshape(n_layers, n_heads) for name in ("mean", "low", "high")
        )
        hurdle = _hurdle(label, tables, n_layers)
        worst = low if label.at_least else high
        earned = clears(label, worst, hurdle)
        for other in label.unless:
            earned &= ~held.get(other, np.zeros_like(earned))
        held[label.key] = earned
        layers, places = np.indices(mean.shape)
        values = (layers, places, label.key, mean, low, high)
        limits = (hurdle.baseline[:, None], hurdle.threshold[:, None], shares[label.key], earned)
        flat = [np.broadcast_to(one, mean.shape).ravel() for one in (*values, *limits)]
        rows.append(pd.DataFrame(dict(zip(_COLUMNS, flat, strict=True))))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=_COLUMNS)


def clears(
    label: Label, score: Float[np.ndarray, "*text layer head"], hurdle: Hurdle
) -> Bool[np.ndarray, "*text layer head"]:
    """Whether a score reaches the threshold and beats the baseline; NaN does neither.

    Args:
        label: which one.
        score: of each head, or the end of its interval.
        hurdle: what it must reach and beat.
    """
    threshold, baseline = hurdle.threshold[..., None], hurdle.baseline[..., None]
    if label.at_least:
        return (score >= threshold) & (score > baseline)
    return (score <= threshold) & (score < baseline)


def _hurdle(label: Label, tables: Mapping[str, pd.DataFrame], n_layers: int) -> Hurdle:
    """What the baselines' intervals ask of a label, for each layer."""
    end, hardest = ("high", np.fmax) if label.at_least else ("low", np.fmin)
    uniform = _of_layers(tables.get("chance"), f"{label.metric}_uniform", "mean", n_layers)
    best = _best_random(tables.get("untrained"), label, end, uniform)
    if label.key == "broad":  # what nearly all heads are untrained: given where none of those is
        threshold = label.threshold * uniform
        return Hurdle(best, np.where(best < threshold, threshold, np.nan))
    baseline = hardest(
        _of_layers(tables.get("chance"), f"{label.metric}_uniform", end, n_layers), best
    )
    if label.key not in _MEANT_BY_OFFSET:
        offset = _of_layers(tables.get("chance"), f"{label.metric}_offset", end, n_layers)
        baseline = hardest(baseline, offset)
    if not label.relative:
        return Hurdle(baseline, np.full(n_layers, label.threshold))
    return Hurdle(baseline, np.where(uniform < _SHORT, np.nan, label.threshold * baseline))


def _of_layers(
    table: pd.DataFrame | None, metric: str, column: str, n_layers: int
) -> Float[np.ndarray, "layer"]:
    found = None if table is None else _ends(table[table.metric == metric], column)
    if found is None or len(found) != n_layers:
        return np.full(n_layers, np.nan)
    return found


def _best_random(
    table: pd.DataFrame | None, label: Label, end: str, uniform: Float[np.ndarray, "layer"]
) -> Float[np.ndarray, "layer"]:
    """The interval's end of the random head that comes nearest to the label."""
    found = None if table is None else _ends(table[table.metric == label.metric], end)
    if found is None or not len(found):
        return np.full(len(uniform), np.nan)
    return nearest_random(label, found.reshape(1, len(uniform), -1), uniform[None])[0]


def _ends(rows: pd.DataFrame, column: str) -> Float[np.ndarray, "row"]:
    """The ends of intervals; of a baseline that a single text defines, which has none, its mean."""
    return rows[column].fillna(rows["mean"]).to_numpy(float)


def nearest_random(
    label: Label,
    random: Float[np.ndarray, "text layer head"],
    uniform: Float[np.ndarray, "text layer"],
) -> Float[np.ndarray, "text layer"]:
    """The random head that comes nearest to a label, of all layers that see alike.

    Args:
        label: which one.
        random: what heads with random weights score, or the ends of their intervals.
        uniform: of uniform attention, which scores alike where layers see alike.
    """
    alike = np.abs(uniform[:, :, None] - uniform[:, None]) <= _ROUNDING
    alike |= np.isnan(uniform).all(1)[:, None, None]
    hardest, worst = (np.fmax, -np.inf) if label.at_least else (np.fmin, np.inf)
    of_layers = hardest.reduce(random, axis=-1)
    found = hardest.reduce(np.where(alike, of_layers[:, None], worst), axis=-1)
    return np.where(np.isinf(found), np.nan, found)
