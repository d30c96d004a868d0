"""A gold tree beside one head: which of its arcs does the head follow?"""

from __future__ import annotations

from typing import NamedTuple

from mha_viz.core.strongest import strongest_other
from mha_viz.corpus.alignment import align_words
from mha_viz.corpus.relations import Followed, followed_arcs
from mha_viz.corpus.trees import Sentence
from mha_viz.engine.model import AttentionModel


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


def followed(model: AttentionModel, sentence: Sentence, layer: int, head: int) -> FollowedTree:
    """Run a sentence and hold one head against its tree.

    Special tokens and the word itself do not compete, as in the table of relations.

    Args:
        model: whose head it is; of an encoder-decoder the encoder's.
        sentence: with its tree, as `Study.sentence` gives it.
        layer: from 0.
        head: from 0.

    >>> import mha_viz as mv
    >>> from mha_viz.corpus.trees import read_conllu, sample_lines
    >>> sentence = next(read_conllu(sample_lines())).sentence
    >>> tree = followed(mv.load("tiny-bert"), sentence, 0, 0)
    >>> len(tree.arcs) == len(sentence.words) - 1
    True
    """
    record = model.trace(sentence.text, keep=("pattern",))
    words = align_words(record.tokens, sentence).between_words(record.head(layer, head)[None])[0]
    looked = strongest_other(words[None])[0].tolist()
    looks = [
        Look(query, key, float(words[query, key])) for query, key in enumerate(looked) if key >= 0
    ]
    return FollowedTree(followed_arcs(sentence, words), looks)
