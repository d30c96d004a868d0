"""One head against a gold tree: the arcs that the head follows."""

from typing import NamedTuple

from mha_viz.core.metrics.spread import strongest_other
from mha_viz.core.record.record import AttentionRecord
from mha_viz.corpus.treebank.alignment import align_words
from mha_viz.corpus.treebank.relations import ArcMatch, match_arcs
from mha_viz.corpus.treebank.trees import Sentence
from mha_viz.errors import ArgumentError


class Look(NamedTuple):
    """A word and the other one that it attends to most."""

    query: int  # numbers of the two words
    key: int
    weight: float  # summed over the tokens of the key, averaged over those of the query


class HeadVsTree(NamedTuple):
    """The arcs and looks of one head on a sentence with a tree."""

    arcs: list[ArcMatch]  # of the tree, each with whether the head follows it
    looks: list[Look]  # of each word that looks at another more than at all others


def head_vs_tree(record: AttentionRecord, sentence: Sentence, layer: int, head: int) -> HeadVsTree:
    """Compare one head with a sentence's tree, or the trees of several that were joined.

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
    >>> from mha_viz.corpus.treebank.trees import read_conllu, sample_lines
    >>> sentence = next(read_conllu(sample_lines())).sentence
    >>> tree = head_vs_tree(mv.load("tiny-bert").trace(sentence.text), sentence, 0, 0)
    >>> len(tree.arcs) == len(sentence.words) - 1
    True
    """
    if record.text != sentence.text or record.text_pair or record.merged:
        raise ArgumentError(
            f"The record must be of the sentence {sentence.text!r}, as a model left it: trace it."
        )
    words = align_words(record.tokens, sentence).between_words(record.head(layer, head)[None])[0]
    arcs: list[ArcMatch] = []
    looks: list[Look] = []
    for own, part in sentence.parts:
        among, first = words[own, own], own.start
        for arc in match_arcs(part, among):
            arcs.append(arc._replace(dependent=arc.dependent + first, head=arc.head + first))
        for query, key in enumerate(strongest_other(among[None])[0].tolist()):
            if key >= 0:
                looks.append(Look(query + first, key + first, float(among[query, key])))
    return HeadVsTree(arcs, looks)
