"""Lab 12: the annotated sentences, the scores by hand, planted heads, and what the models know."""

from collections import Counter

import pytest
import torch

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.fields import Token
from mha_viz.learn.annotated_sentences import (
    Relation,
    annotated,
    relations,
)
from mha_viz.learn.labs.what_heads_learn import numbers as lab
from tests.making.comparing import close

BY_TITLE = {relation.title: relation for relation in relations()}


def relation(*marked: tuple[str, str], kind: str = "syntactic") -> Relation:
    return Relation(kind, "this", "that", tuple(annotated(*one) for one in marked))


def test_relations_have_enough_sentences_with_one_answer_for_each_word():
    assert len(BY_TITLE) == len(relations())
    for asked in relations():
        texts = [sentence.text for sentence in asked.sentences]
        assert len(set(texts)) == len(texts) >= 10
        for sentence in asked.sentences:
            queries = Counter(query for query, _ in sentence.pairs)
            assert sentence.pairs and set(queries.values()) == {1}, sentence
            assert all(query != key for query, key in sentence.pairs), sentence
            assert max(map(max, sentence.pairs)) < len(sentence.words)
        # a step that is always the same leaves nothing to learn, unless it is the relation
        steps = Counter(key - query for s in asked.sentences for query, key in s.pairs)
        share = max(steps.values()) / steps.total()
        assert share == 1 if asked.is_offset else share <= 0.75


