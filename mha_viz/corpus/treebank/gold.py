"""Counts of every head against the gold trees of many sentences, as tables."""

import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.record.fields import Token
from mha_viz.corpus.treebank import coreference, parsing, parts_of_speech, relations
from mha_viz.corpus.treebank.alignment import Alignment, align_words
from mha_viz.corpus.treebank.split_half import TREE_UNITS
from mha_viz.corpus.treebank.trees import ROOT, Sentence, Word

Rows = list[dict[str, Any]]  # of a table


@dataclass(frozen=True)
class SentenceTargets:
    """One sentence of a text, whose targets are among its own words."""

    words: slice  # which words of the text are its own
    sentence: Sentence  # with its tree, by itself
    covered: Bool[Tensor, " word"]  # which of its words the model has read
    targets: list[relations.RelationTarget]  # of its relations
    kind: Float[np.ndarray, "word part_of_speech"]  # (word, part of speech)
    n_arcs: int  # of its tree, without punctuation
    branching_hits: int  # how many of them join neighbours


@dataclass(frozen=True)
class TextTargets:
    """A text with the targets of every head in it."""

    text_id: int  # its number in the study
    unit: int  # of the study's, to which it belongs (see `Item`)
    half: str  # of all texts, likewise
    alignment: Alignment  # of the model's tokens to its words
    references: list[coreference.Reference]  # of its mentions, whatever sentences they stand in
    trees: list[SentenceTargets]  # of its sentences

    @property
    def n_arcs(self) -> int:
        """The number of arcs in all trees."""
        return sum(tree.n_arcs for tree in self.trees)

    @property
    def branching_hits(self) -> int:
        """The number of arcs in all trees that join neighbours."""
        return sum(tree.branching_hits for tree in self.trees)


def make_text_targets(
    text_id: int, unit: int, tokens: Sequence[Token], sentence: Sentence, *, causal: bool
) -> TextTargets:
    """Find the targets of a text, or of several sentences joined."""
    alignment = align_words(tokens, sentence)
    trees = []
    for words, part in sentence.parts:
        covered = alignment.covered[words]
        trees.append(
            SentenceTargets(
                words,
                part,
                covered,
                relations.relation_targets(part, covered, causal=causal),
                parts_of_speech.kinds(part, covered),
                len(parsing.gold_arcs(part, covered)),
                parsing.branching_hits(part, covered),
            )
        )
    mentions = coreference.references(sentence, alignment.covered)
    return TextTargets(text_id, unit, sentence.half, alignment, mentions, trees)


def word_rows(text_id: int, tokens_of: Sequence[Sequence[int]], sentence: Sentence) -> Rows:
    """Make a row for each word, with its place in the tree and among the model's tokens."""
    return [
        dict(text_id=text_id, word=number, form=word.form, lemma=word.lemma, upos=word.upos)
        | dict(head=word.head, relation=word.deprel, start=word.start, stop=word.end)
        | dict(tokens=list(tokens))
        for number, (word, tokens) in enumerate(zip(sentence.words, tokens_of, strict=True))
    ]


def sentence_of(text: str, words: pd.DataFrame) -> Sentence:
    """Read a sentence with its tree, or several joined, without its mentions."""
    fields = ("form", "lemma", "upos", "head", "relation", "start", "stop")
    columns = [words[name].tolist() for name in fields]
    return Sentence(text, tuple(Word(*row) for row in zip(*columns, strict=True)))


_AT_UNIT = np.eye(TREE_UNITS, dtype=np.int64)


def _schema(columns: str) -> pa.Schema:
    """Read a schema out of columns as "name:type"; a name that ends in * is one for each unit."""
    fields: list[tuple[str, pa.DataType]] = []
    for name, kind in (column.split(":") for column in columns.split()):
        field = pa.list_(pa.int32()) if kind == "int32s" else pa.type_for_alias(kind)
        of_units = [f"{name[:-1]}{unit}" for unit in range(TREE_UNITS)]
        fields += [(title, field) for title in (of_units if name.endswith("*") else [name])]
    return pa.schema(fields)


