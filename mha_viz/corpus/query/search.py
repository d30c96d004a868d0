"""Search of a study's edges by their words, their tree and their weight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from mha_viz.core.attention.checks import Number
from mha_viz.corpus.store.database import Database
from mha_viz.corpus.store.names import ARC, BETWEEN_ARCS, BETWEEN_PARTS, TOKEN, UPOS
from mha_viz.corpus.treebank.parts_of_speech import PARTS
from mha_viz.corpus.treebank.relations import TO_DEPENDENT, TO_HEAD
from mha_viz.errors import ArgumentError, StudyError

DIRECTIONS = (TO_HEAD, TO_DEPENDENT)
HEAVIEST_FIRST = "weight DESC, text_id, layer, head, query, key"
_COLUMNS = "text_id, layer, head, query, key, query_token, key_token, weight, strongest"
_BETWEEN = "tokens[key + 2 : query]"  # of a text, between the two; SQL counts from 1
_WEIGHT_STEPS = (0.99, 0.9, 0.6)
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

    def has_arc(self, relation: str, direction: str) -> bool:
        """Tell whether an arc is searched for; "nsubj" stands for "nsubj:pass" as well."""
        same = relation == self.relation or relation.startswith(f"{self.relation}:")
        return same and self.direction in (None, direction)


def edges(database: Database, terms: EdgeQuery) -> pd.DataFrame:
    """Search as `Study.search` does."""
    if "edges" not in database.tables:
        raise StudyError(
            "This study has no edges to search: it was made with keep_texts=False (--no-texts). "
            "Make it again without that to search it."
        )
    _check(terms)
    table, conditions = _conditions(database, terms)
    # Where enough heavy edges are found, the columns of most others need not be read.
    steps = _WEIGHT_STEPS if terms.previous or (terms.query is None and terms.key is None) else ()
    for least in (*steps, 0.0):
        if least > terms.min_weight or not least:
            weight = ("weight >= ?", max(least, terms.min_weight))
            matches = _heaviest(database, table, [*conditions, weight], terms.limit)
            if len(matches) == terms.limit:
                break
    sides = ["query_token", "key_token"]
    names = _names(database, TOKEN, _among("number", matches[sides].to_numpy().ravel().tolist()))
    for side in sides:
        matches[side] = matches[side].map(names).astype(str)
    if terms.relation is not None:
        matches = _with_arcs(database, matches, terms)
    return matches.drop(columns="arc")


def _conditions(database: Database, terms: EdgeQuery) -> tuple[str, list[_Condition]]:
    """Return what is searched, and the conditions but for the weight; names become numbers."""
    table = "edge_rows"
    conditions: list[_Condition] = [
        (f"{column} = ?", value)
        for column, value in (("layer", terms.layer), ("head", terms.head))
        if value is not None
    ]
    for column, word in (("query_token", terms.query), ("key_token", terms.key)):
        if word is not None:
            matching = _names(database, TOKEN, *_like("lower(trim(name))", word))
            conditions.append((_among(column, matching),))
    for column, upos in (("query_upos", terms.query_upos), ("key_upos", terms.key_upos)):
        if upos is not None:
            part, combined = _part(upos), _names(database, UPOS)
            numbers = [n for n, name in combined.items() if part in name.split(BETWEEN_PARTS)]
            conditions.append((_among(column, numbers),))
    if terms.relation is not None:
        arcs = _names(database, ARC)
        numbers = [n for n, name in arcs.items() if any(terms.has_arc(*arc) for arc in _arcs(name))]
        conditions.append((_among("arc", numbers),))
    if terms.previous and terms.key is None:
        conditions.append(("key = query - 1",))
    elif terms.previous and terms.key is not None:
        condition, *values = _like("lower(trim(one))", terms.key)
        between = f"list_filter({_BETWEEN}, lambda one: {condition})"
        conditions.append((f"key < query AND len({between}) = 0", *values))
        table = f"{table} JOIN (SELECT text_id, tokens FROM sentences) AS of_text USING (text_id)"
    return table, conditions


def _heaviest(
    database: Database, table: str, conditions: Sequence[_Condition], limit: int
) -> pd.DataFrame:
    """Read the heaviest edges that fulfil all conditions, with their texts."""
    where = " AND ".join(condition for condition, *_ in conditions)
    values = [value for _, *of in conditions for value in of]
    sql = f"""SELECT found.*, place, text FROM (
            SELECT {_COLUMNS}, arc FROM {table} WHERE {where} ORDER BY {HEAVIEST_FIRST} LIMIT ?
        ) AS found JOIN sentences USING (text_id) ORDER BY {HEAVIEST_FIRST}"""
    return database.query(sql, (*values, limit))


def _with_arcs(database: Database, matches: pd.DataFrame, terms: EdgeQuery) -> pd.DataFrame:
    """Make a row for each arc of an edge that is searched for, with its relation and direction."""
    names = _names(database, ARC, _among("number", matches["arc"].tolist()))
    of_edges = [
        [arc for arc in _arcs(names[number]) if terms.has_arc(*arc)] for number in matches["arc"]
    ]
    rows = (
        matches.assign(along=pd.Series(of_edges, matches.index))
        .explode("along")
        .head(terms.limit)
        .reset_index(drop=True)
    )
    column = list(rows.columns).index("strongest") + 1
    for at, name in enumerate(("relation", "direction")):
        rows.insert(column + at, name, rows["along"].str[at].astype(str))
    return rows.drop(columns="along")


def _names(
    database: Database, kind: str, condition: str = "true", *values: object
) -> dict[int, str]:
    """Read the names of a kind by their numbers."""
    sql = f"SELECT number, name FROM names WHERE kind = ? AND {condition} ORDER BY number"
    rows = database.query(sql, (kind, *values))
    return dict(zip(rows["number"].tolist(), rows["name"].tolist(), strict=True))


def _arcs(name: str) -> list[tuple[str, str]]:
    """Part the name of an edge's arcs into relations, each with its direction."""
    words = name.split(BETWEEN_ARCS)
    return list(zip(words[::2], words[1::2], strict=False))


def _among(column: str, numbers: Iterable[int]) -> str:
    """Write the condition that a column has one of some numbers."""
    listed = ", ".join(map(str, sorted(set(numbers))))
    return f"{column} IN ({listed})" if listed else "false"


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
    pattern = word.strip().lower()
    if not pattern:
        raise ArgumentError("What to search for must not be empty; leave it out to find any.")
    if "*" not in pattern:
        return f"{column} = ?", pattern
    return f"{column} LIKE ? ESCAPE '\\'", pattern.translate(_ESCAPED).replace("*", "%")


def _part(upos: str) -> str:
    """Check a part of speech, as the treebanks write it."""
    part = upos.strip().upper()
    if part not in PARTS:
        raise ArgumentError(f"A part of speech must be one of {', '.join(PARTS)}, got {upos!r}.")
    return part
