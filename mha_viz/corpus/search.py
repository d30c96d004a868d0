"""Who looks at what: the edges of a study, found by their words, their tree and their weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mha_viz.core.checks import Number
from mha_viz.corpus.database import Database
from mha_viz.corpus.edges_index import BY_KEY, BY_QUERY
from mha_viz.corpus.heaviest_edges import BY_PARTS, BY_RELATION, HEAVIEST_FIRST, TOKEN_ARCS
from mha_viz.corpus.relations import TO_DEPENDENT, TO_HEAD
from mha_viz.corpus.speech import PARTS
from mha_viz.errors import ArgumentError, StudyError

_COLUMNS = "text_id, layer, head, query, key, query_token, key_token, weight, strongest"
DIRECTIONS = (TO_HEAD, TO_DEPENDENT)
# "nsubj" stands for "nsubj:pass" as well.
_RELATION = "(relation = ? OR starts_with(relation, ? || ':'))"
_OF_PART = "SELECT text_id, unnest(tokens) FROM words WHERE upos = ?"
_BETWEEN = "tokens[key + 2 : query]"  # of a text, between the two; SQL counts from 1
_HEAVY = (0.99, 0.9, 0.6)
_ESCAPED = str.maketrans({sign: f"\\{sign}" for sign in "\\%_"})


@dataclass(frozen=True)
class Wanted:
    """What is searched for, as `Study.search` has it; layer and head exist."""

    query: str | None
    key: str | None
    layer: int | None
    head: int | None
    relation: str | None
    direction: str | None
    query_upos: str | None
    key_upos: str | None
    previous: bool
    min_weight: Number
    limit: int

    @property
    def of_words(self) -> bool:
        """Whether a word is given, by which tables are in order."""
        return (self.query, self.key) != (None, None)

    @property
    def of_grammar(self) -> bool:
        """Whether a relation or a part of speech is given."""
        return (self.relation, self.query_upos, self.key_upos) != (None, None, None)

    @property
    def parts(self) -> list[tuple[str, str]]:
        """What parts of speech are given, as the treebanks write them, and of which token."""
        given = (("query", self.query_upos), ("key", self.key_upos))
        return [(token, _part(upos)) for token, upos in given if upos is not None]

    def question(self, table: str, asked: _Question) -> str:
        """SQL for the heaviest edges of a table, with their texts; values as asked, and the limit.

        Args:
            table: that has the columns.
            asked: of its rows.
        """
        of_arc = "" if self.relation is None else ", relation, direction"
        order = HEAVIEST_FIRST + of_arc
        return f"""SELECT found.*, place, text FROM (
                SELECT {_COLUMNS}{of_arc} FROM {table} WHERE {asked.conditions}
                ORDER BY {order} LIMIT ?
            ) AS found JOIN sentences USING (text_id) ORDER BY {order}"""


class _Question:
    """The conditions of a search and their values, in one order."""

    def __init__(self) -> None:
        self._conditions: list[str] = []
        self.values: list[object] = []

    def ask(self, condition: str, *values: object) -> None:
        self._conditions.append(condition)
        self.values += values

    @property
    def conditions(self) -> str:
        return " AND ".join(self._conditions)

    def ask_place(self, wanted: Wanted) -> None:
        """Of that layer, head and direction."""
        for column in ("layer", "head", "direction"):
            if (value := getattr(wanted, column)) is not None:
                self.ask(f"{column} = ?", value)


def edges(database: Database, wanted: Wanted) -> pd.DataFrame:
    """See `Study.search`."""
    if BY_QUERY not in database.tables:
        raise StudyError(
            "This study has no edges to search: it was made with keep_texts=False (--no-texts). "
            "Make it again without that to search it."
        )
    _check(wanted)
    found = None
    if wanted.of_grammar and not wanted.of_words:
        found = _among_heaviest(database, wanted)
    return _among_all(database, wanted) if found is None else found


# -- among the heaviest edges of each relation and of each two parts of speech -----------------


def _among_heaviest(database: Database, wanted: Wanted) -> pd.DataFrame | None:
    """What is found without looking at all edges; None where it may not be all, or none are kept.

    Of each group, all edges that weigh more than `complete_above` are there.
    """
    table = BY_PARTS if wanted.relation is None else BY_RELATION
    if table not in database.tables:  # an older study
        return None
    asked = _Question()
    if wanted.relation is not None:
        asked.ask(_RELATION, wanted.relation, wanted.relation)
        least = _least(database, table, asked)
    for token, part in wanted.parts:
        asked.ask(f"list_contains(string_split({token}_upos, '+'), ?)", part)
    if wanted.relation is None:
        least = _least(database, table, asked)
    asked.ask_place(wanted)
    if wanted.previous:
        asked.ask("key = query - 1")
    asked.ask("weight >= ? AND weight > ?", wanted.min_weight, least)
    found = database.ask(wanted.question(table, asked), (*asked.values, wanted.limit))
    # weights are compared in single precision
    is_whole = least == 0 or np.float32(wanted.min_weight) > np.float32(least)
    return found if is_whole or len(found) == wanted.limit else None


def _least(database: Database, table: str, groups: _Question) -> float:
    """All edges of these groups that weigh more than this are in the table."""
    rows = f"SELECT coalesce(max(complete_above), 0) AS least FROM {table}"
    return float(database.ask(f"{rows} WHERE {groups.conditions}", groups.values)["least"][0])


# -- among all edges ---------------------------------------------------------------------------


def _among_all(database: Database, wanted: Wanted) -> pd.DataFrame:
    # Each table is in order of one word, so that most of it need not be read.
    table = BY_KEY if wanted.query is None and wanted.key is not None else BY_QUERY
    asked, of_arcs = _Question(), []
    asked.ask_place(wanted)
    for column, word in (("query_word", wanted.query), ("key_word", wanted.key)):
        if word is not None:
            asked.ask(*_like(column, word))
    for token, part in wanted.parts:
        asked.ask(f"(text_id, {token}) IN ({_OF_PART})", part)
    if wanted.relation is not None:
        of_arcs = [wanted.relation, wanted.relation]
        arcs = f"SELECT * FROM ({TOKEN_ARCS}) WHERE {_RELATION}"
        table = f"{table} JOIN ({arcs}) AS asked USING (text_id, query, key)"
    if wanted.previous and wanted.key is None:
        asked.ask("key = query - 1")
    elif wanted.previous and wanted.key is not None:
        condition, *values = _like("lower(trim(one))", wanted.key)
        between = f"list_filter({_BETWEEN}, lambda one: {condition})"
        asked.ask(f"key < query AND len({between}) = 0", *values)
        table = f"{table} JOIN (SELECT text_id, tokens FROM sentences) AS of_text USING (text_id)"
    asked.ask("weight >= ?")
    question = wanted.question(table, asked)

    def heavier(least: Number) -> pd.DataFrame:
        return database.ask(question, (*of_arcs, *asked.values, least, wanted.limit))

    if wanted.of_grammar or wanted.previous:
        return _heaviest(heavier, wanted.min_weight, wanted.limit)
    return heavier(wanted.min_weight)


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


def _check(wanted: Wanted) -> None:
    if not 0 <= wanted.min_weight <= 1:
        raise ArgumentError(f"min_weight must be a share from 0 to 1, got {wanted.min_weight}.")
    if wanted.limit < 1:
        raise ArgumentError(f"limit must be at least 1, got {wanted.limit}.")
    direction = wanted.direction
    if direction is not None and (wanted.relation is None or direction not in DIRECTIONS):
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
