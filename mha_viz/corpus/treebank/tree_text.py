"""A text with gold trees: the targets of every head in it, and its words as rows of a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.record.fields import Token
from mha_viz.corpus.treebank import coreference, parsing, parts_of_speech, relations
from mha_viz.corpus.treebank.alignment import Alignment, align_words
from mha_viz.corpus.treebank.trees import Sentence, Word


def schema(columns: str) -> pa.Schema:
    """Read a schema out of columns as "name:type"."""
    pairs = (column.split(":") for column in columns.split())
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in pairs])


WORDS_SCHEMA = schema(
    "text_id:int64 word:int32 form:string lemma:string upos:string head:int32 relation:string "
    "start:int32 stop:int32"
).append(pa.field("tokens", pa.list_(pa.int32())))


@dataclass(frozen=True)
class OneTree:
    """One sentence of a text, whose targets are among its own words."""

    words: slice  # which words of the text are its own
    sentence: Sentence  # with its tree, by itself
    covered: Bool[Tensor, " word"]  # which of its words the model has read
    targets: list[relations.RelationTarget]  # of its relations
    kind: Float[np.ndarray, "word part_of_speech"]  # (word, part of speech)
    n_arcs: int  # of its tree, without punctuation
    branching_hits: int  # how many of them join neighbours


@dataclass(frozen=True)
class TreeText:
    """A text with the targets of every head in it."""

    text_id: int  # its number in the study
    unit: int  # of the study's, to which it belongs (see `Item`)
    half: str  # of all texts, likewise
    alignment: Alignment  # of the model's tokens to its words
    references: list[coreference.Reference]  # of its mentions, whatever sentences they stand in
    trees: list[OneTree]  # of its sentences

    @property
    def n_arcs(self) -> int:
        """The number of arcs in all trees."""
        return sum(tree.n_arcs for tree in self.trees)

    @property
    def branching_hits(self) -> int:
        """The number of arcs in all trees that join neighbours."""
        return sum(tree.branching_hits for tree in self.trees)


def make_tree_text(
    text_id: int, unit: int, tokens: Sequence[Token], sentence: Sentence, *, causal: bool
) -> TreeText:
    """Find the targets of a text, or of several sentences joined."""
    alignment = align_words(tokens, sentence)
    return TreeText(
        text_id,
        unit,
        sentence.half,
        alignment,
        coreference.references(sentence, alignment.covered),
        [
            _one_tree(words, part, alignment.covered[words], causal=causal)
            for words, part in sentence.parts
        ],
    )


def _one_tree(
    words: slice, sentence: Sentence, covered: Bool[Tensor, " word"], *, causal: bool
) -> OneTree:
    return OneTree(
        words,
        sentence,
        covered,
        relations.relation_targets(sentence, covered, causal=causal),
        parts_of_speech.kinds(sentence, covered),
        len(parsing.gold_arcs(sentence, covered)),
        parsing.branching_hits(sentence, covered),
    )


def word_rows(
    text_id: int, tokens_of: Sequence[Sequence[int]], sentence: Sentence
) -> list[dict[str, Any]]:
    """Make a row for each word, with its place in the tree and among the model's tokens."""
    return [
        dict(text_id=text_id, word=number, form=word.form, lemma=word.lemma, upos=word.upos)
        | dict(head=word.head, relation=word.deprel, start=word.start, stop=word.end)
        | dict(tokens=list(tokens))
        for number, (word, tokens) in enumerate(zip(sentence.words, tokens_of, strict=True))
    ]


def tokens_of_words(alignment: Alignment) -> list[list[int]]:
    """List the tokens that each word is spelled with, wholly or in part."""
    found: list[list[int]] = [[] for _ in alignment.shares]
    for word, token in alignment.shares.nonzero().tolist():
        found[word].append(token)
    return found


def sentence_of(text: str, words: pd.DataFrame) -> Sentence:
    """Read a sentence with its tree, or several joined, without its mentions."""
    fields = ("form", "lemma", "upos", "head", "relation", "start", "stop")
    columns = [words[name].tolist() for name in fields]
    return Sentence(text, tuple(Word(*row) for row in zip(*columns, strict=True)))
