"""Does a head find what was talked about before? From each mention to the mentions before it.

A mention stands for itself by its head word. Antecedents are sought in the whole text: in the
sentence, or in all of a document's that were joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.corpus.halves import on_both_halves, untrained_accuracy
from mha_viz.corpus.mentions import entities_by_head
from mha_viz.corpus.trees import Sentence


class Reference(NamedTuple):
    """A mention with an antecedent.

    Args:
        query: number of its head word.
        earlier: the head words of all mentions before it, in order.
        right: whether each of them means the same thing.
    """

    query: int
    earlier: tuple[int, ...]
    right: tuple[bool, ...]


class Asked(NamedTuple):
    """The references of all texts of a batch, as tensors.

    Args:
        text: (reference,), the place of its text in the batch.
        query: (reference,), number of the mention's head word.
        among: (reference, word), the head words of earlier mentions.
        right: (reference, word), those that mean the same.
    """

    text: Int[Tensor, " reference"]
    query: Int[Tensor, " reference"]
    among: Bool[Tensor, "reference word"]
    right: Bool[Tensor, "reference word"]


def references(sentence: Sentence, covered: Bool[Tensor, " word"]) -> list[Reference]:
    """The mentions that have an antecedent, by their head words.

    Args:
        sentence: with its mentions.
        covered: which words the model has read.
    """
    entities = entities_by_head(mention for mention in sentence.mentions if covered[mention.head])
    found = []
    for query, means in entities.items():
        earlier = tuple(sorted(head for head in entities if head < query))
        right = tuple(bool(means & entities[head]) for head in earlier)
        if any(right):
            found.append(Reference(query, earlier, right))
    return found


def as_tensors(asked: Sequence[tuple[int, Reference]], n_words: int) -> Asked:
    """References to be looked for together.

    Args:
        asked: each with the place of its text in the batch.
        n_words: of the longest text.
    """
    among, right = torch.zeros(2, len(asked), n_words, dtype=torch.bool)
    for row, (_, one) in enumerate(asked):
        among[row, list(one.earlier)] = True
        right[row, list(one.earlier)] = torch.tensor(one.right)
    places = [(text, one.query) for text, one in asked]
    text, query = torch.tensor(places, dtype=torch.long).reshape(-1, 2).T
    return Asked(text, query, among, right)


def reference_hits(
    asked: Asked, words: Float[Tensor, "text head word word"]
) -> Bool[Tensor, "reference head"]:
    """Whether the earlier mention with the most weight is an antecedent; not where two share it.

    Args:
        asked: the references.
        words: the weights between the words of each text.
    """
    weights = words[asked.text, :, asked.query].masked_fill(~asked.among[:, None], -1.0)
    most, place = weights.max(-1)
    alone = ((weights == most[..., None]).sum(-1) == 1) & (most > 0)
    return asked.right.gather(1, place) & alone


def nearest_hit(asked: Reference) -> bool:
    """Whether the nearest earlier mention is an antecedent.

    Args:
        asked: a mention.
    """
    return asked.right[-1]


def same_word_hit(asked: Reference, sentence: Sentence) -> bool:
    """Whether the nearest earlier mention with the same head word is; not where there is none.

    Args:
        asked: a mention.
        sentence: that it stands in.
    """
    own = sentence.words[asked.query].form.casefold()
    alike = [
        right
        for head, right in zip(asked.earlier, asked.right, strict=True)
        if sentence.words[head].form.casefold() == own
    ]
    return bool(alike) and alike[-1]


def coreference_scores(counts: pd.DataFrame, untrained: pd.DataFrame | None = None) -> pd.DataFrame:
    """How well every head finds antecedents, on the half where none was chosen.

    Args:
        counts: half, layer, head, n, hits, nearest_hits, same_word_hits.
        untrained: as `counts`, of the same model with random weights.

    Returns:
        A row per layer and head: n, accuracy, low and high (Wilson's 95 % interval) on the half
        that reports, beside `nearest_baseline`, `same_word_baseline` and `random_baseline` (the
        same head of the untrained model) there; `chosen_on`, the accuracy on the half that chooses;
        and `chosen`, whether that is the highest of all heads.
    """
    where = ["layer", "head"]
    found = on_both_halves(counts, where)
    for name in ("nearest", "same_word"):
        theirs = on_both_halves(counts.assign(hits=counts[f"{name}_hits"]), where)
        found[f"{name}_baseline"] = theirs["accuracy"]
    found = found.reset_index()
    found["random_baseline"] = untrained_accuracy(found, untrained, where)
    found["chosen"] = found.index == (found["chosen_on"].idxmax() if len(found) else -1)
    order = [*where, "n", "accuracy", "low", "high", "nearest_baseline", "same_word_baseline"]
    return found[[*order, "random_baseline", "chosen_on", "chosen"]]
