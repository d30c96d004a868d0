"""Parsing by a head's weights: the gold tree's arcs in the spanning tree."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.corpus.treebank.split_half import head_scores
from mha_viz.corpus.treebank.trees import PUNCTUATION, ROOT, Sentence


def gold_arcs(sentence: Sentence, covered: Bool[Tensor, " word"]) -> list[tuple[int, int]]:
    """List the pairs of words that an arc joins, whatever its direction; punctuation has none."""
    in_tree = set(tree_words(sentence, covered))
    return [(i, w.head) for i, w in enumerate(sentence.words) if i in in_tree and w.head in in_tree]


def tree_words(sentence: Sentence, covered: Bool[Tensor, " word"]) -> list[int]:
    """List the words of a tree: not punctuation, nor what the model has not read."""
    is_read = covered.tolist()
    words = enumerate(sentence.words)
    return [i for i, w in words if is_read[i] and (w.deprel != PUNCTUATION or w.head == ROOT)]


class Gold(NamedTuple):
    """The gold trees of a batch, as tensors; their words are those of `tree_words`."""

    # (tree, word), their numbers in the sentence; -1 where a tree has fewer.
    words: Int[Tensor, "tree word"]
    # (tree, word, word), whether an arc joins two of them, whatever its direction.
    arcs: Bool[Tensor, "tree word word"]


def as_tensors(trees: Sequence[tuple[Sentence, Bool[Tensor, " _"]]]) -> Gold:
    """Lay out trees, each with the words that the model has read, as tensors."""
    word_lists = [tree_words(sentence, covered) for sentence, covered in trees]
    longest = max(1, *map(len, word_lists))
    words = torch.full((len(trees), longest), -1)
    arcs = torch.zeros(len(trees), longest, longest, dtype=torch.bool)
    for number, (sentence, covered) in enumerate(trees):
        listed = torch.tensor(word_lists[number], dtype=torch.long)
        words[number, : len(listed)] = listed
        positions = {word: i for i, word in enumerate(word_lists[number])}
        for dependent, head in gold_arcs(sentence, covered):
            i, j = positions[dependent], positions[head]
            arcs[number, i, j] = arcs[number, j, i] = True
    return Gold(words, arcs)


def spanning_trees(
    words: Float[Tensor, "tree head word word"], n_words: Int[Tensor, " tree"]
) -> Int[Tensor, "tree head arc 2"]:
    """Find the maximum spanning tree of every head's weights, both directions of a pair added.

    Prim's algorithm, for all heads and sentences at once, with nothing that waits for the device.
    Of equal weights the earlier word's is taken. Returns (tree, head, arc, 2): the two words of
    each arc; one arc fewer than words, and from the first word to itself where a tree has fewer.

    Source: Prim 1957; for attention, Htut et al. 2019, who take directed trees with a given root.

    >>> weights = torch.tensor([[[[0, 0.9, 0.1], [0, 0, 0.2], [0, 0, 0]]]])
    >>> spanning_trees(weights, torch.tensor([3])).tolist()
    [[[[0, 1], [1, 2]]]]
    """
    n = words.shape[-1]
    both = words + words.mT
    beyond = torch.arange(n, device=words.device) >= n_words[:, None, None]
    best = both[:, :, 0].masked_fill(beyond, -torch.inf)  # each word's best arc into the tree
    best[..., 0] = -torch.inf  # is in the tree
    into = torch.zeros_like(best, dtype=torch.long)
    arcs = into.new_zeros(*into.shape[:2], n - 1, 2)
    for step in range(n - 1):
        new = best.argmax(-1, keepdim=True)
        arcs[:, :, step] = torch.cat([into.gather(-1, new), new], -1)
        from_new = both.gather(2, new[..., None].expand(-1, -1, 1, n))[:, :, 0]
        better = (from_new > best) & best.isfinite()
        into = torch.where(better, new, into)
        best = torch.where(better, from_new, best).scatter(-1, new, -torch.inf)
    return arcs


def arc_hits(words: Float[Tensor, "tree head word word"], gold: Gold) -> Int[Tensor, "tree head"]:
    """Count the gold arcs in the spanning tree of each head's weights.

    UUAS, the unlabelled undirected attachment score, is this over `len(gold_arcs(...))`.
    """
    first, second = spanning_trees(words, (gold.words >= 0).sum(-1)).unbind(-1)
    number = torch.arange(len(words), device=words.device)[:, None, None]
    return gold.arcs[number, first, second].sum(-1)


def branching_hits(sentence: Sentence, covered: Bool[Tensor, " word"]) -> int:
    """Count the gold arcs that join neighbours: those of a tree that knows only the order of words.

    The right-branching tree hangs every word from the one before it, the left-branching one from
    the one after it. Without directions both are this same chain.
    """
    positions = {word: i for i, word in enumerate(tree_words(sentence, covered))}
    return sum(abs(positions[i] - positions[j]) == 1 for i, j in gold_arcs(sentence, covered))


def tree_scores(counts: pd.DataFrame, untrained: pd.DataFrame | None = None) -> pd.DataFrame:
    """Compute how much of the gold trees every head finds, on the half where none was chosen.

    `counts` has half, layer, head, n_arcs, hits, branching_hits, and so has `untrained`. Returns
    the columns of `head_scores`, n_arcs and uuas among them, with `branching_baseline`, the share
    of right- and of left-branching trees.
    """
    counted = counts.rename(columns={"n_arcs": "n"})
    theirs = None if untrained is None else untrained.rename(columns={"n_arcs": "n"})
    scores = head_scores(counted, theirs, {"branching_baseline": "branching_hits"})
    return scores.rename(columns={"n": "n_arcs", "accuracy": "uuas"})
