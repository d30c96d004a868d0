"""The heads of two models, matched by what they do on the same texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.arguments import renamed
from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.compare.alignment import align, equal_places
from mha_viz.core.compare.chance import (
    LEAST,
    ROUNDS,
    Band,
    among_seen,
    band_of,
    in_new_order,
    p_values,
)
from mha_viz.core.measure import as_distances
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.chance import discoveries
from mha_viz.core.names import MATCH_MEASURES, PAIR_MEASURES
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.visible import distinct_masks
from mha_viz.errors import ArgumentError

MOST_WEIGHTS = 2**26  # of all heads of both models on one text: more queries are thinned out
_TIE = 1e-9  # a distance below rounding, by which heads with the same number win a tie


class MatchChance(NamedTuple):
    """The match of heads that have nothing to do with each other, in the unit of the distances."""

    mean: float  # of the distances of matched heads, over heads and rounds
    band: Band  # where 95 % of these distances lie
    means: Float[np.ndarray, " round"]  # the mean of each round
    p: Float[np.ndarray, " match"]  # how often chance brings as near a counterpart


@renamed(found="beyond_chance")
@dataclass(frozen=True, eq=False)
class HeadMatches:
    """Pairs of heads of two models, each head in at most one of them."""

    a: Int[np.ndarray, " match"]  # heads of the first model (layer * heads + head), ascending
    b: Int[np.ndarray, " match"]  # their counterparts in the second one
    apart: Float[np.ndarray, "head_a head_b"]  # distances of all heads; NaN: not defined
    n_heads: tuple[int, int]  # the heads of a layer, in each model
    n_rows: int  # the tokens of all texts that were compared
    chance: MatchChance | None  # None where there are too few tokens to permute
    # the own numbers of the layers of either model; none: 0, 1, 2 ...
    layer_numbers: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def distance(self) -> Float[np.ndarray, " match"]:
        """The distance of each head from its counterpart."""
        return self.apart[self.a, self.b]

    @property
    def beyond_chance(self) -> NDArray[np.bool_]:
        """The matches that are nearer than chance, at a false-discovery rate of 5 %."""
        if self.chance is None:
            return np.zeros(len(self.a), bool)
        return discoveries(self.chance.p)

    def table(self) -> pd.DataFrame:
        """Return a row for each match: layer, head, layer_b, head_b, distance, p, beyond_chance."""
        (layer, head), (layer_b, head_b) = (
            np.divmod(side, n) for side, n in zip((self.a, self.b), self.n_heads, strict=True)
        )
        layer, layer_b = (
            np.array(numbers, int)[side] if numbers else side
            for numbers, side in zip(self.layer_numbers, (layer, layer_b), strict=True)
        )
        p = np.full(len(self.a), np.nan) if self.chance is None else self.chance.p
        columns = dict(layer=layer, head=head, layer_b=layer_b, head_b=head_b)
        return pd.DataFrame(
            columns | dict(distance=self.distance, p=p, beyond_chance=self.beyond_chance)
        )


def match_heads(
    records_a: Sequence[AttentionRecord],
    records_b: Sequence[AttentionRecord],
    measure: str = "hellinger",
    *,
    seed: int = 0,
) -> HeadMatches:
    """Match the heads of two models one to one, such that matched heads are near each other.

    Of all one-to-one matches the one with the least sum of distances: no head number and no layer
    counts. Where one model has more heads, some of them have no counterpart.

    Both models read the same texts. Where their tokens differ, words are compared: those that both
    have, whatever the case. What a row gives to any other token counts as weight on one more key.
    Hellinger distances are those of all rows of all texts, d = sqrt(1 - mean_q sum_k sqrt(A B));
    CKA is computed once, of the rows of all texts one below the other, and the distance is 1 - CKA.

    Chance is what the match gives where the second model's heads pick their tokens at random, as in
    `permuted_pairs`: 20 such models are matched in the same way. A head's match is compared with
    its matches by chance, since sharp heads are far from all others and broad ones near.

    Args:
        records_a: of one model, a record a text; with z for "cka".
        records_b: of the other model, of the same texts in the same order. Numbers of layers, of
            heads and widths may differ.
        measure: "hellinger" (what heads look at, 0 to 1) or "cka" (what they write, 0 to 1).
        seed: of the permutations.

    Returns:
        HeadMatches: pairs of heads, their distances in [0, 1], and chance.

    Raises:
        ArgumentError: no records, not as many on both sides, an unknown measure, cross attention,
            or texts in which the two models have no token in common.
        NotKeptError: "cka" of records without z.

    Source: Kuhn 1955 (the assignment, by scipy's `linear_sum_assignment`); for neurons of two
    networks, Li et al. 2016.

    >>> import mha_viz as mv
    >>> bert = mv.load("tiny-bert").trace("The old dog slept while the young cat watched it.")
    >>> matches = match_heads([bert], [bert])
    >>> (matches.a == matches.b).all(), matches.distance.max()
    (np.True_, np.float64(0.0))
    >>> matches.table().columns.tolist()[:5]
    ['layer', 'head', 'layer_b', 'head_b', 'distance']
    """
    if measure not in MATCH_MEASURES:
        raise ArgumentError(f"measure must be one of {', '.join(MATCH_MEASURES)}, got {measure!r}.")
    if not records_a or len(records_a) != len(records_b):
        raise ArgumentError(
            f"Both models need as many records, one or more: got {len(records_a)} and "
            f"{len(records_b)}."
        )
    if any(record.is_cross for record in (*records_a, *records_b)):
        raise ArgumentError("Cross attention has two texts of its own: its heads are not matched.")
    texts = [_common(*pair) for pair in zip(records_a, records_b, strict=True)]
    if not any(text.positions for text in texts):
        raise ArgumentError("The two models have no token of these texts in common.")
    of_outputs = PAIR_MEASURES[measure] == "z"
    first, second = (
        _outputs(texts, side)
        if of_outputs
        else [_weights(text, side) for text in texts if text.positions]
        for side in (0, 1)
    )
    dice, n_rows = np.random.default_rng(seed), sum(head_rows.rows.shape[1] for head_rows in first)
    rounds = ROUNDS if n_rows >= LEAST else 0
    apart, by_chance = _distances(first, second, measure), []
    for _ in range(rounds):
        check_cancelled()
        permuted = [side.permuted(dice) for side in second]
        by_chance.append(_distances(first, permuted, measure))
    n_heads = records_a[0].n_heads, records_b[0].n_heads
    matches = _matches(apart, by_chance, n_heads, n_rows)
    numbers = records_a[0].layer_numbers, records_b[0].layer_numbers
    return replace(matches, layer_numbers=numbers)


class _Heads(NamedTuple):
    """One model's heads on one text, or on all: rows (head, row, number), and the keys rows see.

    Without `masks` the rows themselves change places by chance, not the numbers in them.
    """

    rows: NDArray[np.float32]
    masks: list[tuple[list[int], Tensor]]
    n_heads: int

    def permuted(self, dice: np.random.Generator) -> _Heads:
        if not self.masks:
            return self._replace(rows=in_new_order(self.rows, dice))
        moved = among_seen(self.rows, self.masks, slice(None), self.n_heads, dice)
        return self._replace(rows=moved)


class _Text(NamedTuple):
    """One text in both models: its records, and the positions of the tokens that both have."""

    records: tuple[AttentionRecord, AttentionRecord]
    positions: list[tuple[int, int]]


def _common(a: AttentionRecord, b: AttentionRecord) -> _Text:
    """Align the tokens of both models, or the words where the tokens differ."""
    apart = a.labels != b.labels
    if apart:
        a, b = (record if record.merged else record.merge_words() for record in (a, b))
    pairs = align(a.labels, b.labels, ignore_case=apart)
    return _Text((a, b), equal_places(a.labels, b.labels, pairs, ignore_case=apart))


def _weights(text: _Text, side: int) -> _Heads:
    """Return weights between common tokens; of a long text from some queries alone."""
    record, keys = text.records[side], torch.tensor([pair[side] for pair in text.positions])
    n_heads = sum(text_record.n_layers * text_record.n_heads for text_record in text.records)
    queries = keys[:: -(-n_heads * len(keys) ** 2 // MOST_WEIGHTS)]
    layers = [
        record.patterns.full_rows(layer, queries)[..., keys].float().cpu()
        for layer in range(record.n_layers)
    ]
    masks = [(of, mask[queries][:, keys]) for of, mask in distinct_masks(record)]
    return _Heads(torch.cat(layers).numpy(), masks, record.n_heads)


def _outputs(texts: Sequence[_Text], side: int) -> list[_Heads]:
    """Return z of the common tokens of all texts, one below the other."""
    outputs = [
        text.records[side].require("z").flatten(0, 1)[:, [pair[side] for pair in text.positions]]
        for text in texts
    ]
    rows = torch.cat([text_output.float().cpu() for text_output in outputs], 1).numpy()
    return [_Heads(rows, [], texts[0].records[side].n_heads)]


def _distances(a: list[_Heads], b: list[_Heads], measure: str) -> NDArray[np.float64]:
    """Compare all heads of one model with all of the other, (head_a, head_b)."""
    n_a, total, n_rows = len(a[0].rows), 0.0, 0
    for first, second in zip(a, b, strict=True):
        wide = max(first.rows.shape[2], second.rows.shape[2])  # zeros change no product of rows
        padded = [
            F.pad(torch.from_numpy(x.rows), (0, wide - x.rows.shape[2])) for x in (first, second)
        ]
        matrix = as_distances(METRICS[measure].function(torch.cat(padded)[None]), measure)
        matrix = matrix.clamp(max=1.0)  # a CKA below 0 is no match, as one of 0
        rows = first.rows.shape[1]
        n_rows += rows
        total = total + rows * matrix[:n_a, n_a:].double().numpy() ** 2
    return np.sqrt(total / n_rows)


def _matches(
    apart: NDArray[np.float64],
    by_chance: list[NDArray[np.float64]],
    n_heads: tuple[int, int],
    n_rows: int,
) -> HeadMatches:
    """Match heads by their distances, and find which matches chance gives as well."""
    turned = len(apart) > apart.shape[1]  # each head of the smaller model has a counterpart
    partners, matched = zip(
        *(assigned(d.T if turned else d) for d in (apart, *by_chance)), strict=True
    )
    defined = np.flatnonzero(np.isfinite(matched[0]))
    a, b = (partners[0][defined], defined) if turned else (defined, partners[0][defined])
    order = np.argsort(a)
    values, chance = np.stack(matched), None
    finite_values = values[1:][np.isfinite(values[1:])]
    if len(finite_values):
        p = p_values(values - values.mean(0))[defined][order]
        means = np.nanmean(values[1:], axis=1)
        chance = MatchChance(float(finite_values.mean()), band_of(finite_values), means, p)
    return HeadMatches(a[order], b[order], apart, n_heads, n_rows, chance)


def assigned(apart: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the best column of each row, of at least as many, and its distance (NaN: none)."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = apart.shape
    cost = np.where(np.isfinite(apart), apart, 2.0 * columns)  # rather than that, any other match
    cost = cost + _TIE * (np.arange(rows)[:, None] != np.arange(columns))
    _, chosen = linear_sum_assignment(cost)
    return chosen, apart[np.arange(rows), chosen]
