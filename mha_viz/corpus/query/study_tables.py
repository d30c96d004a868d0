"""Tables of a finished study: examples of a head, similarities of pairs, profiles by an axis."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.metrics.units import MIN_UNITS, t_quantile
from mha_viz.core.names import LIKENESS, PAIR_MEASURES
from mha_viz.corpus.measure.padded import KINDS
from mha_viz.corpus.store.blocks import INDEX
from mha_viz.corpus.store.database import Database
from mha_viz.errors import ArgumentError

CLASSES = (0.2, 0.4, 0.6, 0.8)  # quantiles of token counts between classes of texts of like length


def strongest(
    database: Database, layer: int, head: int, by: str, k: int, match_length: bool
) -> pd.DataFrame:
    """Find the examples of `Study.examples`; layer and head exist."""
    label = LABELS.get(by)
    metric = label.metric if label is not None else by
    # a name becomes part of the query only once it is known to be a column
    columns = database.query("SELECT column_name FROM (DESCRIBE texts)")["column_name"]
    known = [name for name in columns if name not in INDEX]
    if metric not in known:
        raise ArgumentError(
            f"There is no metric {by!r} in this study; there are: {', '.join(known)}."
        )
    if k < 1:
        raise ArgumentError(f"k must be at least 1, got {k}.")
    order = "ASC" if label is not None and not label.at_least else "DESC"
    shares = list(CLASSES) if match_length else [1.0]  # nothing is longer than the longest
    return database.query(
        f"""WITH copies AS (
            SELECT text_id, "{metric}" AS value, n_tokens, place, text, row_number() OVER (
                PARTITION BY lower(regexp_replace(trim(text), '\\s+', ' ', 'g'))
                ORDER BY "{metric}" {order}, text_id
            ) AS copy
            FROM texts JOIN sentences USING (text_id)
            WHERE layer = ? AND head = ? AND NOT isnan("{metric}")
        ), once AS (SELECT * FROM copies WHERE copy = 1),
        ends AS (SELECT quantile_cont(n_tokens, {shares}) AS ends FROM once),
        ranked AS (
            SELECT *, len(list_filter(ends, lambda x: x < n_tokens)) AS class,
            avg(value) OVER alike AS class_mean,
            min(n_tokens) OVER alike AS class_from, max(n_tokens) OVER alike AS class_to,
            row_number() OVER (PARTITION BY class ORDER BY value {order}, text_id) AS rank
            FROM once, ends WINDOW alike AS (PARTITION BY class)
        )
        SELECT text_id, value, n_tokens, place, text, class_mean, class_from, class_to FROM ranked
        ORDER BY rank, value - class_mean {order}, text_id LIMIT ?""",
        (layer, head, k),
    )


def pair_matrix(
    database: Database, n_all: int, measure: str, statistic: str
) -> Float[np.ndarray, "h h"]:
    """Lay out a study's sums over pairs, as `Study.pairs` returns them."""
    if statistic not in ("mean", "std"):
        raise ArgumentError(f'statistic must be "mean" or "std", got {statistic!r}.')
    rows = _of_pairs(database, measure)
    with database.reading():
        itself = float(statistic == "mean" and measure in LIKENESS)
        matrix = np.full((n_all, n_all), np.nan)
        matrix[rows["i"], rows["j"]] = matrix[rows["j"], rows["i"]] = rows[statistic]
        np.fill_diagonal(matrix, itself)
        return matrix


