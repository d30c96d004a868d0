"""Spanning trees against scipy's, and UUAS of patterns whose trees are known."""

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import minimum_spanning_tree

from mha_viz.corpus.parsing import arc_hits, branching_hits, gold_arcs, spanning_trees, tree_words
from mha_viz.corpus.trees import ROOT
from tests.making.trees import sample, tree

CAT = tree("The/DET/3/det old/ADJ/3/amod cat/NOUN/4/nsubj slept/VERB/0/root ././4/punct")
EACH = sample()[::15]


def covered(sentence):
    return torch.ones(len(sentence.words), dtype=torch.bool)


@pytest.mark.parametrize("n", [2, 3, 7, 12])
def test_spanning_trees_are_scipys(n):
    words = np.random.default_rng(n).random((2, 3, n, n))
    found = spanning_trees(words)
    assert found.shape == (2, 3, n - 1, 2)
    for layer in range(2):
        for head in range(3):
            both = words[layer, head] + words[layer, head].T
            expected = minimum_spanning_tree(np.triu(10 - both, 1)).tocoo()
            pairs = set(zip(expected.row.tolist(), expected.col.tolist(), strict=True))
            assert {tuple(sorted(arc)) for arc in found[layer, head].tolist()} == pairs


def test_equal_weights_give_a_tree_all_the_same():
    arcs = spanning_trees(np.zeros((1, 4, 4)))[0]
    assert len(arcs) == 3 and set(arcs.ravel().tolist()) == {0, 1, 2, 3}


def test_arcs_leave_punctuation_and_the_root_out():
    assert tree_words(CAT, covered(CAT)) == [0, 1, 2, 3]
    assert gold_arcs(CAT, covered(CAT)) == [(0, 2), (1, 2), (2, 3)]
    assert branching_hits(CAT, covered(CAT)) == 2
    assert gold_arcs(CAT, torch.tensor([True, False, True, True, True])) == [(0, 2), (2, 3)]


@pytest.mark.parametrize("sentence", EACH)
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_head_that_follows_the_tree_has_all_arcs(sentence, way):
    n = len(sentence.words)
    words = torch.full((1, 1, n, n), 0.01)
    for i, word in enumerate(sentence.words):
        if word.head != ROOT:
            words[0, 0, i, word.head] = 0.8
    words = words if way == "up" else words.mT
    assert arc_hits(words, sentence, covered(sentence)).item() == len(
        gold_arcs(sentence, covered(sentence))
    )


@pytest.mark.parametrize("sentence", EACH)
def test_a_head_that_looks_at_the_word_before_is_the_branching_baseline(sentence):
    """Among the words of the tree, for punctuation in between has no arc."""
    kept = tree_words(sentence, covered(sentence))
    n = len(sentence.words)
    words = torch.zeros(1, n, n)
    words[0, kept[1:], kept[:-1]] = 1.0
    assert arc_hits(words, sentence, covered(sentence)).item() == branching_hits(
        sentence, covered(sentence)
    )
