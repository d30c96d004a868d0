"""Labels over a corpus: given where a head's interval clears the threshold and its baselines'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from mha_viz.core.metrics import LABELS, Baseline, Label
from mha_viz.core.metrics.labels import to_beat
from mha_viz.corpus.blocks import Block, columns_of, read_block
from mha_viz.corpus.storage import shards_with_texts

# Whoever always looks at the token before has these labels by definition: nothing to beat there.
_MEANT_BY_OFFSET = ("previous_token", "local")
_SHORT = 3.0  # tokens; where uniform attention looks no further, near and far mean nothing
_ROUNDING = 1e-6
_COLUMNS = "layer head label mean low high baseline threshold share_of_texts earned".split()


@dataclass(frozen=True)
class _Hurdle:
    """What every head of a layer must reach and beat; NaN where there is nothing to compare."""

    baseline: Float[np.ndarray, "*text layer"]
    threshold: Float[np.ndarray, "*text layer"]


def corpus_labels(
    folder: Path, n_layers: int, n_heads: int, tables: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """Every head against every label: a row each, `earned` or not.

    A label of "at least" is earned where the lower end of the head's interval reaches the threshold
    and lies above the upper ends of its baselines: uniform attention, a fixed offset of -1, and the
    best head with random weights, over the same texts. "Local" asks the reverse of the upper end.
    Relative labels take their threshold from that baseline, as `head_labels` does. Induction has a
    text of its own and is not measured on a corpus.

    Args:
        folder: of the study.
        n_layers: of the model.
        n_heads: of a layer.
        tables: "texts", and "untrained" and "chance" where the study has them: means and intervals.
    """
    heads = tables["texts"]
    counted = _shares_of_texts(folder, n_layers, n_heads)
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
        earned = _clears(label, worst, hurdle)
        for other in label.unless:
            earned &= ~held.get(other, np.zeros_like(earned))
        held[label.key] = earned
        layers, places = np.indices(mean.shape)
        values = (layers, places, label.key, mean, low, high)
        limits = (hurdle.baseline[:, None], hurdle.threshold[:, None], counted[label.key], earned)
        flat = [np.broadcast_to(one, mean.shape).ravel() for one in (*values, *limits)]
        rows.append(pd.DataFrame(dict(zip(_COLUMNS, flat, strict=True))))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=_COLUMNS)


def _clears(
    label: Label, score: Float[np.ndarray, "*text layer head"], hurdle: _Hurdle
) -> Bool[np.ndarray, "*text layer head"]:
    """Whether a score reaches the threshold and beats the baseline; NaN does neither."""
    threshold, baseline = hurdle.threshold[..., None], hurdle.baseline[..., None]
    if label.at_least:
        return (score >= threshold) & (score > baseline)
    return (score <= threshold) & (score < baseline)


def _hurdle(label: Label, tables: Mapping[str, pd.DataFrame], n_layers: int) -> _Hurdle:
    """What the baselines' intervals ask of a label, for each layer."""
    end, hardest = ("high", np.fmax) if label.at_least else ("low", np.fmin)
    uniform = _of_layers(tables.get("chance"), f"{label.metric}_uniform", "mean", n_layers)
    best = _best_random(tables.get("untrained"), label, end, uniform)
    if label.key == "broad":  # what nearly all heads are untrained: given where none of those is
        threshold = label.threshold * uniform
        return _Hurdle(best, np.where(best < threshold, threshold, np.nan))
    baseline = hardest(
        _of_layers(tables.get("chance"), f"{label.metric}_uniform", end, n_layers), best
    )
    if label.key not in _MEANT_BY_OFFSET:
        offset = _of_layers(tables.get("chance"), f"{label.metric}_offset", end, n_layers)
        baseline = hardest(baseline, offset)
    if not label.relative:
        return _Hurdle(baseline, np.full(n_layers, label.threshold))
    return _Hurdle(baseline, np.where(uniform < _SHORT, np.nan, label.threshold * baseline))


