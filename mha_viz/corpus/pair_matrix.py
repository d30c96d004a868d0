"""Any two heads beside each other, out of a study's sums over texts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float

from mha_viz.core.names import LIKENESS, PAIR_MEASURES
from mha_viz.corpus.database import Database
from mha_viz.errors import ArgumentError


def pair_matrix(
    database: Database, n_all: int, measure: str, statistic: str
) -> Float[np.ndarray, "h h"]:
    """See `Study.pairs`; `n_all` is the number of heads of all layers."""
    known = [] if "pairs" not in database.tables else _measures(database)
    if measure not in known:
        raise ArgumentError(
            f"measure must be one of {', '.join(known)}, got {measure!r}."
            if known
            else "This study has no pairs of heads: it was made without them."
        )
    if statistic not in ("mean", "std"):
        raise ArgumentError(f'statistic must be "mean" or "std", got {statistic!r}.')
    rows = database.ask("SELECT * FROM pairs WHERE measure = ?", (measure,))
    with database.reading():
        return _matrix(rows, n_all, measure, statistic)


def _matrix(
    rows: pd.DataFrame, n_all: int, measure: str, statistic: str
) -> Float[np.ndarray, "h h"]:
    n = rows["n"].where(rows["n"] > 0).astype(float)
    mean = rows["sum"] / n
    if statistic == "std":
        variance = (rows["sum_sq"] - n * mean**2) / (n - 1).where(n > 1)
        values, itself = np.sqrt(variance.clip(lower=0)), 0.0
    else:
        values, itself = mean, float(measure in LIKENESS)
    matrix = np.full((n_all, n_all), np.nan)
    matrix[rows["i"], rows["j"]] = matrix[rows["j"], rows["i"]] = values
    np.fill_diagonal(matrix, itself)
    return matrix


def _measures(database: Database) -> list[str]:
    """Those of ours that the table has; what else a file may hold is no measure."""
    ours = ", ".join(f"'{measure}'" for measure in PAIR_MEASURES)
    found = database.ask(f"SELECT DISTINCT measure FROM pairs WHERE measure IN ({ours}) ORDER BY 1")
    return list(found["measure"])
