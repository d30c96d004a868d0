"""Who looks at what: the edges of a study, found by their words, their head and their weight."""

from __future__ import annotations

import pandas as pd

from mha_viz.core.checks import Number
from mha_viz.corpus.database import Database
from mha_viz.corpus.edges_index import BY_KEY, BY_QUERY
from mha_viz.corpus.relations import TO_DEPENDENT, TO_HEAD
from mha_viz.errors import ArgumentError, StudyError

_COLUMNS = "text_id, layer, head, query, key, query_token, key_token, weight, strongest"
DIRECTIONS = (TO_HEAD, TO_DEPENDENT)
_TOKEN_ARCS = f"""
    SELECT text_id, dependent_token AS query, head_token AS key, relation,
        '{TO_HEAD}' AS direction FROM arcs
    UNION ALL SELECT text_id, head_token, dependent_token, relation, '{TO_DEPENDENT}' FROM arcs"""
_ESCAPED = str.maketrans({sign: f"\\{sign}" for sign in "\\%_"})


def edges(
    database: Database,
    *,
    query: str | None,
    key: str | None,
    layer: int | None,
    head: int | None,
    relation: str | None,
    direction: str | None,
    min_weight: Number,
    limit: int,
) -> pd.DataFrame:
    """See `Study.search`; layer and head exist."""
    if BY_QUERY not in database.tables:
        raise StudyError("This study has no edges to search: it was made without them.")
    if not 0 <= min_weight <= 1:
        raise ArgumentError(f"min_weight must be a share from 0 to 1, got {min_weight}.")
    if limit < 1:
        raise ArgumentError(f"limit must be at least 1, got {limit}.")
    if direction is not None and (relation is None or direction not in DIRECTIONS):
        raise ArgumentError(
            f"direction must be {' or '.join(DIRECTIONS)}, beside a relation, got {direction!r}."
        )
    conditions, values = ["weight >= ?"], list[object]((min_weight,))
    for column, wanted in (("layer", layer), ("head", head), ("direction", direction)):
        if wanted is not None:
            conditions.append(f"{column} = ?")
            values.append(wanted)
    for column, word in (("query_word", query), ("key_word", key)):
        if word is not None:
            condition, value = _like(column, word)
            conditions.append(condition)
            values.append(value)
    if relation is not None:  # "nsubj" stands for "nsubj:pass" as well
        conditions.append("(relation = ? OR starts_with(relation, ? || ':'))")
        values += [relation, relation]
    # Each table is in order of one word, so that most of it need not be read.
    table = BY_KEY if query is None and key is not None else BY_QUERY
    columns = _COLUMNS
    if relation is not None:
        # Two words in one token may have one relation to the same word: that is one edge.
        columns = f"DISTINCT {_COLUMNS}, relation, direction"
        table = f"{table} JOIN ({_TOKEN_ARCS}) AS arcs USING (text_id, query, key)"
    return database.ask(
        f"""SELECT found.*, place, text FROM (
            SELECT {columns} FROM {table} WHERE {" AND ".join(conditions)}
            ORDER BY weight DESC, text_id, layer, head, query, key LIMIT ?
        ) AS found JOIN sentences USING (text_id)
        ORDER BY weight DESC, text_id, layer, head, query, key""",
        (*values, limit),
    )


def _like(column: str, word: str) -> tuple[str, str]:
    """A condition on a word and its value; * stands for any letters, all else for itself."""
    given = word.strip().lower()
    if not given:
        raise ArgumentError("What to search for must not be empty; leave it out to find any.")
    if "*" not in given:
        return f"{column} = ?", given
    return f"{column} LIKE ? ESCAPE '\\'", given.translate(_ESCAPED).replace("*", "%")
