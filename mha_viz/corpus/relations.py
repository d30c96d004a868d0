"""Does a head find the word that a relation asks for? Counts, and the head chosen fairly.

A head is chosen for a relation on one half of the sentences and reported on the other, so that the
best of hundreds of heads is not mistaken for a finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.strongest import strongest_other
from mha_viz.corpus.halves import on_both_halves, untrained_accuracy
from mha_viz.corpus.trees import PUNCTUATION, ROOT, Sentence

TO_HEAD, TO_DEPENDENT = "to_head", "to_dependent"
ALL = "all"  # relations but punctuation, as one
LEAST_ASKED = 20  # words, for an accuracy to say anything
FARTHEST = 10  # words, of a fixed offset
OFFSETS = tuple(step for step in range(-FARTHEST, FARTHEST + 1) if step)
KEYS = ["relation", "direction"]


class Question(NamedTuple):
    """Which word is this one's head, or its dependent?

    Args:
        relation: with its subtype ("nsubj:pass"), or `ALL`.
        direction: `TO_HEAD` or `TO_DEPENDENT`.
        query: number of the word that looks.
        keys: numbers of the words that are right; a head may have several such dependents.
    """

    relation: str
    direction: str
    query: int
    keys: tuple[int, ...]


class Asked(NamedTuple):
    """The questions about all trees of a batch, as tensors.

    Args:
        tree: (question,), which tree it is about.
        query: (question,), number of the word that looks.
        right: (question, 1 + word), whether no word is right, which is never, and which words are.
    """

    tree: Int[Tensor, " question"]
    query: Int[Tensor, " question"]
    right: Bool[Tensor, "question _"]


class Followed(NamedTuple):
    """An arc of the gold tree, and whether one head's strongest weights run along it.

    Args:
        dependent, head: numbers of its two words.
        relation: its name.
        to_head: the dependent looks at its head the most.
        to_dependent: the head looks at this dependent the most.
    """

    dependent: int
    head: int
    relation: str
    to_head: bool
    to_dependent: bool


def questions(
    sentence: Sentence, covered: Bool[Tensor, " word"], *, causal: bool
) -> list[Question]:
    """What a tree asks of a head, in both directions of each relation.

    A question counts where the word that looks can see one that is right and could be wrong: two
    other words at least. A causal model's word sees only what stands before it.

    Args:
        sentence: with its tree.
        covered: which words the model has read.
        causal: the model sees nothing that comes later.
    """
    asked: dict[tuple[str, str, int], list[int]] = {}
    there = covered.tolist()
    for number, word in enumerate(sentence.words):
        if word.head == ROOT or not (there[number] and there[word.head]):
            continue
        names = [word.deprel] if word.deprel == PUNCTUATION else [word.deprel, ALL]
        for name in names:
            asked.setdefault((name, TO_HEAD, number), []).append(word.head)
            asked.setdefault((name, TO_DEPENDENT, word.head), []).append(number)
    n_there = sum(there)
    found = []
    for (name, direction, query), keys in asked.items():
        seen = [key for key in keys if not causal or key < query]
        n_others = sum(there[:query]) if causal else n_there - 1
        if seen and n_others > 1:
            found.append(Question(name, direction, query, tuple(seen)))
    return found


def as_tensors(asked: Sequence[tuple[int, Question]], n_words: int) -> Asked:
    """Questions to be answered together.

    Args:
        asked: each with the number of its tree.
        n_words: of the longest tree.
    """
    right = torch.zeros(len(asked), 1 + n_words, dtype=torch.bool)
    marked = [(row, 1 + key) for row, (_, question) in enumerate(asked) for key in question.keys]
    right[tuple(torch.tensor(marked, dtype=torch.long).reshape(-1, 2).T)] = True
    places = [(tree, question.query) for tree, question in asked]
    tree, query = torch.tensor(places, dtype=torch.long).reshape(-1, 2).T
    return Asked(tree, query, right)


def answers(
    asked: Asked, words: Float[Tensor, "tree head word word"]
) -> Bool[Tensor, "question head"]:
    """Whether the word looked at the most is right; not where two words share the most weight.

    Args:
        asked: the questions.
        words: the weights between the words of each tree; zeros where it has fewer.
    """
    looked = strongest_other(words)[asked.tree, :, asked.query]
    return asked.right.gather(1, looked + 1)


def step_answers(asked: Sequence[Question]) -> NDArray[np.bool_]:
    """Whether each of `OFFSETS` leads from the word that looks to one that is right.

    Args:
        asked: questions about one sentence.

    >>> step_answers([Question("det", TO_HEAD, 0, (2,))])[0].nonzero()[0], OFFSETS[11]
    (array([11]), 2)
    """
    steps = np.zeros((len(asked), len(OFFSETS)), dtype=bool)
    for row, question in enumerate(asked):
        steps[row] = [question.query + step in question.keys for step in OFFSETS]
    return steps


def followed_arcs(sentence: Sentence, words: Float[Tensor, "word word"]) -> list[Followed]:
    """Every arc of a gold tree, and whether one head follows it.

    Args:
        sentence: with its tree.
        words: the head's weights between words.
    """
    looked = strongest_other(words[None])[0].tolist()
    return [
        Followed(i, w.head, w.deprel, looked[i] == w.head, looked[w.head] == i)
        for i, w in enumerate(sentence.words)
        if w.head != ROOT
    ]


def relation_scores(
    counts: pd.DataFrame, offsets: pd.DataFrame, untrained: pd.DataFrame | None = None
) -> pd.DataFrame:
    """How well every head finds every relation's word, on the half where none was chosen.

    Args:
        counts: half, relation, direction, layer, head, n, hits.
        offsets: half, relation, direction, offset, n, hits.
        untrained: as `counts`, of the same model with random weights.

    Returns:
        A row per relation, direction, layer and head that both halves ask for, by relation: n,
        accuracy, low and high (Wilson's 95 % interval) on the half that reports; `offset`, the step
        that finds the most on the half that chooses, and `offset_baseline`, the share that it finds
        on the other; `random_baseline`, the share that the head at the same place of the untrained
        model finds there (NaN without one); `chosen_on`, the accuracy on the half that chooses; and
        `chosen`, whether that is the highest of all heads, the first one's of several.
    """
    where = [*KEYS, "layer", "head"]
    heads = on_both_halves(counts, where).reset_index()
    steps = on_both_halves(offsets, [*KEYS, "offset"])
    best = (
        steps.groupby(level=KEYS)["chosen_on"].idxmax() if len(steps) else pd.Series(dtype=object)
    )
    of_best = steps.loc[best].reset_index()[[*KEYS, "offset", "accuracy"]]
    found = heads.merge(
        of_best.rename(columns={"accuracy": "offset_baseline"}), how="left", on=KEYS
    )
    found["random_baseline"] = untrained_accuracy(found, untrained, where)
    winners = found.groupby(KEYS)["chosen_on"].idxmax()
    found["chosen"] = found.index.isin(winners)
    order = [*where, "n", "accuracy", "low", "high", "offset", "offset_baseline"]
    return found[[*order, "random_baseline", "chosen_on", "chosen"]]
