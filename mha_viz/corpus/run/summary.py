"""Summaries of all texts of a study: means with intervals, quantiles and labels of heads."""

import numpy as np
import pandas as pd
import pyarrow as pa

from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.units import interval
from mha_viz.corpus.measure.profiles import histogram_quantiles
from mha_viz.corpus.statistics.labels import corpus_labels
from mha_viz.corpus.statistics.totals import Totals
from mha_viz.corpus.store.study_file import StudyFile

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
MAX_SORTED_SCORES = 2**25  # scores of a metric, 134 MB: a million texts of 32 heads
# Rows by text -> the table of their means.
MEANS = {"texts": "heads", "untrained": "untrained_heads", "chance": "chance_layers"}


def has_exact_quantiles(file: StudyFile, totals: Totals) -> bool:
    """Tell whether quantiles are computed of all scores: rows are kept, and not too many."""
    n_scores = file.counts["n_texts"] * totals.n_layers * totals.n_heads
    return n_scores <= MAX_SORTED_SCORES and "texts" in file.tables


def summarise(file: StudyFile, totals: Totals) -> None:
    """Write the summaries of a study whose texts are all there."""
    tables = {name: _means(file, name, totals) for name in totals.means}
    summaries = {MEANS[name]: table for name, table in tables.items()}
    shares = {key: counts / file.counts["n_texts"] for key, counts in totals.labels.items()}
    summaries["labels"] = corpus_labels(totals.n_layers, totals.n_heads, tables, shares)
    with file.transaction():
        file.add_up()
        for name, table in summaries.items():
            file.replace(name, pa.Table.from_pandas(table, preserve_index=False))


def _means(file: StudyFile, table: str, totals: Totals) -> pd.DataFrame:
    """Compute count, mean, spread and interval of each column over texts, by head (or layer)."""
    means = totals.means[table]
    n, std = means.moments.n, means.moments.std
    over_units = means.units.jackknife()
    low, high = interval(over_units)
    mean = np.where(n > 0, means.moments.mean, np.nan)
    numbers = {"n_texts": n.astype(int), "n_units": over_units.n_units, "mean": mean, "std": std}
    numbers |= {"standard_error": over_units.error, "low": low, "high": high}
    rows = np.arange(means.rows_per_text, dtype=np.int16)
    where = {"layer": rows}
    if table != "chance":
        where = dict(zip(("layer", "head"), np.divmod(rows, totals.n_heads), strict=True))
    parts = []
    for at, column in enumerate(means.columns):
        check_cancelled()
        statistics = {
            name: of.reshape(means.rows_per_text, -1)[:, at] for name, of in numbers.items()
        }
        metric = METRICS.get(column.rpartition("_")[0] if table == "chance" else column)
        if metric is not None:  # an interval ends where the metric does
            statistics |= {end: np.clip(statistics[end], *metric.limits) for end in ("low", "high")}
        if table == "texts":
            statistics |= dict(zip(QUANTILES, _quantiles(file, column, totals), strict=True))
        parts.append(pd.DataFrame({**where, "metric": column, **statistics}))
    means_table = pd.concat(parts, ignore_index=True)
    return means_table[means_table.groupby("metric")["n_texts"].transform("max") > 0]


def _quantiles(file: StudyFile, metric: str, totals: Totals) -> np.ndarray:
    """Compute quantiles of texts, (quantile, head); by histogram unless `has_exact_quantiles`."""
    shares, shape = tuple(QUANTILES.values()), (totals.n_layers, totals.n_heads)
    if not has_exact_quantiles(file, totals):
        counts = file.cursor().sql("FROM histogram").to_arrow_table()
        return histogram_quantiles(counts, metric, shape, shares)
    values = file.cursor().execute(f'SELECT "{metric}" AS value FROM texts').fetchnumpy()["value"]
    scores = pd.DataFrame(np.asarray(values).reshape(-1, shape[0] * shape[1]))
    return scores.quantile(list(shares)).to_numpy(float)  # without NaN