_TABLES = tomllib.loads(Path(__file__).with_name("tables.toml").read_text("utf-8"))
SCHEMAS = {name: _schema(columns) for name, columns in _TABLES.items()}


@dataclass(frozen=True)
class LayerHits:
    """The counts of the heads of one layer on the texts of a batch."""

    # half, relation, direction and unit -> of each head, how many targets it finds.
    relations: Mapping[tuple[str, str, str, int], Int[np.ndarray, " head"]]
    # half and unit -> how many antecedents it finds
    references: Mapping[tuple[str, int], Int[np.ndarray, " head"]]
    # (tree, head), how many arcs of each text's trees, one after another, it has.
    arcs: Int[np.ndarray, "tree head"]
    # weight by parts of speech and what is expected of it, summed over the texts.
    weights: Float[np.ndarray, "2 head from_upos to_upos"]


class TreeCounts:
    """Counts of all heads on the sentences so far; as small for a million of them as for ten.

    But for `parses`, which has a row for each text and head, and for the trees themselves, to be
    drawn and searched by: `words`, and `arcs`, a row for each token of a word and each of its
    head's.
    """

    def __init__(self, *, causal: bool) -> None:
        self.causal = causal
        self._arcs: Rows = []
        self._words: Rows = []
        self._targets: dict[tuple[str, str, str], Any] = defaultdict(int)  # for each unit
        self._hits: dict[tuple[Any, ...], Any] = defaultdict(int)  # for each unit and head
        self._steps: dict[tuple[str, str, str], Any] = defaultdict(int)  # for each unit and offset
        self._rows: Any = np.zeros(len(parts_of_speech.PARTS), dtype=np.int64)
        self._weights: dict[int, Any] = defaultdict(int)  # (weight or expected, head, from, to)
        self._parses: list[tuple[TextTargets, int, NDArray[np.int64]]] = []
        # of half and unit: n, nearest, same word
        self._references: dict[tuple[str, int], Any] = defaultdict(int)
        self._reference_hits: dict[tuple[str, int, int], Any] = defaultdict(int)

    def begin(
        self, text_id: int, tokens: Sequence[Token], sentence: Sentence, unit: int
    ) -> TextTargets:
        """Prepare a text, once; its layers follow by `add`."""
        unit %= TREE_UNITS
        text = make_text_targets(text_id, unit, tokens, sentence, causal=self.causal)
        tokens_of: list[list[int]] = [[] for _ in sentence.words]  # wholly or in part
        for word, token in text.alignment.shares.nonzero().tolist():
            tokens_of[word].append(token)
        self._arcs += token_arcs(text_id, tokens_of, sentence)
        self._words += word_rows(text_id, tokens_of, sentence)
        for tree in text.trees:
            of_targets = relations.offset_hits(tree.targets)
            for target, steps in zip(tree.targets, of_targets, strict=True):
                key = (text.half, target.relation, target.direction)
                self._targets[key] += _AT_UNIT[unit]
                self._steps[key] += np.outer(_AT_UNIT[unit], steps)
            self._rows += tree.kind.sum(0).astype(np.int64)
        for mention in text.references:
            same_word = coreference.same_word_hit(mention, sentence)
            hits = [1, coreference.nearest_hit(mention), same_word]
            self._references[text.half, unit] += np.array(hits)
        return text

    def add(self, texts: Sequence[TextTargets], layer: int, hits: LayerHits) -> None:
        """Count the hits of one layer's heads on the texts of a batch."""
        for (*target, unit), by_head in hits.relations.items():
            self._hits[*target, layer] += np.outer(_AT_UNIT[unit], by_head)
        for (half, unit), by_head in hits.references.items():
            self._reference_hits[half, layer, unit] += by_head
        of_trees = iter(hits.arcs)
        for text in texts:
            arcs = sum(next(of_trees) for _ in text.trees)
            if text.n_arcs:
                self._parses.append((text, layer, arcs))
        self._weights[layer] += hits.weights

    def tables(self) -> dict[str, pa.Table]:
        """Make the tables of `SCHEMAS`, sorted, so that the order of texts does not show."""
        by_table = {
            "arcs": self._arcs,
            "words": self._words,
            "parses": self._trees(),
            "coreference": self._coreference(),
        }
        return {
            # by the columns that say what a row is about
            name: pa.Table.from_pylist(
                sorted(rows, key=lambda row: tuple(v for k, v in row.items() if k not in _SUMS)),
                SCHEMAS[name],
            )
            for name, rows in by_table.items()
        } | {
            "relations": self._by_unit("relations", self._hits),
            "relation_offsets": self._by_unit("relation_offsets", self._steps, relations.OFFSETS),
            "parts_of_speech": self._parts_of_speech(),
        }

    def _by_unit(self, name: str, by_key: Mapping[Any, Any], last: Sequence[int] = ()) -> pa.Table:
        """Make a table of hits by unit, in columns at once; `last` are the keys of their axis."""
        schema, rows = SCHEMAS[name], sorted(by_key.items())
        if not rows:
            return schema.empty_table()
        keys = [(*key, at) for key, hits in rows for at in last or range(hits.shape[1])]
        hits = np.concatenate([hits.T for _, hits in rows])
        n = np.stack([self._targets[key[0], key[1], key[2]] for key in keys])
        columns = [*zip(*keys, strict=True), n.sum(1), hits.sum(1), *hits.T, *n.T]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)

    def _parts_of_speech(self) -> pa.Table:
        """Make the table in columns at once: every head has a few hundred rows.

        A part of speech that these texts lack is looked at with a weight of 0, so that `rows` of
        several shards add up.
        """
        present = self._rows.nonzero()[0]
        layers = sorted(self._weights)
        if not layers or not len(present):
            return SCHEMAS["parts_of_speech"].empty_table()
        sums = np.stack([self._weights[layer] for layer in layers], axis=1)
        sums = sums[..., present, :]  # (weight or expected, layer, head, from, to)
        layer, head, i, j = (axis.ravel() for axis in np.indices(sums.shape[1:]))
        names = np.array(parts_of_speech.PARTS)
        columns = [np.array(layers)[layer], head, names[present][i], names[j], *sums.reshape(2, -1)]
        columns.append(self._rows[present][i])
        schema = SCHEMAS["parts_of_speech"]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)

    def _trees(self) -> Rows:
        return [
            dict(text_id=text.text_id, half=text.half, layer=layer, head=head, unit=text.unit)
            | dict(n_arcs=text.n_arcs, hits=int(hits), branching_hits=text.branching_hits)
            for text, layer, by_head in self._parses
            for head, hits in enumerate(by_head)
        ]

    def _coreference(self) -> Rows:
        return [
            dict(half=half, layer=layer, head=head, unit=unit, n=n, hits=int(hits))
            | dict(nearest_hits=nearest, same_word_hits=same)
            for (half, layer, unit), by_head in self._reference_hits.items()
            for n, nearest, same in [self._references[half, unit].tolist()]
            for head, hits in enumerate(by_head)
        ]


def token_arcs(text_id: int, tokens: Sequence[Sequence[int]], sentence: Sentence) -> Rows:
    """List the arcs between tokens: from each token of a word to each token of its head."""
    return [
        dict(text_id=text_id, dependent_token=mine, head_token=theirs, relation=word.deprel)
        | dict(dependent_upos=word.upos, head_upos=sentence.words[word.head].upos)
        for number, word in enumerate(sentence.words)
        if word.head != ROOT
        for mine in tokens[number]
        for theirs in tokens[word.head]
        if mine != theirs
    ]


_SUMS = {"n", "hits", "weight", "expected", "rows", "nearest_hits", "same_word_hits"}