def nearest_pairs(
    database: Database, n_heads: int, measure: str, counts: Mapping[str, int], k: int
) -> pd.DataFrame:
    """List the pairs of `Study.nearest_pairs`."""
    if k < 1:
        raise ArgumentError(f"k must be at least 1, got {k}.")
    rows = _of_pairs(database, measure).dropna(subset="mean")
    with database.reading():
        near = rows["mean"].abs() if measure == "correlation" else rows["mean"]
        order = np.argsort(-near if measure in LIKENESS else near, kind="stable")[:k]
        rows = rows.iloc[order].reset_index(drop=True)
        n_units = (rows["n"] * _units_by_text(database, counts)).to_numpy()
        reach = t_quantile(n_units) * rows["std"] / np.sqrt(n_units)
        reach = reach.where(n_units >= MIN_UNITS)
        ends = {"low": rows["mean"] - reach, "high": rows["mean"] + reach}
        (layer, head), (layer_b, head_b) = (np.divmod(rows[at], n_heads) for at in ("i", "j"))
        places = dict(layer=layer, head=head, layer_b=layer_b, head_b=head_b)
        limits = METRICS[measure].limits
        ends = {name: of.clip(*limits) for name, of in ends.items()}
        return pd.DataFrame(places | {"n_texts": rows["n"], "mean": rows["mean"]} | ends)


def _units_by_text(database: Database, counts: Mapping[str, int]) -> float:
    """Return how many units a text is worth where all texts of a unit say the same.

    Source: Kish 1965, the effective sample size: (sum of n_g)^2 / sum of n_g^2 for n_g texts each.
    """
    if counts.get("n_units", counts["n_texts"]) == counts["n_texts"]:
        return 1.0
    if "sentences" not in database.tables:
        return np.nan  # no rows were kept: the sizes of the units are not known
    found = database.query(
        "SELECT sum(n) / sum(n * n) AS share FROM "
        "(SELECT count(*) AS n FROM sentences GROUP BY unit)"
    )
    return float(found["share"][0])


def _of_pairs(database: Database, measure: str) -> pd.DataFrame:
    """Read one measure's pairs i < j: n, mean and std over texts, NaN where undefined."""
    known = pair_measures(database)
    if measure not in known:
        raise ArgumentError(
            f"measure must be one of {', '.join(known)}, got {measure!r}."
            if known
            else "This study has no pairs of heads: it was made without them."
        )
    rows = database.query("SELECT * FROM pairs WHERE measure = ?", (measure,))
    with database.reading():
        n = rows["n"].where(rows["n"] > 0).astype(float)
        mean = rows["sum"] / n
        variance = (rows["sum_sq"] - n * mean**2) / (n - 1).where(n > 1)
        return rows.assign(mean=mean, std=np.sqrt(variance.clip(lower=0)))


def pair_measures(database: Database) -> list[str]:
    """List our measures that the table has; what else a file may hold is no measure."""
    if "pairs" not in database.tables:
        return []
    ours = ", ".join(f"'{measure}'" for measure in PAIR_MEASURES)
    found = database.query(
        f"SELECT DISTINCT measure FROM pairs WHERE measure IN ({ours}) ORDER BY 1"
    )
    return list(found["measure"])


AXES = ("offset", "position", "kind")  # that the weight of a head is laid out by


def profile_rows(database: Database, axis: str) -> pd.DataFrame:
    """Lay out the profiles of `Study.profile_by`."""
    if axis not in AXES:
        raise ArgumentError(f"axis must be one of {', '.join(AXES)}, got {axis!r}.")
    found = database.query(
        f"""SELECT layer, head, "at" AS {axis}, weight / rows AS weight FROM profile
        WHERE axis = ? AND rows > 0""",
        (axis,),
    )
    place = KINDS.index if axis == "kind" else _place
    with database.reading():
        order = [found["layer"], found["head"], found[axis].map(place)]
        ranked = np.lexsort([np.asarray(one) for one in reversed(order)])
        return found.iloc[ranked].reset_index(drop=True)


def _place(at: str) -> float:
    """Return where a key of the profile stands in order: "<-32" before "-32", ">32" after "32"."""
    if at[0] in "<>≥":
        beyond = float(at.lstrip("<>=≥"))
        return beyond - 0.5 if at[0] == "<" else beyond + 0.5
    return float(at)
