"""Who looks at what: the edges of a study, found by their words, their tree and their weight."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from mha_viz.core.checks import Number
from mha_viz.corpus.database import Database
from mha_viz.corpus.edges_index import BY_KEY, BY_QUERY
from mha_viz.corpus.relations import TO_DEPENDENT, TO_HEAD
from mha_viz.corpus.speech import PARTS
from mha_viz.errors import ArgumentError, StudyError

_COLUMNS = "text_id, layer, head, query, key, query_token, key_token, weight, strongest"
DIRECTIONS = (TO_HEAD, TO_DEPENDENT)
# "nsubj" stands for "nsubj:pass" as well; two words in one token may have one relation to another.
_TOKEN_ARCS = f"""SELECT DISTINCT * FROM (
    SELECT text_id, dependent_token AS query, head_token AS key, relation,
        '{TO_HEAD}' AS direction FROM arcs
    UNION ALL SELECT text_id, head_token, dependent_token, relation, '{TO_DEPENDENT}' FROM arcs
) WHERE relation = ? OR starts_with(relation, ? || ':')"""
_OF_PART = "SELECT text_id, unnest(tokens) FROM words WHERE upos = ?"
_BETWEEN = "tokens[key + 2 : query]"  # of a text, between the two; SQL counts from 1
_HEAVY = (0.99, 0.9, 0.6)
_ESCAPED = str.maketrans({sign: f"\\{sign}" for sign in "\\%_"})


class _Question:
    """The conditions of a search and their values, in one order."""

    def __init__(self) -> None:
        self.conditions: list[str] = []
        self.values: list[object] = []

    def ask(self, condition: str, *values: object) -> None:
        self.conditions.append(condition)
        self.values += values


def edges(
    database: Database,
    *,
    query: str | None,
    key: str | None,
    layer: int | None,
    head: int | None,
    relation: str | None,
    direction: str | None,
    query_upos: str | None,
    key_upos: str | None,
    previous: bool,
    min_weight: Number,
    limit: int,
) -> pd.DataFrame:
    """See `Study.search`; layer and head exist."""
    if BY_QUERY not in database.tables:
        raise StudyError("This study has no edges to search: it was made without them.")
    _check(min_weight, limit, relation, direction)
    # Each table is in order of one word, so that most of it need not be read.
    table = BY_KEY if query is None and key is not None else BY_QUERY
    columns, asked = _COLUMNS, _Question()
    for column, wanted in (("layer", layer), ("head", head), ("direction", direction)):
        if wanted is not None:
            asked.ask(f"{column} = ?", wanted)
    for column, word in (("query_word", query), ("key_word", key)):
        if word is not None:
            asked.ask(*_like(column, word))
    for column, upos in (("query", query_upos), ("key", key_upos)):
        if upos is not None:
            asked.ask(f"(text_id, {column}) IN ({_OF_PART})", _part(upos))
    of_arcs = []
    if relation is not None:
        columns, of_arcs = f"{_COLUMNS}, relation, direction", [relation, relation]
        table = f"{table} JOIN ({_TOKEN_ARCS}) AS asked USING (text_id, query, key)"
    if previous and key is None:
        asked.ask("key = query - 1")
    elif previous and key is not None:
        condition, *values = _like("lower(trim(one))", key)
        between = f"list_filter({_BETWEEN}, lambda one: {condition})"
        asked.ask(f"key < query AND len({between}) = 0", *values)
        table = f"{table} JOIN (SELECT text_id, tokens FROM sentences) AS of_text USING (text_id)"
    question = f"""SELECT found.*, place, text FROM (
            SELECT {columns} FROM {table} WHERE {" AND ".join([*asked.conditions, "weight >= ?"])}
            ORDER BY weight DESC, text_id, layer, head, query, key LIMIT ?
        ) AS found JOIN sentences USING (text_id)
        ORDER BY weight DESC, text_id, layer, head, query, key"""
    by_words = not previous and (relation, query_upos, key_upos) == (None, None, None)

    def heavier(least: Number) -> pd.DataFrame:
        return database.ask(question, (*of_arcs, *asked.values, least, limit))

    return heavier(min_weight) if by_words else _heaviest(heavier, min_weight, limit)


def _heaviest(
    heavier: Callable[[Number], pd.DataFrame], min_weight: Number, limit: int
) -> pd.DataFrame:
    """What `heavier` finds of that weight, which no table is in order of.

    The heaviest come first: where enough of them are found, most edges need not be looked at.
    """
    for least in _HEAVY:
        if least > min_weight and len(found := heavier(least)) == limit:
            return found
    return heavier(min_weight)


def _check(min_weight: Number, limit: int, relation: str | None, direction: str | None) -> None:
    if not 0 <= min_weight <= 1:
        raise ArgumentError(f"min_weight must be a share from 0 to 1, got {min_weight}.")
    if limit < 1:
        raise ArgumentError(f"limit must be at least 1, got {limit}.")
    if direction is not None and (relation is None or direction not in DIRECTIONS):
        raise ArgumentError(
            f"direction must be {' or '.join(DIRECTIONS)}, beside a relation, got {direction!r}."
        )


def _like(column: str, word: str) -> tuple[str, str]:
    """A condition on a word and its value; * stands for any letters, all else for itself."""
    given = word.strip().lower()
    if not given:
        raise ArgumentError("What to search for must not be empty; leave it out to find any.")
    if "*" not in given:
        return f"{column} = ?", given
    return f"{column} LIKE ? ESCAPE '\\'", given.translate(_ESCAPED).replace("*", "%")


def _part(upos: str) -> str:
    """A part of speech as the treebanks write it."""
    given = upos.strip().upper()
    if given not in PARTS:
        raise ArgumentError(f"A part of speech must be one of {', '.join(PARTS)}, got {upos!r}.")
    return given
