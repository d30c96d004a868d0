"""Antecedents: which mentions have one, and who finds it."""

import pandas as pd
import torch

from mha_viz.corpus.treebank.coreference import (
    Reference,
    as_tensors,
    coreference_scores,
    nearest_hit,
    reference_hits,
    references,
    same_word_hit,
)
from tests.making.trees import tree

SHE = tree(
    "Ann/PROPN/2/nsubj/Entity=(e1) told/VERB/0/root Eve/PROPN/2/iobj/Entity=(e2) "
    "she/PRON/5/nsubj/Entity=(e1) slept/VERB/2/ccomp"
)
COVERED = torch.ones(5, dtype=torch.bool)
ASKED = Reference(3, (0, 2), (True, False))


def test_a_mention_is_asked_where_it_has_an_antecedent():
    assert references(SHE, COVERED) == [ASKED]
    assert references(SHE, torch.tensor([False, True, True, True, True])) == []


def test_the_antecedent_must_be_the_mention_with_the_most_weight():
    words = torch.zeros(4, 1, 5, 5)
    words[0, 0, 3] = torch.tensor([0.2, 0.7, 0.1, 0.0, 0.0])  # "told" is no mention
    words[1, 0, 3] = torch.tensor([0.1, 0.0, 0.2, 0.0, 0.0])
    words[2, 0, 3] = torch.tensor([0.2, 0.0, 0.2, 0.0, 0.0])  # a tie; the last looks nowhere
    asked = as_tensors([(text, ASKED) for text in range(4)], 5)
    assert reference_hits(asked, words)[:, 0].tolist() == [True, False, False, False]
    assert reference_hits(as_tensors([], 5), words).shape == (0, 1)


def test_baselines():
    assert not nearest_hit(ASKED) and nearest_hit(ASKED._replace(right=(False, True)))
    assert not same_word_hit(ASKED, SHE)
    again = tree(
        "the/DET/2/det/Entity=(e1 cat/NOUN/3/nsubj/Entity=e1) saw/VERB/0/root "
        "Cat/PROPN/3/obj/Entity=(e2) cat/NOUN/3/obl/Entity=(e1)"
    )
    [asked] = references(again, COVERED)
    assert asked == Reference(4, (1, 3), (True, False))
    assert not same_word_hit(asked, again)  # the nearest of the same word means another one


def test_the_head_is_chosen_on_one_half_and_reported_on_the_other_beside_the_baselines():
    names = ["half", "layer", "head", "n", "hits", "nearest_hits", "same_word_hits"]
    rows = [("choose", 0, 0, 4, 1, 4, 0), ("choose", 0, 1, 4, 3, 4, 0)]
    rows += [("report", 0, 0, 5, 5, 2, 1), ("report", 0, 1, 5, 4, 2, 1)]
    found = coreference_scores(pd.DataFrame(rows, columns=names))
    [best] = found[found.chosen].to_dict("records")
    assert (best["head"], best["n"], best["accuracy"], best["chosen_on"]) == (1, 5, 0.8, 0.75)
    assert (best["nearest_baseline"], best["same_word_baseline"]) == (0.4, 0.2)
    assert coreference_scores(pd.DataFrame(rows[:2], columns=names)).empty
