"""Two heads, of one record or of two, and the tables of their metrics and of pairs of tokens."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mha_viz.core.attention.scoring import row_blocks
from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.compare.exchange import Exchange
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.chance import discoveries
from mha_viz.core.record.chosen import Chosen
from mha_viz.reports.description import uniform_of
from mha_viz.reports.report import Report

MOST_PAIRS = 8  # pairs of tokens
_BELOW = 1 - 1e-9  # of a difference: one that is equal but for rounding is no smaller
_COLUMNS = "query key query_token key_token a b difference".split()


@dataclass(frozen=True, eq=False)
class HeadPair:
    """Two heads with their records, the reports of these, and what the heads are called."""

    heads: tuple[Chosen, Chosen]
    reports: tuple[Report, Report]
    names: tuple[str, str]

    @property
    def in_one_record(self) -> bool:
        """True where both heads are of one record."""
        return self.heads[0][0] is self.heads[1][0]

    @property
    def is_one_head(self) -> bool:
        """True where both are the same head of one record."""
        return self.in_one_record and self.heads[0][1] == self.heads[1][1]

    @property
    def on_same_tokens(self) -> bool:
        """True where both records have the same axes."""
        first, second = ((of.labels, of.key_labels, of.merged, of.is_cross) for of, _ in self.heads)
        return first == second

    @property
    def compares_changes(self) -> bool:
        """True for one head on two records: what other heads changed is what it is held against."""
        shapes = {record.shape[:2] for record, _ in self.heads}
        layer_heads = {layer_head for _, layer_head in self.heads}
        return not self.in_one_record and len(shapes) == len(layer_heads) == 1

    def values(self, key: str) -> tuple[float, float]:
        """Return a metric of both heads."""
        a, b = (
            float(report.scores[key][layer_head])
            for report, (_, layer_head) in zip(self.reports, self.heads, strict=True)
        )
        return a, b

    def scores(self, key: str) -> list[NDArray[np.float64]]:
        """Return a metric of all heads of either record, in order of layer."""
        return [of.scores[key].double().flatten().cpu().numpy() for of in self.reports]


def metric_table(pair: HeadPair, tested: Exchange) -> pd.DataFrame:
    """Return a row for each metric of both heads; columns as `Difference.metrics` has them."""
    rows = {}
    for key in METRICS:
        if not all(key in report.scores for report in pair.reports):
            continue
        a, b = pair.values(key)
        both = np.concatenate(pair.scores(key))
        both = both[np.isfinite(both)]  # of one record all heads are there twice
        spread = float(both.std()) if len(both) else 0.0
        sides = zip(pair.reports, pair.heads, strict=True)
        uniform_a, uniform_b = (uniform_of(of, key, layer_head) for of, (_, layer_head) in sides)
        rows[key] = {
            "title": METRICS[key].title,
            "unit": METRICS[key].unit,
            "a": a,
            "b": b,
            "uniform_a": uniform_a,
            "uniform_b": uniform_b,
            "difference": b - a,
            "spreads": (b - a) / spread if spread else np.nan,
            "unusual": _share_nearer(pair, key, abs(b - a)),
            "noise": tested.noise.get(key, np.nan),
            "p": tested.p.get(key, np.nan) if np.isfinite(b - a) else np.nan,
        }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("metric")
    conclusive = tested.conclusive(int(table["p"].notna().sum()))
    table["beyond_noise"] = discoveries(table["p"].to_numpy(float)) & conclusive
    order = np.lexsort((-table["spreads"].abs().fillna(0.0), -table["unusual"].fillna(-1.0)))
    return table.iloc[order]


def token_pairs(pair: HeadPair, most: int = MOST_PAIRS) -> pd.DataFrame:
    """Return the pairs of tokens whose weights differ most, the largest difference first.

    Columns are those of `Difference.pairs`; there is no row for equal weights, and none where the
    heads are on different tokens.
    """
    record, pairs = pair.heads[0][0], []
    queries, n_keys = record.shape[2:]
    for rows in row_blocks(queries, 8 * n_keys) if pair.on_same_tokens else ():
        check_cancelled()
        a, b = (of.patterns.full_rows(at[0], rows, [at[1]])[0].double() for of, at in pair.heads)
        apart, cells = (b - a).abs().flatten().topk(min(most, a.numel()))
        for cell in cells[apart > 0].tolist():
            row, key = divmod(cell, n_keys)
            pairs.append((rows.start + row, key, float(a[row, key]), float(b[row, key])))
    pairs.sort(key=lambda pair_weights: -abs(pair_weights[3] - pair_weights[2]))
    table = [
        (query, key, record.labels[query], record.key_labels[key], a, b, b - a)
        for query, key, a, b in pairs[:most]
    ]
    return pd.DataFrame(table, columns=_COLUMNS)


def _share_nearer(pair: HeadPair, key: str, difference: float) -> float:
    """Return the share of pairs of heads that differ less; of heads that changed less."""
    first, second = pair.scores(key)
    reach = difference * _BELOW
    if not np.isfinite(reach):
        return np.nan
    if pair.compares_changes:
        changes = np.abs(second - first)
        return float((changes[np.isfinite(changes)] < reach).mean())
    first, second = (np.sort(values[np.isfinite(values)]) for values in (first, second))
    nearer = np.searchsorted(second, first + reach) - np.searchsorted(
        second, first - reach, "right"
    )
    itself = len(first) if pair.in_one_record else 0  # a head beside itself is no pair
    n_pairs = len(first) * len(second) - itself
    n_nearer = int(nearer.clip(0).sum()) - itself * (reach > 0)
    return n_nearer / n_pairs if n_pairs else np.nan
