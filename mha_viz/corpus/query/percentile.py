"""Percentiles: where a head's scores on one text lie among its scores on all texts of a study."""

from collections.abc import Mapping
from typing import SupportsFloat

import numpy as np
import pandas as pd

from mha_viz.corpus.query.study import Study

_NEAR = 1e-4  # of a number: as far apart as rounding leaves two runs of one text


def scores_of_head(study: Study, layer: int, head: int) -> pd.DataFrame:
    """Read one head's scores: a row for each text, n_tokens and a column for each metric.

    NaN: not defined on that text.
    """
    rows = study.texts.filter(f"layer = {layer:d} AND head = {head:d}").df()
    return rows.drop(columns=["text_id", "layer", "head"])


def percentiles(rows: pd.DataFrame, scores: Mapping[str, SupportsFloat]) -> pd.DataFrame:
    """Compute which share of a study's texts scores less, and which more, than one text.

    Texts that score as much, but for rounding, are neither: a head that never does a thing is not
    unusual where it does not.

    Args:
        rows: of `scores_of_head`.
        scores: metric -> what the same head scores on the text, and n_tokens, how long that is;
            metrics of which the study knows nothing are left out.

    Returns:
        DataFrame by metric: n_texts (on which the metric is defined), median, lower and higher (the
        shares of them that score less and more); NaN where it is not defined there, or here.

    >>> rows = pd.DataFrame({"entropy": [1.0, 2.0, 3.0, np.nan]})
    >>> percentiles(rows, {"entropy": 2.5}).round(2).to_dict("records")
    [{'n_texts': 3, 'median': 2.0, 'lower': 0.67, 'higher': 0.33}]
    """
    found = {}
    for metric in [name for name in scores if name in rows]:
        known = rows[metric].dropna().to_numpy(float)
        here = float(scores[metric])
        apart = np.where(np.isclose(known, here, rtol=_NEAR, atol=1e-6), 0.0, known - here)
        shares = (np.nan, np.nan)
        if len(known) and np.isfinite(here):
            shares = float((apart < 0).mean()), float((apart > 0).mean())
        median = float(np.median(known)) if len(known) else np.nan
        found[metric] = (len(known), median, *shares)
    return pd.DataFrame.from_dict(
        found, orient="index", columns=["n_texts", "median", "lower", "higher"]
    )
