"""Labels on single texts: which each head would have got from that text alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from mha_viz.core.asking import ask
from mha_viz.core.metrics import LABELS, Baseline, Label
from mha_viz.core.metrics.labels import to_beat
from mha_viz.corpus.blocks import Block, read_block
from mha_viz.corpus.labels import Hurdle, clears, nearest_random


def labels_of_texts(
    folder: Path, number: int, known: Mapping[str, Block], n_layers: int
) -> dict[str, Bool[np.ndarray, "text layer head"]]:
    """Which labels each head gets on each text by itself, by the rule of `head_labels`.

    Args:
        folder: of the study.
        number: of the shard.
        known: "texts", and "untrained" and "chance" where the study has them.
        n_layers: of the model.
    """
    lengths = read_block(folder, number, "texts", ("n_tokens",), known["texts"].values.shape[1])
    n_tokens = lengths.values[:, 0, 0].astype(float)
    found: dict[str, Bool[np.ndarray, "text layer head"]] = {}
    for label in LABELS.values():
        ask()
        if label.metric not in known["texts"].columns:
            continue
        score = _scores(known["texts"], label.metric, n_layers)
        hurdle = _hurdles_of_texts(label, known, n_tokens, n_layers)
        given = clears(label, score, hurdle)
        for other in label.unless:
            given &= ~found.get(other, np.zeros_like(given))
        found[label.key] = given
    return found


def _scores(block: Block, metric: str, n_layers: int) -> Float[np.ndarray, "text layer head"]:
    values = block.values[..., block.columns.index(metric)]
    return values.reshape(len(values), n_layers, -1).astype(float)


def _hurdles_of_texts(
    label: Label,
    known: Mapping[str, Block],
    n_tokens: Float[np.ndarray, "text"],
    n_layers: int,
) -> Hurdle:
    """What each text by itself asks of a label, in each layer."""
    none = np.full((len(n_tokens), n_layers), np.nan)
    uniform = _baseline(known, label.metric, "uniform", none)
    best = none
    if "untrained" in known and label.metric in known["untrained"].columns:
        best = nearest_random(label, _scores(known["untrained"], label.metric, n_layers), uniform)
    rows = _baseline(known, label.metric, "rows", _n_rows(label, n_tokens, none))
    baseline, threshold = none.copy(), none.copy()
    asked: dict[tuple[float, ...], tuple[float, float]] = {}  # layers mostly ask the same
    for at in np.ndindex(none.shape):
        key = (float(uniform[at]), float(best[at]), float(rows[at]))
        if key not in asked:
            asked[key] = _to_beat(label, *key)
        baseline[at], threshold[at] = asked[key]
    return Hurdle(baseline, threshold)


def _to_beat(label: Label, uniform: float, best: float, rows: float) -> tuple[float, float]:
    """(baseline, threshold) of one text and layer; NaN where that text is too short to tell."""
    known = [None if np.isnan(value) else value for value in (uniform, best, rows)]
    given = Baseline(uniform=known[0], random_high=known[1], random_low=known[1], n_rows=known[2])
    asked = to_beat(label, given)
    return (np.nan, np.nan) if asked is None else asked[1:]


def _baseline(
    known: Mapping[str, Block], metric: str, name: str, otherwise: Float[np.ndarray, "text layer"]
) -> Float[np.ndarray, "text layer"]:
    column = f"{metric}_{name}"
    if "chance" not in known or column not in known["chance"].columns:
        return otherwise
    block = known["chance"]
    return block.values[..., block.columns.index(column)].astype(float)


def _n_rows(
    label: Label, n_tokens: Float[np.ndarray, "text"], none: Float[np.ndarray, "text layer"]
) -> Float[np.ndarray, "text layer"]:
    """How many rows a score is a mean of; of repeated tokens only the study itself can say."""
    if label.metric == "duplicate_token":
        return none
    fewer = label.metric in ("previous_token", "next_token")  # a row has no such neighbour
    return np.broadcast_to((n_tokens - fewer)[:, None], none.shape)
