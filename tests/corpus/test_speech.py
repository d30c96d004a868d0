"""From part of speech to part of speech, against sums written out."""

import pytest
import torch

from mha_viz.corpus.treebank.parts_of_speech import PARTS, expected_by_kind, kinds, weight_by_kind
from tests.making.trees import tree

SENTENCE = tree("The/DET/2/det cat/NOUN/3/nsubj saw/VERB/0/root the/DET/5/det fog/NOUN/3/obj")
KIND = torch.from_numpy(kinds(SENTENCE, torch.ones(5, dtype=torch.bool)))
DET, NOUN, VERB = (PARTS.index(name) for name in ("DET", "NOUN", "VERB"))


def test_unknown_parts_of_speech_are_x_and_unread_words_are_none():
    sentence = tree("a/QUX/0/root b/NOUN/1/dep")
    found = kinds(sentence, torch.tensor([True, False]))
    assert found[0].argmax() == PARTS.index("X") and found.sum() == 1


def test_weights_are_summed_by_kind():
    words = torch.rand(2, 3, 5, 5, dtype=torch.float64)
    found = weight_by_kind(words, KIND)
    assert found[..., NOUN, DET] == pytest.approx(words[..., [1, 1, 4, 4], [0, 3, 0, 3]].sum(-1))
    assert found.sum((-1, -2)) == pytest.approx(words.sum((-1, -2)))


@pytest.mark.parametrize("causal", [False, True])
def test_even_attention_is_what_is_expected(causal):
    even = torch.ones(1, 5, 5) / 5
    if causal:
        even = torch.ones(1, 5, 5).tril() / torch.arange(1, 6)[:, None]
    even = 0.7 * even  # the rest went to special tokens
    found = expected_by_kind(even, KIND, causal=causal)
    assert found == pytest.approx(weight_by_kind(even, KIND))


def test_each_row_of_what_is_expected_has_the_weight_that_there_is():
    words = torch.rand(2, 5, 5, dtype=torch.float64)
    found = expected_by_kind(words, KIND, causal=False)
    assert found.sum(-1) == pytest.approx(weight_by_kind(words, KIND).sum(-1))
    assert found[:, VERB, NOUN] == pytest.approx(words[:, 2].sum(-1) * 2 / 5)
