"""A tree beside one head: what a plain loop over its words finds."""

import pytest

from mha_viz.corpus.treebank.relations import head_vs_tree
from mha_viz.errors import ArgumentError
from tests.making.trees import plain_words, sample


@pytest.mark.parametrize("number", [3, 40, 111])
def test_a_tree_s_arcs_are_followed_where_the_strongest_other_word_is_right(bert, number):
    sentence = sample()[number]
    record = bert.trace(sentence.text, keep=("pattern",))
    words = plain_words(record.pattern[1, 0].numpy(), record.tokens, sentence)
    strongest = {}
    for query, row in enumerate(words):
        others = [(weight, key) for key, weight in enumerate(row) if key != query]
        strongest[query] = max(others)[1]
    found = head_vs_tree(record, sentence, 1, 0)
    assert {look.query: look.key for look in found.looks} == strongest
    for look in found.looks:
        assert look.weight == pytest.approx(words[look.query, look.key], rel=1e-4)
    assert [(arc.dependent, arc.head, arc.relation) for arc in found.arcs] == [
        (i, word.head, word.deprel) for i, word in enumerate(sentence.words) if word.head >= 0
    ]
    for arc in found.arcs:
        assert arc.to_head == (strongest[arc.dependent] == arc.head)
        assert arc.to_dependent == (strongest[arc.head] == arc.dependent)


def test_another_text_or_a_head_that_is_not_there_is_refused(bert):
    first, second = sample()[:2]
    record = bert.trace(first.text)
    for given, sentence, layer in (
        (record, second, 0),
        (record.merge_words(), first, 0),
        (record, first, 9),
    ):
        with pytest.raises(ArgumentError):
            head_vs_tree(given, sentence, layer, 0)
