"""Labels over a corpus, by a head's interval, its threshold and its baselines; and on texts."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Num

from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.metrics import LABELS, Baseline, Label
from mha_viz.core.metrics.labels import baseline_and_threshold
from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.corpus.store.blocks import Block

# Whoever always looks at the token before has these labels by definition: nothing to beat there.
_MEANT_BY_OFFSET = ("previous_token", "local")
_SHORT = 3.0  # tokens; where uniform attention looks no further, near and far mean nothing
_ROUNDING = 1e-6
Layers = Float[np.ndarray, "*text layer"]
Heads = Float[np.ndarray, "*text layer head"]
Flags = Bool[np.ndarray, "*text layer head"]
_COLUMNS = "layer head label mean low high baseline threshold share_of_texts earned".split()


@dataclass(frozen=True)
class Hurdle:
    """The baseline and threshold that every head of a layer must clear; NaN where there is none."""

    baseline: Layers
    threshold: Layers


def corpus_labels(
    n_layers: int, n_heads: int, tables: Mapping[str, pd.DataFrame], shares: Mapping[str, Heads]
) -> pd.DataFrame:
    """Compare every head with every label: a row each, `earned` or not.

    A label of "at least" is earned where the lower end of the head's interval reaches the threshold
    and lies above the upper ends of its baselines: uniform attention, a fixed offset of -1, and the
    best head with random weights, over the same texts. "Local" asks the reverse of the upper end.
    Relative labels take their threshold from that baseline, as `head_labels` does. Induction has a
    text of its own and is not measured on a corpus. Of fewer than `MIN_UNITS` units nothing is
    earned: their intervals cover the mean too seldom.

    `tables` has the means and intervals of "texts", and of "untrained" and "chance" where the study
    has them; `shares` on which share of single texts each head would have got a label.
    """
    heads = tables["texts"]
    rows: list[pd.DataFrame] = []
    earned_by: dict[str, Flags] = {}
    for label in LABELS.values():
        of_metric = heads[heads.metric == label.metric]
        if of_metric.empty:
            continue
        columns = of_metric[["mean", "low", "high"]].to_numpy()
        mean, low, high = columns.T.reshape(3, n_layers, n_heads)
        hurdle = _hurdle(label, tables, n_layers)
        worst = low if label.at_least else high
        earned = _clears(label, worst, hurdle, earned_by)
        earned &= of_metric["n_units"].to_numpy().reshape(mean.shape) >= MIN_UNITS
        earned_by[label.key] = earned
        layers, head_numbers = np.indices(mean.shape)
        values = (layers, head_numbers, label.key, mean, low, high)
        limits = (hurdle.baseline[:, None], hurdle.threshold[:, None], shares[label.key], earned)
        flat = [np.broadcast_to(column, mean.shape).ravel() for column in (*values, *limits)]
        rows.append(pd.DataFrame(dict(zip(_COLUMNS, flat, strict=True))))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=_COLUMNS)


def _clears(label: Label, score: Heads, hurdle: Hurdle, earned_by: Mapping[str, Flags]) -> Flags:
    """Tell whether a score clears the hurdle, and no earned label rules this one out."""
    sign = 1 if label.at_least else -1
    is_clear = sign * score >= sign * hurdle.threshold[..., None]
    is_clear &= sign * score > sign * hurdle.baseline[..., None]
    for other in label.unless:
        is_clear &= ~earned_by.get(other, np.zeros_like(is_clear))
    return is_clear


def _hurdle(label: Label, tables: Mapping[str, pd.DataFrame], n_layers: int) -> Hurdle:
    """Compute a label's hurdle from the baselines' intervals, for each layer."""

    def chance(way: str, column: str) -> Layers:
        ends = _ends(tables, "chance", f"{label.metric}_{way}", column)
        return ends if len(ends) == n_layers else np.full(n_layers, np.nan)

    end, hardest = ("high", np.fmax) if label.at_least else ("low", np.fmin)
    uniform = chance("uniform", "mean")
    random = _ends(tables, "untrained", label.metric, end)
    best = np.full(n_layers, np.nan)
    if len(random):
        best = nearest_random(label, random.reshape(1, n_layers, -1), uniform[None])[0]
    if label.key == "broad":  # what nearly all heads are untrained: given where none of those is
        threshold = label.threshold * uniform
        return Hurdle(best, np.where(best < threshold, threshold, np.nan))
    baseline = hardest(chance("uniform", end), best)
    if label.key not in _MEANT_BY_OFFSET:
        baseline = hardest(baseline, chance("offset", end))
    if not label.relative:
        return Hurdle(baseline, np.full(n_layers, label.threshold))
    return Hurdle(baseline, np.where(uniform < _SHORT, np.nan, label.threshold * baseline))


def _ends(
    tables: Mapping[str, pd.DataFrame], table: str, metric: str, column: str
) -> Float[np.ndarray, "row"]:
    """Read ends of intervals; a baseline of a single text has none, and its mean counts."""
    if table not in tables:
        return np.empty(0)
    rows = tables[table][tables[table].metric == metric]
    return rows[column].fillna(rows["mean"]).to_numpy(float)


def nearest_random(label: Label, random: Heads, uniform: Layers) -> Layers:
    """Find the random head that comes nearest to a label, of all layers that see alike.

    Uniform attention scores alike where layers see alike.
    """
    same_mask = np.abs(uniform[:, :, None] - uniform[:, None]) <= _ROUNDING
    same_mask |= np.isnan(uniform).all(1)[:, None, None]
    hardest, worst = (np.fmax, -np.inf) if label.at_least else (np.fmin, np.inf)
    of_layers = hardest.reduce(random, axis=-1)
    nearest = hardest.reduce(np.where(same_mask, of_layers[:, None], worst), axis=-1)
    return np.where(np.isinf(nearest), np.nan, nearest)


def labels_of_texts(
    blocks: Mapping[str, Block], n_tokens: Num[np.ndarray, "text"], n_layers: int
) -> dict[str, Flags]:
    """Find the labels that each head reaches on each text by itself, by the rule of `head_labels`.

    Rotated keys, which take all heads and weights of a text, are left out. `blocks` has
    "texts", and "untrained" and "chance" where the study has them.
    """
    earned: dict[str, Flags] = {}
    for label in LABELS.values():
        check_cancelled()
        score = _column(blocks, "texts", label.metric, n_layers)
        if score is None:
            continue
        hurdle = _hurdles_of_texts(label, blocks, n_tokens, n_layers)
        earned[label.key] = _clears(label, score, hurdle, earned)
    return earned


def _column(blocks: Mapping[str, Block], table: str, column: str, n_layers: int) -> Heads | None:
    values = blocks[table].column(column) if table in blocks else None
    return None if values is None else values.reshape(len(values), n_layers, -1)


def _hurdles_of_texts(
    label: Label, blocks: Mapping[str, Block], n_tokens: Num[np.ndarray, "text"], n_layers: int
) -> Hurdle:
    """Compute a label's hurdle on each text, for each layer."""
    none = np.full((len(n_tokens), n_layers), np.nan)
    uniform = _column(blocks, "chance", f"{label.metric}_uniform", n_layers)
    uniform = none if uniform is None else uniform[..., 0]
    random = _column(blocks, "untrained", label.metric, n_layers)
    best = none if random is None else nearest_random(label, random, uniform)
    counted = _column(blocks, "chance", f"{label.metric}_rows", n_layers)
    if counted is not None:
        rows = counted[..., 0]
    elif label.metric == "duplicate_token":  # of these a study has the count, if of anything
        rows = none
    else:
        fewer = label.metric in ("previous_token", "next_token")  # a row has no such neighbour
        rows = np.broadcast_to((n_tokens - fewer)[:, None], none.shape)
    baseline, threshold = none.copy(), none.copy()
    hurdles: dict[tuple[float, ...], tuple[float, float]] = {}  # those of layers are mostly equal
    for at in np.ndindex(none.shape):
        key = (float(uniform[at]), float(best[at]), float(rows[at]))
        if key not in hurdles:
            value = [None if np.isnan(number) else number for number in key]
            scores = Baseline(
                uniform=value[0], random_high=value[1], random_low=value[1], n_rows=value[2]
            )
            limits = baseline_and_threshold(label, scores)  # None where that text is too short
            hurdles[key] = (np.nan, np.nan) if limits is None else limits[1:]
        baseline[at], threshold[at] = hurdles[key]
    return Hurdle(baseline, threshold)
