"""Numbers that stand for the names in edges: tokens, parts of speech and relations."""

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
        by_name, numbers = self._numbers[kind], []
        for name in names:
            if name not in by_name:
                by_name[name] = len(by_name)
                self._new.append((kind, by_name[name], name))
            numbers.append(by_name[name])
        return np.array(numbers, np.int32)

    def take_new(self) -> pa.Table:
        """Return the rows of names that were not written yet."""
        rows, self._new = self._new, []
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        types = {"kind": pa.string(), "number": pa.int32(), "name": pa.string()}
        return pa.table(
            {name: pa.array(of, types[name]) for name, of in zip(types, columns, strict=True)}
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
        for kind in (UPOS, ARC):
            self.numbers(kind, [""])
        positions = [edges[name].to_numpy() for name in ("text_id", "query", "key")]
        parts = _parts(tables.get("words"))
        for side, tokens in (("query_upos", positions[1]), ("key_upos", positions[2])):
            columns[side] = self._at([positions[0], tokens], UPOS, parts)
        columns["arc"] = self._at(positions, ARC, _arcs(tables.get("arcs")))
        return pa.table(columns)

    def _at(
        self, positions: Sequence[np.ndarray], kind: str, named: Mapping[tuple[int, ...], str]
    ) -> Int[np.ndarray, "edge"]:
        """Return the number of the name at each place, by text and token or tokens; 0 for none."""
        if not named or not len(positions[0]):
            return np.zeros(len(positions[0]), np.int32)
        keys = np.array(list(named)).T
        first = min(int(positions[0].min()), int(keys[0].min()))
        sizes = [int(max(a.max(), b.max())) + 1 for a, b in zip(positions, keys, strict=True)]
        sizes[0] -= first
        codes, edge_codes = (
            np.ravel_multi_index((texts - first, *tokens), sizes)
            for texts, *tokens in (keys, positions)
        )
        order = codes.argsort()
        nearest = np.searchsorted(codes, edge_codes, sorter=order).clip(max=len(codes) - 1)
        at = order[nearest]
        return np.where(codes[at] == edge_codes, self.numbers(kind, named.values())[at], 0)


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
        at: BETWEEN_PARTS.join(part for part in PARTS if part in upos) for at, upos in parts.items()
    }


def _arcs(arcs: pa.Table | None) -> dict[tuple[int, ...], str]:
    """Return by text, query and key the relations between their words, with directions."""
    by_tokens: dict[tuple[int, ...], set[tuple[str, str]]] = defaultdict(set)
    if arcs is not None:
        names = ("text_id", "dependent_token", "head_token", "relation")
        for text_id, dependent, head, relation in zip(
            *(arcs[name].to_pylist() for name in names), strict=True
        ):
            by_tokens[text_id, dependent, head].add((relation, TO_HEAD))
            by_tokens[text_id, head, dependent].add((relation, TO_DEPENDENT))
    return {
        at: BETWEEN_ARCS.join(word for arc in sorted(relations) for word in arc)
        for at, relations in by_tokens.items()
    }
