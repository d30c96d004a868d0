"""Numbers for names: tokens, parts of speech and relations, of which edges have very many."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import duckdb
import numpy as np
import pyarrow as pa
from jaxtyping import Int

from mha_viz.corpus.treebank.parts_of_speech import PARTS
from mha_viz.corpus.treebank.relations import TO_DEPENDENT, TO_HEAD

TOKEN, UPOS, ARC = "token", "upos", "arc"  # kinds of names
BETWEEN_PARTS = "+"  # of a token that has several words
BETWEEN_ARCS = "\t"  # which no field of a treebank has: relation, direction, relation ...
# Edges as a reader of the study sees them.
EDGES_VIEW = """CREATE VIEW edges AS
    SELECT text_id, layer, head, query, key, queries.name AS query_token, keys.name AS key_token,
        weight, strongest, lower(trim(queries.name)) AS query_word,
        lower(trim(keys.name)) AS key_word
    FROM study.edge_rows
    JOIN study.names AS queries ON queries.kind = 'token' AND queries.number = query_token
    JOIN study.names AS keys ON keys.kind = 'token' AND keys.number = key_token"""


class Names:
    """The names of a study's edges, numbered in the order in which they first occur."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._numbers: dict[str, dict[str, int]] = defaultdict(dict)
        for kind, number, name in connection.execute("SELECT * FROM names").fetchall():
            self._numbers[kind][name] = number
        self._new: list[tuple[str, int, str]] = []

    def numbers(self, kind: str, names: Iterable[str]) -> Int[np.ndarray, "name"]:
        """Return a number for each name; new names get new ones."""
        numbers, found = self._numbers[kind], []
        for name in names:
            if name not in numbers:
                numbers[name] = len(numbers)
                self._new.append((kind, numbers[name], name))
            found.append(numbers[name])
        return np.array(found, np.int32)

    def take_new(self) -> pa.Table:
        """Return the rows of names that were not written yet."""
        kinds, numbers, names = zip(*self._new, strict=True) if self._new else ((), (), ())
        self._new = []
        schema = pa.schema([("kind", pa.string()), ("number", pa.int32()), ("name", pa.string())])
        return (
            pa.table([pa.array(kinds), pa.array(numbers), pa.array(names)], schema=schema)
            if (kinds)
            else schema.empty_table()
        )

    def number_edges(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Return the edges of a shard with numbers for names, and what its trees say of them.

        0 stands for a token without a part of speech, and for an edge along no arc.
        """
        edges = tables["edges"]
        columns = {name: edges[name] for name in edges.column_names if not name.endswith("_word")}
        for side in ("query_token", "key_token"):
            tokens = edges[side].combine_chunks()
            if not pa.types.is_dictionary(tokens.type):
                tokens = tokens.dictionary_encode()
            numbers = self.numbers(TOKEN, tokens.dictionary.to_pylist())
            columns[side] = numbers[tokens.indices.to_numpy()]
        self.numbers(UPOS, [""]), self.numbers(ARC, [""])
        places = [edges[name].to_numpy() for name in ("text_id", "query", "key")]
        for side, own in (("query_upos", places[1]), ("key_upos", places[2])):
            columns[side] = self._at([places[0], own], UPOS, _parts(tables.get("words")))
        columns["arc"] = self._at(places, ARC, _arcs(tables.get("arcs")))
        return pa.table(columns)

    def _at(
        self, places: Sequence[np.ndarray], kind: str, named: Mapping[tuple[int, ...], str]
    ) -> Int[np.ndarray, "edge"]:
        """Return the number of what stands at each place, by text and token or tokens."""
        found = np.zeros(len(places[0]), np.int32)
        if not named or not len(found):
            return found
        sizes = [
            max(int(axis.max()), *column) + 1
            for axis, column in zip(places, zip(*named, strict=True), strict=True)
        ]
        first = min(int(places[0].min()), *(key[0] for key in named))
        sizes[0] -= first

        def flat(axes: Sequence[np.ndarray]) -> np.ndarray:
            return np.ravel_multi_index((axes[0] - first, *axes[1:]), sizes)

        keys = flat([np.array(column) for column in zip(*named, strict=True)])
        order, wanted = keys.argsort(), flat(places)
        at = order[np.searchsorted(keys, wanted, sorter=order).clip(max=len(keys) - 1)]
        return np.where(keys[at] == wanted, self.numbers(kind, named.values())[at], 0)


def _parts(words: pa.Table | None) -> dict[tuple[int, ...], str]:
    """Return by text and token the parts of speech of the token's words."""
    parts: dict[tuple[int, ...], set[str]] = defaultdict(set)
    if words is not None:
        for text_id, upos, tokens in zip(
            *(words[name].to_pylist() for name in ("text_id", "upos", "tokens")), strict=True
        ):
            for token in tokens if upos in PARTS else ():
                parts[text_id, token].add(upos)
    return {
        at: BETWEEN_PARTS.join(part for part in PARTS if part in own) for at, own in parts.items()
    }


def _arcs(arcs: pa.Table | None) -> dict[tuple[int, ...], str]:
    """Return by text, query and key the relations between their words, with directions."""
    found: dict[tuple[int, ...], set[tuple[str, str]]] = defaultdict(set)
    if arcs is not None:
        names = ("text_id", "dependent_token", "head_token", "relation")
        for text_id, dependent, head, relation in zip(
            *(arcs[name].to_pylist() for name in names), strict=True
        ):
            found[text_id, dependent, head].add((relation, TO_HEAD))
            found[text_id, head, dependent].add((relation, TO_DEPENDENT))
    return {
        at: BETWEEN_ARCS.join(word for arc in sorted(own) for word in arc)
        for at, own in found.items()
    }
