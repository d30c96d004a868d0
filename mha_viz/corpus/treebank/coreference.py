"""Coreference: how often a head attends from a mention to an earlier one of the same entity.

A mention stands for itself by its head word. Antecedents are sought in the whole text: in the
sentence, or in all of a document's that were joined.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.corpus.treebank.mentions import entities_by_head
from mha_viz.corpus.treebank.split_half import head_scores
from mha_viz.corpus.treebank.trees import Sentence


class Reference(NamedTuple):
    """A mention with an antecedent."""

    query: int  # number of its head word
    earlier: tuple[int, ...]  # the head words of all mentions before it, in order
    right: tuple[bool, ...]  # whether each of them means the same thing


class ReferenceTensors(NamedTuple):
    """The references of all texts of a batch, as tensors."""

    text: Int[Tensor, " reference"]  # the place of its text in the batch
    query: Int[Tensor, " reference"]  # number of the mention's head word
    among: Bool[Tensor, "reference word"]  # the head words of earlier mentions
    right: Bool[Tensor, "reference word"]  # those that mean the same


def references(sentence: Sentence, covered: Bool[Tensor, " word"]) -> list[Reference]:
    """List the mentions that have an antecedent, by their head words."""
    entities = entities_by_head(mention for mention in sentence.mentions if covered[mention.head])
    with_antecedent = []
    for query, means in entities.items():
        earlier = tuple(sorted(head for head in entities if head < query))
        right = tuple(bool(means & entities[head]) for head in earlier)
        if any(right):
            with_antecedent.append(Reference(query, earlier, right))
    return with_antecedent


def as_tensors(targets: Sequence[tuple[int, Reference]], n_words: int) -> ReferenceTensors:
    """Lay out references, each with the place of its text in the batch, as tensors."""
    among, right = torch.zeros(2, len(targets), n_words, dtype=torch.bool)
    for row, (_, reference) in enumerate(targets):
        among[row, list(reference.earlier)] = True
        right[row, list(reference.earlier)] = torch.tensor(reference.right)
    queries = [(text, reference.query) for text, reference in targets]
    text, query = torch.tensor(queries, dtype=torch.long).reshape(-1, 2).T
    return ReferenceTensors(text, query, among, right)


def reference_hits(
    targets: ReferenceTensors, words: Float[Tensor, "text head word word"]
) -> Bool[Tensor, "reference head"]:
    """Tell whether the earlier mention with the most weight is an antecedent; a tie is none."""
    weights = words[targets.text, :, targets.query].masked_fill(~targets.among[:, None], -1.0)
    most, key = weights.max(-1)
    alone = ((weights == most[..., None]).sum(-1) == 1) & (most > 0)
    return targets.right.gather(1, key) & alone


def nearest_hit(target: Reference) -> bool:
    """Tell whether the nearest earlier mention is an antecedent."""
    return target.right[-1]


def same_word_hit(target: Reference, sentence: Sentence) -> bool:
    """Tell whether the nearest earlier mention with the same head word is an antecedent."""
    form = sentence.words[target.query].form.casefold()
    same_word = [
        right
        for head, right in zip(target.earlier, target.right, strict=True)
        if sentence.words[head].form.casefold() == form
    ]
    return bool(same_word) and same_word[-1]


def coreference_scores(counts: pd.DataFrame, untrained: pd.DataFrame | None = None) -> pd.DataFrame:
    """Compute how well every head finds antecedents, on the half where none was chosen.

    `counts` has half, layer, head, n, hits, nearest_hits, same_word_hits, and so has `untrained`.
    Returns the columns of `head_scores`, with `nearest_baseline` and `same_word_baseline`.
    """
    hits = {f"{name}_baseline": f"{name}_hits" for name in ("nearest", "same_word")}
    return head_scores(counts, untrained, hits)