def _of_layers(
    table: pd.DataFrame | None, metric: str, column: str, n_layers: int
) -> Float[np.ndarray, "layer"]:
    found = None if table is None else table.loc[table.metric == metric, column]
    if found is None or len(found) != n_layers:
        return np.full(n_layers, np.nan)
    return found.to_numpy(float)


def _best_random(
    table: pd.DataFrame | None, label: Label, end: str, uniform: Float[np.ndarray, "layer"]
) -> Float[np.ndarray, "layer"]:
    """The interval's end of the random head that comes nearest to the label."""
    found = None if table is None else table.loc[table.metric == label.metric, end]
    if found is None or found.empty:
        return np.full(len(uniform), np.nan)
    return _best(label, found.to_numpy(float).reshape(1, len(uniform), -1), uniform[None])[0]


def _best(
    label: Label,
    random: Float[np.ndarray, "text layer head"],
    uniform: Float[np.ndarray, "text layer"],
) -> Float[np.ndarray, "text layer"]:
    """Of all layers that see alike, which is where uniform attention scores alike."""
    alike = np.abs(uniform[:, :, None] - uniform[:, None]) <= _ROUNDING
    alike |= np.isnan(uniform).all(1)[:, None, None]
    hardest, worst = (np.fmax, -np.inf) if label.at_least else (np.fmin, np.inf)
    of_layers = hardest.reduce(random, axis=-1)
    found = hardest.reduce(np.where(alike, of_layers[:, None], worst), axis=-1)
    return np.where(np.isinf(found), np.nan, found)


# -- single texts ----------------------------------------------------------------------------------


def _shares_of_texts(
    folder: Path, n_layers: int, n_heads: int
) -> dict[str, Float[np.ndarray, "layer head"]]:
    """On which share of the texts each head would have got each label from that text alone."""
    counts = {key: np.zeros((n_layers, n_heads)) for key in LABELS}
    n_texts = 0
    for number in shards_with_texts(folder):
        known = {
            name: read_block(folder, number, name, columns_of(folder, name), n_places)
            for name, n_places in (
                ("texts", n_layers * n_heads),
                ("untrained", n_layers * n_heads),
                ("chance", n_layers),
            )
            if columns_of(folder, name)
        }
        n_texts += len(known["texts"].text_ids)
        for key, given in _labels_of_texts(folder, number, known, n_layers).items():
            counts[key] += given.sum(0)
    return {key: count / max(n_texts, 1) for key, count in counts.items()}


def _labels_of_texts(
    folder: Path, number: int, known: Mapping[str, Block], n_layers: int
) -> dict[str, Bool[np.ndarray, "text layer head"]]:
    """Which labels each head gets on each text by itself, by the rule of `head_labels`."""
    lengths = read_block(folder, number, "texts", ("n_tokens",), known["texts"].values.shape[1])
    n_tokens = lengths.values[:, 0, 0].astype(float)
    found: dict[str, Bool[np.ndarray, "text layer head"]] = {}
    for label in LABELS.values():
        if label.metric not in known["texts"].columns:
            continue
        score = _scores(known["texts"], label.metric, n_layers)
        hurdle = _hurdles_of_texts(label, known, n_tokens, n_layers)
        given = _clears(label, score, hurdle)
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
) -> _Hurdle:
    """What each text by itself asks of a label, in each layer."""
    none = np.full((len(n_tokens), n_layers), np.nan)
    uniform = _baseline(known, label.metric, "uniform", none)
    best = none
    if "untrained" in known and label.metric in known["untrained"].columns:
        best = _best(label, _scores(known["untrained"], label.metric, n_layers), uniform)
    rows = _baseline(known, label.metric, "rows", _n_rows(label, n_tokens, none))
    baseline, threshold = none.copy(), none.copy()
    asked: dict[tuple[float, ...], tuple[float, float]] = {}  # layers mostly ask the same
    for at in np.ndindex(none.shape):
        key = (float(uniform[at]), float(best[at]), float(rows[at]))
        if key not in asked:
            asked[key] = _to_beat(label, *key)
        baseline[at], threshold[at] = asked[key]
    return _Hurdle(baseline, threshold)


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
