"""Summaries of all shards: small tables of heads, and edges to search."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.units import interval
from mha_viz.corpus.measure.profiles import histogram_quantiles
from mha_viz.corpus.statistics.labels import corpus_labels
from mha_viz.corpus.statistics.totals import Totals
from mha_viz.corpus.store.blocks import whole_column
from mha_viz.corpus.store.edges_index import keep_heaviest, sort_edges
from mha_viz.corpus.store.storage import row_files, write_table

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
MOST_SORTED = 2**25  # scores of a metric, 134 MB: a million texts of 32 heads
# Rows by text -> the table of their means.
MEANS = {"texts": "heads", "untrained": "untrained_heads", "chance": "chance_layers"}
# Sums of rows by text, which stand beside these under a name of their own.
_SUMS = {"parses": "trees", "untrained_parses": "untrained_trees"}


def has_exact_quantiles(folder: Path, totals: Totals) -> bool:
    """Tell whether quantiles are computed of all scores: rows are kept, and not too many."""
    n_scores = totals.counts["n_texts"] * totals.n_layers * totals.n_heads
    return n_scores <= MOST_SORTED and bool(row_files(folder, "texts"))


def summarise(folder: Path, totals: Totals) -> dict[str, int]:
    """Write the summaries of a study whose shards are complete; return their sizes by file name.

    Each is a Parquet file in the study's folder; the same shards give the same bytes. Returns file
    name -> size in bytes.
    """
    tables = {name: _means(folder, name, totals) for name in totals.means}
    made = {MEANS[name]: table for name, table in tables.items()}
    shares = {key: counts / totals.counts["n_texts"] for key, counts in totals.labels.items()}
    made["labels"] = corpus_labels(totals.n_layers, totals.n_heads, tables, shares)
    for name, table in made.items():
        _write(folder, name, pa.Table.from_pandas(table, preserve_index=False))
    for name, sums in totals.tables.items():
        _write(folder, _SUMS.get(name, name), sums)
    sort_edges(folder)
    keep_heaviest(folder)
    return {path.name: path.stat().st_size for path in sorted(folder.glob("*.parquet"))}


def _write(folder: Path, name: str, table: pa.Table) -> None:
    """Write a table under a name of its own first, then in its place."""
    check_cancelled()
    draft = folder / f".{name}.part"
    write_table(draft, table)
    draft.replace(folder / f"{name}.parquet")


def _means(folder: Path, table: str, totals: Totals) -> pd.DataFrame:
    """Compute count, mean, spread and interval of each column over texts, by head (or layer)."""
    means = totals.means[table]
    n, std = means.moments.n, means.moments.std
    over_units = means.units.jackknife()
    low, high = interval(over_units)
    mean = np.where(n > 0, means.moments.mean, np.nan)
    numbers = {"n_texts": n.astype(int), "n_units": over_units.n_units, "mean": mean, "std": std}
    numbers |= {"standard_error": over_units.error, "low": low, "high": high}
    places = np.arange(means.n_places, dtype=np.int16)
    where = {"layer": places}
    if table != "chance":
        where = dict(zip(("layer", "head"), np.divmod(places, totals.n_heads), strict=True))
    parts = []
    for at, column in enumerate(means.columns):
        check_cancelled()
        own = {name: of.reshape(means.n_places, -1)[:, at] for name, of in numbers.items()}
        metric = METRICS.get(column.rpartition("_")[0] if table == "chance" else column)
        if metric is not None:  # an interval ends where the metric does
            own |= {end: np.clip(own[end], *metric.limits) for end in ("low", "high")}
        if table == "texts":
            own |= dict(zip(QUANTILES, _quantiles(folder, column, totals), strict=True))
        parts.append(pd.DataFrame({**where, "metric": column, **own}))
    found = pd.concat(parts, ignore_index=True)
    return found[found.groupby("metric")["n_texts"].transform("max") > 0]


def _quantiles(folder: Path, metric: str, totals: Totals) -> np.ndarray:
    """Compute quantiles of texts, (quantile, head); by histogram unless `has_exact_quantiles`."""
    shares, shape = tuple(QUANTILES.values()), (totals.n_layers, totals.n_heads)
    if not has_exact_quantiles(folder, totals):
        return histogram_quantiles(totals.tables["histogram"], metric, shape, shares)
    values = whole_column(folder, "texts", metric, shape[0] * shape[1])
    return pd.DataFrame(values).quantile(list(shares)).to_numpy(float)  # without NaN