def test_weights_between_words_by_hand():
    """[CLS] the walk ##ing cat . in one head; rows and columns of the word's parts are merged."""
    text = "the walking cat."
    tokens = (
        Token("[CLS]", 1, is_special=True),
        Token("the", 2, 0, 3, word=0),
        Token("walk", 3, 4, 8, word=1),
        Token("##ing", 4, 8, 11, word=1),
        Token("cat", 5, 12, 15, word=2),
        Token(".", 6, 15, 16, word=3),
    )
    rows = torch.tensor(
        [
            [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.5, 0.1, 0.1, 0.1, 0.1, 0.1],
            [0.0, 0.2, 0.0, 0.4, 0.4, 0.0],
            [0.2, 0.4, 0.2, 0.0, 0.0, 0.2],
            [0.1, 0.0, 0.3, 0.3, 0.0, 0.3],
            [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    record = AttentionRecord(rows[None, None], tokens, text=text)
    words = lab.word_weights(record)
    expected = [[0.1, 0.2, 0.1], [0.3, 0.3, 0.2], [0.0, 0.6, 0.0]]
    close(words[0, 0], torch.tensor(expected))
    asked = relation((text, "the -> walking; walking -> the; cat -> the"))
    found = lab.collect_attended(asked, {text: words}, causal=False)
    assert found.strongest[:, 0, 0].tolist() == [1, 0, 1]  # "walking" may not look at itself
    assert found.hits[:, 0, 0].tolist() == [1, 1, 0]
    close(found.weight[:, 0, 0], torch.tensor([0.2, 0.3, 0.0]))


def test_a_text_whose_words_are_not_those_of_the_tokens_is_left_out():
    cut = AttentionRecord(torch.ones(1, 1, 1, 1), (Token("the", 2, 0, 3, word=0),), text="the cat")
    assert lab.word_weights(cut) is None
    asked = relation(("the cat sat", "the -> cat"), ("a dog ran off", "dog -> a"))
    weights = {"a dog ran off": torch.full((1, 1, 4, 4), 0.25)}
    assert [pair.sentence for pair in lab.collect_attended(asked, weights, causal=False).pairs] == [
        1
    ]
    assert lab.collect_attended(asked, {}, causal=False) is None


def test_a_causal_model_is_asked_only_where_it_sees_the_word_and_has_a_choice():
    asked = relation(("the cat sat down", "the -> cat; cat -> the; sat -> cat; down -> the"))
    weights = {"the cat sat down": torch.full((1, 1, 4, 4), 0.25).tril()}
    found = lab.collect_attended(asked, weights, causal=True)
    assert [(pair.query, pair.key) for pair in found.pairs] == [(2, 1), (3, 0)]
    assert not found.hits.any()  # the same weight everywhere finds nothing


def planted(asked: Relation) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """A model of three heads (one knows, one goes a step on, one is blind), and a random copy."""
    random = torch.Generator().manual_seed(3)
    mine, theirs = {}, {}
    for sentence in asked.sentences:
        n = len(sentence.words)
        knows = torch.rand(n, n, generator=random) / n
        for query, key in sentence.pairs:
            knows[query, key] = 1.0
        step = torch.eye(n).roll(1, 1)
        mine[sentence.text] = torch.stack([knows, step, torch.zeros(n, n)])[None]
        theirs[sentence.text] = torch.rand(1, 3, n, n, generator=random)
    return mine, theirs


def found_in(asked: Relation) -> lab.Finding:
    mine, theirs = (lab.collect_attended(asked, each, causal=False) for each in planted(asked))
    return lab.score_relation(asked, mine, [theirs])


@pytest.mark.parametrize(
    "title", ["determiner → noun", "left neighbour → right neighbour", "pronoun → antecedent"]
)
def test_a_planted_head_that_knows_is_found_with_certainty(title):
    asked = BY_TITLE[title]
    found = found_in(asked)
    assert found.score[0, 0] == 1 and found.score[0, 2] == 0
    assert found.verdict == lab.FOUND and (0, 0) in found.winners and found.best == (0, 0)
    steps = Counter(pair.key - pair.query for pair in found.attended.pairs)
    assert found.offset_score == pytest.approx(steps[found.offset] / steps.total())
    assert found.offset_score == pytest.approx(max(steps.values()) / steps.total())
    alone = found.random_score if asked.is_offset else max(found.random_score, found.offset_score)
    assert float(found.lead[0, 0]) == pytest.approx(1 - alone)


def test_the_interval_of_two_sentences_that_disagree_is_all_there_is():
    asked = relation(("a cat sat there", "a -> cat"), ("the big dog ran", "big -> ran"))
    mine, blind = {}, {}
    for sentence in asked.sentences:
        mine[sentence.text] = torch.eye(4).roll(1, 1)[None, None]  # finds the first pair only
        blind[sentence.text] = torch.zeros(1, 1, 4, 4)
    step = Relation("local", "this", "that", asked.sentences)  # random weights alone are to beat
    attended = [lab.collect_attended(step, each, causal=False) for each in (mine, blind)]
    found = lab.score_relation(step, attended[0], attended[1:])
    assert [float(x) for x in (found.lead, found.low, found.high)] == [0.5, 0.0, 1.0]
    assert found.verdict == lab.UNSURE
    none = lab.score_relation(asked, attended[1], attended[1:])
    assert none.verdict == lab.NONE and not none.winners


@pytest.mark.parametrize(
    "name", ["tiny-bert", pytest.param("tiny-gpt2", marks=pytest.mark.extended)]
)
def test_a_model_that_has_learned_nothing_finds_nothing(name):
    nobody = untrained_copy(mv.load(name), seed=77)
    assert [one.relation.title for one in lab.measure(nobody, n_seeds=2) if one.winners] == []


def test_scores_are_those_of_a_direct_count():
    """Each sentence by itself, word by word, from the record alone."""
    model, asked = mv.load("tiny-bert"), BY_TITLE["verb → object"]
    (found,) = lab.measure(model, [asked], n_seeds=1)
    hits = torch.zeros(4, 8)
    for sentence in asked.sentences:
        record = model.trace(sentence.text).merge_words()
        at = {t.text: i for i, t in enumerate(record.tokens)}
        others = [at[word] for word in sentence.words]
        for query, key in sentence.pairs:
            row = record.pattern[:, :, at[sentence.words[query]]]
            rivals = [i for i in others if i not in (at[sentence.words[key]], others[query])]
            right = row[..., at[sentence.words[key]]]
            hits += right > row[..., rivals].amax(-1)
    n_pairs = sum(len(s.pairs) for s in asked.sentences)
    close(found.score, hits / n_pairs)


def test_typed_heads_have_the_largest_weight_of_their_pair(models):
    model = mv.load("tiny-gpt2")
    record = model.trace(lab.EXAMPLE).merge_words()
    labels = list(record.labels)
    typed = lab.typed_heads(model, None)
    assert typed.keys() == lab.TYPES.keys()
    for kind, (head, weight, random) in typed.items():
        query, key = map(labels.index, lab.TYPES[kind])
        largest = record.pattern[:, :, query, key]
        assert weight == pytest.approx(float(largest.max())) and random is None
        assert largest[head] == largest.max()
