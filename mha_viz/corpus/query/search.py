"""Search of a study's edges by their words, their tree and their weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mha_viz.core.attention.checks import Number
from mha_viz.corpus.store.database import Database
from mha_viz.corpus.store.edges_index import (
    BY_PARTS,
    BY_RELATION,
    EDGES,
    HEAVIEST_FIRST,
    TOKEN_ARCS,
)
from mha_viz.corpus.treebank.parts_of_speech import PARTS
from mha_viz.corpus.treebank.relations import TO_DEPENDENT, TO_HEAD
from mha_viz.errors import ArgumentError, StudyError

_COLUMNS = "text_id, layer, head, query, key, query_token, key_token, weight, strongest"
DIRECTIONS = (TO_HEAD, TO_DEPENDENT)
# "nsubj" stands for "nsubj:pass" as well.
_RELATION = "(relation = ? OR starts_with(relation, ? || ':'))"
_OF_PART = "SELECT text_id, unnest(tokens) FROM words WHERE upos = ?"
_BETWEEN = "tokens[key + 2 : query]"  # of a text, between the two; SQL counts from 1
_HEAVY = (0.99, 0.9, 0.6)
_Condition = tuple[str, *tuple[object, ...]]  # of SQL, with its values
_ESCAPED = str.maketrans({sign: f"\\{sign}" for sign in "\\%_"})


@dataclass(frozen=True)
class EdgeQuery:
    """The terms of a search, as `Study.search` has them; layer and head exist."""

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
    def has_words(self) -> bool:
        """True if a word is given, by which edges are in order."""
        return (self.query, self.key) != (None, None)

    @property
    def has_grammar(self) -> bool:
        """True if a relation or a part of speech is given."""
        return (self.relation, self.query_upos, self.key_upos) != (None, None, None)

    @property
    def parts(self) -> list[tuple[str, str]]:
        """The given parts of speech, as the treebanks write them, and of which token."""
        given = (("query", self.query_upos), ("key", self.key_upos))
        return [(token, _part(upos)) for token, upos in given if upos is not None]

    @property
    def place(self) -> list[_Condition]:
        """The given layer, head and direction, as conditions."""
        columns = ("layer", "head", "direction")
        given = [(column, getattr(self, column)) for column in columns]
        return [(f"{column} = ?", value) for column, value in given if value is not None]

    def heaviest(self, database: Database, table: str, *conditions: _Condition) -> pd.DataFrame:
        """Read a table's heaviest edges that fulfil all conditions, with their texts."""
        of_arc = "" if self.relation is None else ", relation, direction"
        order = HEAVIEST_FIRST + of_arc
        where, values = _together(conditions)
        sql = f"""SELECT found.*, place, text FROM (
                SELECT {_COLUMNS}{of_arc} FROM {table} WHERE {where}
                ORDER BY {order} LIMIT ?
            ) AS found JOIN sentences USING (text_id) ORDER BY {order}"""
        return database.query(sql, (*values, self.limit))


def _together(conditions: Sequence[_Condition]) -> tuple[str, list[object]]:
    return " AND ".join(c for c, *_ in conditions), [v for _, *of in conditions for v in of]


def edges(database: Database, terms: EdgeQuery) -> pd.DataFrame:
    """Search as `Study.search` does."""
    if EDGES not in database.tables:
        raise StudyError(
            "This study has no edges to search: it was made with keep_texts=False (--no-texts). "
            "Make it again without that to search it."
        )
    _check(terms)
    found = None
    if terms.has_grammar and not terms.has_words:
        found = _among_heaviest(database, terms)
    return _among_all(database, terms) if found is None else found


def _among_heaviest(database: Database, terms: EdgeQuery) -> pd.DataFrame | None:
    """Search without all edges; None where some may be missed, or none are kept.

    Of each group, all edges that weigh more than `complete_above` are there.
    """
    table = BY_PARTS if terms.relation is None else BY_RELATION
    if table not in database.tables:  # an older study
        return None
    parts = [(f"list_contains(string_split({of}_upos, '+'), ?)", part) for of, part in terms.parts]
    along = [(_RELATION, terms.relation, terms.relation)] * (terms.relation is not None)
    groups, values = _together(along or parts)
    rows = f"SELECT coalesce(max(complete_above), 0) AS least FROM {table} WHERE {groups}"
    least = float(database.query(rows, values)["least"][0])
    previous = [("key = query - 1",)] * terms.previous
    heavy = ("weight >= ? AND weight > ?", terms.min_weight, least)
    found = terms.heaviest(database, table, *along, *parts, *terms.place, *previous, heavy)
    # weights are compared in single precision
    is_whole = least == 0 or np.float32(terms.min_weight) > np.float32(least)
    return found if is_whole or len(found) == terms.limit else None


def _among_all(database: Database, terms: EdgeQuery) -> pd.DataFrame:
    table, conditions = EDGES, terms.place
    for column, word in (("query_word", terms.query), ("key_word", terms.key)):
        if word is not None:
            conditions.append(_like(column, word))
    conditions += [(f"(text_id, {token}) IN ({_OF_PART})", part) for token, part in terms.parts]
    if terms.relation is not None:
        conditions.append((_RELATION, terms.relation, terms.relation))
        table = f"{table} JOIN ({TOKEN_ARCS}) AS arc USING (text_id, query, key)"
    if terms.previous and terms.key is None:
        conditions.append(("key = query - 1",))
    elif terms.previous and terms.key is not None:
        condition, *values = _like("lower(trim(one))", terms.key)
        between = f"list_filter({_BETWEEN}, lambda one: {condition})"
        conditions.append((f"key < query AND len({between}) = 0", *values))
        table = f"{table} JOIN (SELECT text_id, tokens FROM sentences) AS of_text USING (text_id)"
    # Edges are not in order of weight: where enough heavy edges are found, most others need not be
    # looked at.
    for least in _HEAVY if terms.has_grammar or terms.previous else ():
        if least > terms.min_weight:
            found = terms.heaviest(database, table, *conditions, ("weight >= ?", least))
            if len(found) == terms.limit:
                return found
    return terms.heaviest(database, table, *conditions, ("weight >= ?", terms.min_weight))


def _check(terms: EdgeQuery) -> None:
    if not 0 <= terms.min_weight <= 1:
        raise ArgumentError(f"min_weight must be a share from 0 to 1, got {terms.min_weight}.")
    if terms.limit < 1:
        raise ArgumentError(f"limit must be at least 1, got {terms.limit}.")
    direction = terms.direction
    if direction is not None and (terms.relation is None or direction not in DIRECTIONS):
        raise ArgumentError(
            f"direction must be {' or '.join(DIRECTIONS)}, beside a relation, got {direction!r}."
        )


def _like(column: str, word: str) -> tuple[str, str]:
    """Write a condition on a word and its value; * stands for any letters, all else for itself."""
    given = word.strip().lower()
    if not given:
        raise ArgumentError("What to search for must not be empty; leave it out to find any.")
    if "*" not in given:
        return f"{column} = ?", given
    return f"{column} LIKE ? ESCAPE '\\'", given.translate(_ESCAPED).replace("*", "%")


def _part(upos: str) -> str:
    """Check a part of speech, as the treebanks write it."""
    given = upos.strip().upper()
    if given not in PARTS:
        raise ArgumentError(f"A part of speech must be one of {', '.join(PARTS)}, got {upos!r}.")
    return given
