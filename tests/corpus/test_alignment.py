"""Weights between words against sums and means over their tokens, written out."""

import pytest
import torch

import mha_viz as mv
from mha_viz.core.record.fields import Token
from mha_viz.corpus.treebank.alignment import align_words
from mha_viz.corpus.treebank.trees import Sentence, Word
from tests.making.comparing import close
from tests.making.trees import sample, tree


def word(form: str, start: int, end: int) -> Word:
    return Word(form, form, "X", -1, "dep", start, end)


def test_weight_to_a_word_is_summed_and_from_a_word_averaged():
    sentence = tree("walking/VERB/0/root home/ADV/1/advmod")
    tokens = [
        Token("[CLS]", 0, is_special=True),
        Token("walk", 1, 0, 4),
        Token("##ing", 2, 4, 7),
        Token("home", 3, 8, 12),
        Token("[SEP]", 4, is_special=True),
    ]
    pattern = torch.rand(2, 3, 5, 5).softmax(-1)
    words = align_words(tokens, sentence).between_words(pattern)
    to_home = pattern[:, :, 1:3, 3].mean(-1)
    to_walking = pattern[:, :, 3, 1] + pattern[:, :, 3, 2]
    close(words[:, :, 0, 1], to_home)
    close(words[:, :, 1, 0], to_walking)


def test_a_token_of_two_words_is_shared_and_adds_up():
    sentence = Sentence("dont", (word("do", 0, 2), word("nt", 2, 4)))
    shares = align_words([Token("don", 1, 0, 3), Token("t", 2, 3, 4)], sentence).shares
    close(shares, torch.tensor([[2 / 3, 0.0], [1 / 3, 1.0]]))


def test_words_that_are_one_token_share_it_evenly():
    sentence = Sentence("du", (word("de", 0, 2), word("le", 0, 2)))
    assert align_words([Token("du", 1, 0, 2)], sentence).shares.tolist() == [[0.5], [0.5]]


def test_a_word_that_was_cut_off_has_no_weight():
    sentence = tree("one/NUM/0/root two/NUM/1/dep")
    alignment = align_words([Token("one", 1, 0, 3)], sentence)
    assert alignment.covered.tolist() == [True, False]
    assert alignment.between_words(torch.ones(1, 1, 1)).tolist() == [[[1.0, 0.0], [0.0, 0.0]]]


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2"])
def test_every_word_of_the_sample_is_covered_and_no_weight_is_lost(name):
    model = mv.load(name)
    for sentence in sample()[::12]:
        tokens = model.trace(sentence.text, keep=("pattern",)).tokens
        alignment = align_words(tokens, sentence)
        assert alignment.covered.all()
        special = torch.tensor([token.is_special for token in tokens])
        close(alignment.shares.sum(0), (~special).float())
