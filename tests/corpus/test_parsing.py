"""Spanning trees against scipy's, and UUAS of patterns whose trees are known."""

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import minimum_spanning_tree

from mha_viz.corpus.treebank.parsing import (
    arc_hits,
    as_tensors,
    branching_hits,
    gold_arcs,
    spanning_trees,
    tree_words,
)
from tests.making.trees import sample, tree

CAT = tree("The/DET/3/det old/ADJ/3/amod cat/NOUN/4/nsubj slept/VERB/0/root ././4/punct")
EACH = sample()[::15]


def covered(sentence):
    return torch.ones(len(sentence.words), dtype=torch.bool)


@pytest.mark.parametrize("n", [2, 3, 7, 12])
def test_spanning_trees_are_scipys(n):
    words = np.random.default_rng(n).random((2, 3, n, n))
    found = spanning_trees(torch.from_numpy(words), torch.tensor([n, n]))
    assert found.shape == (2, 3, n - 1, 2)
    for place in np.ndindex(2, 3):
        both = words[place] + words[place].T
        expected = minimum_spanning_tree(np.triu(10 - both, 1)).tocoo()
        pairs = set(zip(expected.row.tolist(), expected.col.tolist(), strict=True))
        assert {tuple(sorted(arc)) for arc in found[place].tolist()} == pairs


def test_words_that_fill_a_tree_up_are_in_none():
    words = torch.rand(3, 2, 7, 7)
    together = spanning_trees(words, torch.tensor([7, 4, 1]))
    assert torch.equal(together[:1], spanning_trees(words[:1], torch.tensor([7])))
    alone = spanning_trees(words[1:2, :, :4, :4], torch.tensor([4]))
    assert torch.equal(together[1:2, :, :3], alone)
    assert not together[1, :, 3:].any() and not together[2].any()


def test_equal_weights_give_a_tree_all_the_same():
    arcs = spanning_trees(torch.zeros(1, 1, 4, 4), torch.tensor([4]))[0, 0]
    assert arcs.tolist() == [[0, 1], [0, 2], [0, 3]]


def found_arcs(words, sentence):
    """How many of a sentence's arcs are in the tree of one head's (word, word)."""
    kept = tree_words(sentence, covered(sentence))
    gold = as_tensors([(sentence, covered(sentence))])
    assert gold.words.tolist() == [kept]
    return arc_hits(words[kept][:, kept][None, None], gold).item()


def test_arcs_leave_punctuation_and_the_root_out():
    assert tree_words(CAT, covered(CAT)) == [0, 1, 2, 3]
    assert gold_arcs(CAT, covered(CAT)) == [(0, 2), (1, 2), (2, 3)]
    assert branching_hits(CAT, covered(CAT)) == 2
    assert gold_arcs(CAT, torch.tensor([True, False, True, True, True])) == [(0, 2), (2, 3)]


@pytest.mark.parametrize("sentence", EACH)
def test_a_head_that_looks_at_the_word_before_is_the_branching_baseline(sentence):
    """Among the words of the tree, for punctuation in between has no arc."""
    kept = tree_words(sentence, covered(sentence))
    n = len(sentence.words)
    words = torch.zeros(n, n)
    words[kept[1:], kept[:-1]] = 1.0
    assert found_arcs(words, sentence) == branching_hits(sentence, covered(sentence))
