"""Texts of a study by one head's score: the strongest, and some of every decile."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from mha_viz.corpus.store.database import Database
from mha_viz.errors import ArgumentError

CLASSES = (0.2, 0.4, 0.6, 0.8)  # quantiles of token counts between classes of texts of like length
N_BANDS = 10


class HeadScore(NamedTuple):
    """One head's score by a metric, and whether texts are compared with those of like length."""

    layer: int
    head: int
    metric: str  # a column of the table `texts`: it becomes part of a query
    match_length: bool = True


class DecilePlace(NamedTuple):
    """The place of one score among those of a study's texts."""

    band: int  # 1 to 10; 10 holds the highest scores
    quantile: float  # share of the texts that score less, plus half of those that score the same
    n_texts: int  # that it was compared with


def strongest(database: Database, score: HeadScore, k: int, *, ascending: bool) -> pd.DataFrame:
    """Return the texts of `Study.examples`."""
    order = "ASC" if ascending else "DESC"
    return database.query(
        f"""{_classed(score, order)}, ranked AS (
            SELECT *, avg(value) OVER alike AS class_mean,
            min(n_tokens) OVER alike AS class_from, max(n_tokens) OVER alike AS class_to,
            row_number() OVER (PARTITION BY class ORDER BY value {order}, text_id) AS rank
            FROM classed WINDOW alike AS (PARTITION BY class)
        )
        SELECT text_id, value, n_tokens, place, text, class_mean, class_from, class_to
        FROM ranked ORDER BY rank, value - class_mean {order}, text_id LIMIT ?""",
        (score.layer, score.head, k),
    )


def deciles(database: Database, score: HeadScore, k: int) -> pd.DataFrame:
    """Return the texts of `Study.deciles`."""
    return database.query(
        f"""{_classed(score, "ASC")}, ranked AS (
            SELECT *, 2 * (rank() OVER by_value - 1) + count(*) OVER same AS twice_below,
            count(*) OVER (PARTITION BY class) AS n_class
            FROM classed
            WINDOW by_value AS (PARTITION BY class ORDER BY value),
            same AS (PARTITION BY class, value)
        ), banded AS (
            SELECT *, {N_BANDS} * twice_below // (2 * n_class) + 1 AS band,
            twice_below / (2 * n_class) AS quantile FROM ranked
        ), numbered AS (
            SELECT *, count(*) OVER of_band AS n_texts,
            min(value) OVER of_band AS band_from, max(value) OVER of_band AS band_to,
            row_number() OVER (PARTITION BY band ORDER BY quantile, text_id) - 1 AS number
            FROM banded WINDOW of_band AS (PARTITION BY band)
        )
        SELECT band, band_from, band_to, n_texts, text_id, value, quantile, n_tokens, place, text
        FROM numbered
        WHERE n_texts <= ? OR
        list_contains(list_transform(range(?), lambda i: (2 * i + 1) * n_texts // (2 * ?)), number)
        ORDER BY band, number""",
        (score.layer, score.head, k, k, k),
    )


def decile_of(database: Database, score: HeadScore, value: float, n_tokens: int) -> DecilePlace:
    """Return the place of `Study.decile_of`."""
    counts = database.query(
        f"""{_classed(score, "ASC")}, nearest AS (
            SELECT class FROM classed ORDER BY abs(n_tokens - ?), n_tokens LIMIT 1
        )
        SELECT count(*) AS n,
        2 * count(*) FILTER (value < ?) + count(*) FILTER (value = ?) AS twice_below
        FROM classed JOIN nearest USING (class)""",
        (score.layer, score.head, n_tokens, value, value),
    )
    n, twice_below = int(counts["n"][0]), int(counts["twice_below"][0])
    if not n:
        raise ArgumentError(f"No text of this study defines {score.metric} for this head.")
    band = min(N_BANDS, N_BANDS * twice_below // (2 * n) + 1)
    return DecilePlace(band, twice_below / (2 * n), n)


def _classed(score: HeadScore, order: str) -> str:
    """Return common tables; `classed` has each text once, and the number of its length's class.

    Their values are layer and head. Texts that differ in capitals and spaces only are one. Scores
    are filtered by `isfinite`: DuckDB 2.0 takes `NOT isnan` for true wherever the statistics of a
    Parquet file name a lowest and a highest number.
    """
    shares = list(CLASSES) if score.match_length else [1.0]  # nothing is longer than the longest
    metric = score.metric
    return f"""WITH copies AS (
        SELECT text_id, "{metric}" AS value, n_tokens, place, text, row_number() OVER (
            PARTITION BY lower(regexp_replace(trim(text), '\\s+', ' ', 'g'))
            ORDER BY "{metric}" {order}, text_id
        ) AS copy
        FROM texts JOIN sentences USING (text_id)
        WHERE layer = ? AND head = ? AND isfinite("{metric}")
    ), once AS (SELECT * FROM copies WHERE copy = 1),
    ends AS (SELECT quantile_cont(n_tokens, {shares}) AS ends FROM once),
    classed AS (
        SELECT once.*, len(list_filter(ends, lambda x: x < n_tokens)) AS class FROM once, ends
    )"""
