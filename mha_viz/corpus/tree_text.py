"""A text with gold trees, and what is asked of every head about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.token import Token
from mha_viz.corpus import coreference, parsing, relations, speech
from mha_viz.corpus.alignment import Alignment, align_words
from mha_viz.corpus.trees import Sentence


@dataclass(frozen=True)
class OneTree:
    """One sentence of a text. What is asked of its tree is asked among its own words.

    Args:
        words: which words of the text are its own.
        sentence: with its tree, by itself.
        covered: which of its words the model has read.
        asked: of its relations.
        kind: (word, part of speech).
        n_arcs: of its tree, without punctuation.
        branching_hits: how many of them join neighbours.
    """

    words: slice
    sentence: Sentence
    covered: Bool[Tensor, " word"]
    asked: list[relations.Question]
    kind: Float[np.ndarray, "word part_of_speech"]
    n_arcs: int
    branching_hits: int


@dataclass(frozen=True)
class TreeText:
    """A text with what is asked of every head about it.

    Args:
        text_id: its number in the study.
        half: of all texts, to which it belongs.
        alignment: of the model's tokens to its words.
        references: of its mentions, whatever sentences they stand in.
        trees: of its sentences.
    """

    text_id: int
    half: str
    alignment: Alignment
    references: list[coreference.Reference]
    trees: list[OneTree]

    @property
    def n_arcs(self) -> int:
        """Of all its trees."""
        return sum(tree.n_arcs for tree in self.trees)

    @property
    def branching_hits(self) -> int:
        """Of all its trees."""
        return sum(tree.branching_hits for tree in self.trees)


def tree_text(
    text_id: int, tokens: Sequence[Token], sentence: Sentence, *, causal: bool
) -> TreeText:
    """Find out what can be asked about a text.

    Args:
        text_id: its number in the study.
        tokens: that the model read, special ones included.
        sentence: of the text.
        causal: the model sees nothing that comes later.
    """
    alignment = align_words(tokens, sentence)
    return TreeText(
        text_id,
        sentence.half,
        alignment,
        coreference.references(sentence, alignment.covered),
        [_one_tree(slice(0, len(sentence.words)), sentence, alignment.covered, causal=causal)],
    )


def _one_tree(
    words: slice, sentence: Sentence, covered: Bool[Tensor, " word"], *, causal: bool
) -> OneTree:
    return OneTree(
        words,
        sentence,
        covered,
        relations.questions(sentence, covered, causal=causal),
        speech.kinds(sentence, covered),
        len(parsing.gold_arcs(sentence, covered)),
        parsing.branching_hits(sentence, covered),
    )
