"""Trees out of a head's weights: how many arcs of the gold tree are in the spanning tree?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.corpus.halves import on_both_halves, untrained_accuracy
from mha_viz.corpus.trees import PUNCTUATION, ROOT, Sentence


def gold_arcs(sentence: Sentence, covered: Bool[Tensor, " word"]) -> list[tuple[int, int]]:
    """The pairs of words that an arc joins, whatever its direction; punctuation has none.

    Args:
        sentence: with its tree.
        covered: which words the model has read.
    """
    kept = set(tree_words(sentence, covered))
    return [(i, w.head) for i, w in enumerate(sentence.words) if i in kept and w.head in kept]


def tree_words(sentence: Sentence, covered: Bool[Tensor, " word"]) -> list[int]:
    """The words that a tree is made of: not punctuation, nor what the model has not read.

    Args:
        sentence: with its tree.
        covered: which words the model has read.
    """
    there = covered.tolist()
    words = enumerate(sentence.words)
    return [i for i, w in words if there[i] and (w.deprel != PUNCTUATION or w.head == ROOT)]


def spanning_trees(
    words: Float[NDArray[np.floating], "*layers head word word"],
) -> NDArray[np.int64]:
    """The maximum spanning tree of every head's weights, both directions of a pair added.

    Prim's algorithm, for all heads at once. Of equal weights the earlier word's is taken.

    Args:
        words: weights between the words of the tree.

    Returns:
        (..., head, arc, 2): the two words of each arc; one arc fewer than words.

    Source: Prim 1957; for attention, Htut et al. 2019, who take directed trees with a given root.

    >>> spanning_trees(np.array([[[0, 0.9, 0.1], [0, 0, 0.2], [0, 0, 0]]])).tolist()
    [[[0, 1], [1, 2]]]
    """
    n, lead = words.shape[-1], words.shape[:-2]
    both = (words + np.swapaxes(words, -1, -2)).reshape(-1, n, n)
    heads = np.arange(len(both))
    best = both[:, 0].astype(float)  # weight of each word's best arc into the tree
    into = np.zeros((len(both), n), dtype=np.int64)
    best[:, 0] = -np.inf  # is in the tree
    arcs = np.zeros((len(both), max(n - 1, 0), 2), dtype=np.int64)
    for step in range(n - 1):
        new = best.argmax(-1)
        arcs[:, step, 0], arcs[:, step, 1] = into[heads, new], new
        better = (both[heads, new] > best) & np.isfinite(best)
        into[better] = np.broadcast_to(new[:, None], into.shape)[better]
        best = np.where(better, both[heads, new], best)
        best[heads, new] = -np.inf
    return arcs.reshape(*lead, max(n - 1, 0), 2)


def arc_hits(
    words: Float[Tensor, "*layers head word word"],
    sentence: Sentence,
    covered: Bool[Tensor, " word"],
) -> NDArray[np.int64]:
    """How many gold arcs are in the spanning tree of each head's weights.

    UUAS, the unlabelled undirected attachment score, is this over `len(gold_arcs(...))`.

    Args:
        words: weights between all words of the sentence.
        sentence: with its tree.
        covered: which words the model has read.

    Returns:
        (..., head), counts.
    """
    kept = tree_words(sentence, covered)
    arcs = spanning_trees(words[..., kept, :][..., kept].cpu().numpy())
    gold = np.zeros((len(kept), len(kept)), dtype=bool)
    places = {word: i for i, word in enumerate(kept)}
    for dependent, head in gold_arcs(sentence, covered):
        i, j = places[dependent], places[head]
        gold[i, j] = gold[j, i] = True
    return gold[arcs[..., 0], arcs[..., 1]].sum(-1)


def branching_hits(sentence: Sentence, covered: Bool[Tensor, " word"]) -> int:
    """How many gold arcs join neighbours: what a tree finds that knows only the order of words.

    The right-branching tree hangs every word from the one before it, the left-branching one from
    the one after it. Without directions both are this same chain.

    Args:
        sentence: with its tree.
        covered: which words the model has read.
    """
    places = {word: i for i, word in enumerate(tree_words(sentence, covered))}
    return sum(abs(places[i] - places[j]) == 1 for i, j in gold_arcs(sentence, covered))


def tree_scores(counts: pd.DataFrame, untrained: pd.DataFrame | None = None) -> pd.DataFrame:
    """How much of the gold trees is in every head's, on the half where no head was chosen.

    Args:
        counts: half, layer, head, n_arcs, hits, branching_hits.
        untrained: as `counts`, of the same model with random weights.

    Returns:
        A row per layer and head: n_arcs, uuas, low and high (Wilson's 95 % interval, each arc a
        draw of its own) on the half that reports, beside `branching_baseline`, the share of right-
        and of left-branching trees, and `random_baseline` (the same head of the untrained model)
        there; `chosen_on`, the UUAS on the half that chooses; and `chosen`, whether that is the
        highest of all heads.
    """
    where = ["layer", "head"]
    renamed = counts.rename(columns={"n_arcs": "n"})
    found = on_both_halves(renamed, where)
    chain = on_both_halves(renamed.assign(hits=renamed["branching_hits"]), where)
    found["branching_baseline"] = chain["accuracy"]
    found = found.reset_index()
    theirs = None if untrained is None else untrained.rename(columns={"n_arcs": "n"})
    found["random_baseline"] = untrained_accuracy(found, theirs, where)
    found["chosen"] = found.index == (found["chosen_on"].idxmax() if len(found) else -1)
    found = found.rename(columns={"n": "n_arcs", "accuracy": "uuas"})
    order = [*where, "n_arcs", "uuas", "low", "high", "branching_baseline", "random_baseline"]
    return found[[*order, "chosen_on", "chosen"]]
