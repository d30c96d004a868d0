"""The texts on which a head does most of what a metric measures."""

from __future__ import annotations

import pandas as pd

from mha_viz.core.metrics import LABELS
from mha_viz.corpus.blocks import INDEX
from mha_viz.corpus.database import Database
from mha_viz.errors import ArgumentError


def strongest(database: Database, layer: int, head: int, by: str, k: int) -> pd.DataFrame:
    """See `Study.examples`; layer and head exist."""
    label = LABELS.get(by)
    metric = label.metric if label is not None else by
    # a name becomes part of the query only once it is known to be a column
    columns = database.ask("SELECT column_name FROM (DESCRIBE texts)")["column_name"]
    known = [name for name in columns if name not in INDEX]
    if metric not in known:
        raise ArgumentError(
            f"There is no metric {by!r} in this study; there are: {', '.join(known)}."
        )
    if k < 1:
        raise ArgumentError(f"k must be at least 1, got {k}.")
    order = "ASC" if label is not None and not label.at_least else "DESC"
    return database.ask(
        f"""SELECT text_id, value, n_tokens, place, text FROM (
            SELECT text_id, "{metric}" AS value, n_tokens, place, text, row_number() OVER (
                PARTITION BY lower(regexp_replace(trim(text), '\\s+', ' ', 'g'))
                ORDER BY "{metric}" {order}, text_id
            ) AS copy
            FROM texts JOIN sentences USING (text_id)
            WHERE layer = ? AND head = ? AND NOT isnan("{metric}")
        ) WHERE copy = 1 ORDER BY value {order}, text_id LIMIT ?""",
        (layer, head, k),
    )
