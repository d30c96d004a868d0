"""Relations that heads find: hand-made patterns, counts by hand, and heads chosen fairly."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import false_discovery_control, norm

from mha_viz.corpus.treebank.parts_of_speech import PARTS, expected_by_kind, kinds, weight_by_kind
from mha_viz.corpus.treebank.relations import (
    ALL,
    OFFSETS,
    TO_DEPENDENT,
    TO_HEAD,
    RelationTarget,
    as_tensors,
    head_vs_tree,
    offset_hits,
    relation_hits,
    relation_scores,
    relation_targets,
)
from mha_viz.errors import ArgumentError
from tests.making.trees import plain_words, sample, tree

CAT = tree("The/DET/3/det old/ADJ/3/amod cat/NOUN/4/nsubj slept/VERB/0/root ././4/punct")


def asked(sentence, covered=None, *, causal=False):
    covered = torch.ones(len(sentence.words), dtype=torch.bool) if covered is None else covered
    return relation_targets(sentence, covered, causal=causal)


def answered(relation_targets, words):
    """Return which answers are right: (layer, head, question)."""
    sheet = as_tensors([(0, question) for question in relation_targets], words.shape[-1])
    return torch.stack([relation_hits(sheet, layer[None]).T for layer in words])


def test_questions_go_both_ways():
    assert asked(CAT) == [
        RelationTarget("det", TO_HEAD, 0, (2,)),
        RelationTarget("det", TO_DEPENDENT, 2, (0,)),
        RelationTarget(ALL, TO_HEAD, 0, (2,)),
        RelationTarget(ALL, TO_DEPENDENT, 2, (0, 1)),
        RelationTarget("amod", TO_HEAD, 1, (2,)),
        RelationTarget("amod", TO_DEPENDENT, 2, (1,)),
        RelationTarget(ALL, TO_HEAD, 1, (2,)),
        RelationTarget("nsubj", TO_HEAD, 2, (3,)),
        RelationTarget("nsubj", TO_DEPENDENT, 3, (2,)),
        RelationTarget(ALL, TO_HEAD, 2, (3,)),
        RelationTarget(ALL, TO_DEPENDENT, 3, (2,)),
        RelationTarget("punct", TO_HEAD, 4, (3,)),
        RelationTarget("punct", TO_DEPENDENT, 3, (4,)),
    ]


def test_a_causal_model_is_asked_for_what_it_can_see_among_others():
    found = asked(CAT, causal=True)
    assert ("nsubj", TO_DEPENDENT, 3, (2,)) in found
    assert ("amod", TO_DEPENDENT, 2, (1,)) in found
    assert all(min(one.keys) < one.query > 1 for one in found)
    assert not [one for one in found if one.relation in ("det", "amod") and one[1] == TO_HEAD]
    sat = tree("Cats/NOUN/2/nsubj sat/VERB/0/root down/ADV/2/advmod ././2/punct")
    found = asked(sat, causal=True)
    assert {one.query for one in asked(sat) if one.keys == (0,)} == {1}  # nsubj, to its dependent
    assert {one.query for one in found} == {2, 3}  # the second word sees one other, no choice


def test_words_that_were_not_read_ask_nothing():
    there = torch.tensor([True, True, False, True, True])
    assert {one.relation for one in asked(CAT, there)} == {"punct"}
    assert asked(CAT, torch.tensor([False, False, True, True, False])) == []  # nothing to choose


def test_the_word_itself_does_not_compete_and_a_tie_is_no_answer():
    question = [RelationTarget("x", TO_HEAD, 0, (2,))]
    words = torch.zeros(3, 1, 3, 3)
    words[0, 0, 0] = torch.tensor([0.8, 0.0, 0.1])
    words[1, 0, 0] = torch.tensor([0.0, 0.1, 0.1])  # the third looks nowhere
    assert answered(question, words)[:, 0, 0].tolist() == [True, False, False]
    question = [RelationTarget("x", TO_HEAD, 0, (1,))]  # of the two that share it the first
    assert answered(question, words)[:, 0, 0].tolist() == [False, False, False]


def test_steps():
    row = offset_hits([RelationTarget("amod", TO_DEPENDENT, 2, (0, 1))])[0]
    assert [step for step, right in zip(OFFSETS, row, strict=True) if right] == [-2, -1]


def counted(half, head, hits, n=10):
    ask = dict(half=half, relation="nsubj", direction=TO_HEAD)
    return ask | dict(layer=0, head=head, n=n, hits=hits)


def test_the_head_is_chosen_on_one_half_and_reported_on_the_other():
    """Head 0 is best where it is reported, head 1 where one is chosen: head 1 it is."""
    counts = pd.DataFrame(
        [
            *[counted("choose", 0, 5), counted("choose", 1, 9), counted("choose", 1, 9)],
            *[counted("report", 0, 10), counted("report", 1, 4)],
        ]
    )
    twin = pd.DataFrame(
        [counted(half, head, head + 1) for half in ("choose", "report") for head in (0, 1)]
    )
    steps = [
        dict(half=half, relation="nsubj", direction=TO_HEAD, offset=offset, n=10, hits=hits)
        for half, offset, hits in [
            *[("choose", 1, 7), ("choose", 2, 1), ("report", 1, 3), ("report", 2, 9)]
        ]
    ]
    found = relation_scores(counts, pd.DataFrame(steps), twin)
    [best] = found[found.chosen].to_dict("records")
    assert (best["head"], best["n"], best["accuracy"], best["chosen_on"]) == (1, 10, 0.4, 0.9)
    assert (best["offset"], best["offset_baseline"], best["random_baseline"]) == (1, 0.3, 0.2)
    assert best["low"] < 0.4 < best["high"]
    assert list(found["accuracy"]) == [1.0, 0.4]


def test_a_baseline_needs_an_untrained_model_and_a_score_both_halves():
    counts = pd.DataFrame([counted("choose", 0, 5), counted("report", 0, 5)])
    steps = counts.rename(columns={"layer": "offset"}).drop(columns="head")
    assert relation_scores(counts, steps)["random_baseline"].isna().all()
    assert relation_scores(counts[:1], steps[:1]).empty


def in_units(rows, n_units=12, n=10):
    """Counts on both halves, of as many words in each unit: by key, hits in every unit."""
    found = []
    for half in ("choose", "report"):
        for key, hits in rows.items():
            row = dict(half=half, relation="nsubj", direction=TO_HEAD) | dict(key)
            row |= {"n": n * n_units, "hits": sum(hits)}
            for unit in range(64):
                row[f"n_u{unit}"] = n * (unit < n_units)
                row[f"hits_u{unit}"] = hits[unit] if unit < n_units else 0
            found.append(row)
    return pd.DataFrame(found)


def head(number):
    return (("layer", 0), ("head", number))


def test_a_head_beats_both_baselines_on_the_same_words_or_does_not():
    """Head 0 is above both in each unit, 1 above one of them, 2 in one unit alone, 3 nowhere."""
    hits = {0: [7, 8] * 6, 1: [7, 8] * 6, 2: [10] + [4] * 11, 3: [1] * 12}
    twin = {0: [3] * 12, 1: [9] * 12, 2: [3] * 12, 3: [3] * 12}
    counts, untrained = (in_units({head(i): of for i, of in x.items()}) for x in (hits, twin))
    offsets = in_units({(("offset", 1),): [5, 3] * 6, (("offset", 2),): [0] * 12})
    found = relation_scores(counts, offsets, untrained)
    assert found["beats"].tolist() == [True, False, False, False]
    apart = [[2, 5] * 6, [-2, -1] * 6]  # of head 0 from the offset, of head 1 from its twin
    expected = [norm.sf(sum(d) / np.sqrt(np.square(d).sum())) for d in apart]
    assert found["p"].tolist()[:2] == pytest.approx(expected)
    assert found["q"].to_numpy() == pytest.approx(false_discovery_control(found["p"].to_numpy()))


def test_fewer_units_than_ten_or_words_than_twenty_say_nothing():
    offsets = {(("offset", 1),): [0] * 12}
    for n_units, n, known in ((9, 10, False), (10, 10, True), (12, 1, False)):
        counts = in_units({head(0): [n] * n_units}, n_units, n)
        found = relation_scores(counts, in_units({(("offset", 1),): [0] * n_units}, n_units, n))
        assert found["beats"].tolist() == [known] == (~found["q"].isna()).tolist()
    assert relation_scores(in_units({head(0): [3] * 12}), in_units(offsets))["p"][0] < 0.001


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
    assert {look.query: look.key for look in found.strongest} == strongest
    for look in found.strongest:
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


SENTENCE = tree("The/DET/2/det cat/NOUN/3/nsubj saw/VERB/0/root the/DET/5/det fog/NOUN/3/obj")
KIND = torch.from_numpy(kinds(SENTENCE, torch.ones(5, dtype=torch.bool)))
DET, NOUN, VERB = (PARTS.index(name) for name in ("DET", "NOUN", "VERB"))


def test_unknown_parts_of_speech_are_x_and_unread_words_are_none():
    sentence = tree("a/QUX/0/root b/NOUN/1/dep")
    found = kinds(sentence, torch.tensor([True, False]))
    assert found[0].argmax() == PARTS.index("X") and found.sum() == 1


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
