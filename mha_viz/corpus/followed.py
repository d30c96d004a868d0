"""A gold tree beside one head: which of its arcs does the head follow?"""

from __future__ import annotations

from typing import NamedTuple

from mha_viz.core.record import AttentionRecord
from mha_viz.core.strongest import strongest_other
from mha_viz.corpus.alignment import align_words
from mha_viz.corpus.relations import Followed, followed_arcs
from mha_viz.corpus.trees import Sentence
from mha_viz.errors import ArgumentError


class Look(NamedTuple):
    """A word and the other one that it looks at the most.

    Args:
        query, key: numbers of the two words.
        weight: summed over the tokens of the key, averaged over those of the query.
    """

    query: int
    key: int
    weight: float


class FollowedTree(NamedTuple):
    """What one head does on a sentence with a tree.

    Args:
        arcs: of the tree, each with whether the head follows it.
        looks: of each word that looks at another more than at all others.
    """

    arcs: list[Followed]
    looks: list[Look]


def followed(record: AttentionRecord, sentence: Sentence, layer: int, head: int) -> FollowedTree:
    """Hold one head against a sentence's tree, or the trees of several that were joined.

    Special tokens, the word itself and words of other sentences do not compete, as in the table of
    relations.

    Args:
        record: of the sentence, as a model left it.
        sentence: with its tree, as `Study.sentence` gives it.
        layer: from 0.
        head: from 0.

    Raises:
        ArgumentError: a record of another text, or of merged words; no such head.

    >>> import mha_viz as mv
    >>> from mha_viz.corpus.trees import read_conllu, sample_lines
    >>> sentence = next(read_conllu(sample_lines())).sentence
    >>> tree = followed(mv.load("tiny-bert").trace(sentence.text), sentence, 0, 0)
    >>> len(tree.arcs) == len(sentence.words) - 1
    True
    """
    if record.text != sentence.text or record.text_pair or record.merged:
        raise ArgumentError(
            f"The record must be of the sentence {sentence.text!r}, as a model left it: trace it."
        )
    words = align_words(record.tokens, sentence).between_words(record.head(layer, head)[None])[0]
    arcs: list[Followed] = []
    looks: list[Look] = []
    for own, part in sentence.parts:
        among, first = words[own, own], own.start
        for arc in followed_arcs(part, among):
            arcs.append(arc._replace(dependent=arc.dependent + first, head=arc.head + first))
        for query, key in enumerate(strongest_other(among[None])[0].tolist()):
            if key >= 0:
                looks.append(Look(query + first, key + first, float(among[query, key])))
    return FollowedTree(arcs, looks)
