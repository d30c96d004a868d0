"""Every example is answered: the named head does what is said beside it, and chance does not.

The one that is not says so, and that is tested, too.
"""

import pytest
import torch

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.learn.annotated_sentences import relations
from mha_viz.learn.labs.what_heads_learn import numbers as lab
from mha_viz.reports.report import KEEP, report
from mha_viz.ui.state.examples import EXAMPLES, Example
from mha_viz.ui.state.views import DEFAULT

BY_TITLE = {example.title: example for example in EXAMPLES}
BRACKETS = "A sentence in brackets"
NOUN = "A noun and the word before its adjectives"
OBJECT = "A verb and its object"
BEFORE = "The token before"
TWICE = "A repeated phrase"
FAR = "Five hundred tokens later"
REST = "Two sentences"
SINK = "A sink at the start"
CAT = "“It” and the cat"
NOTHING = "What does “it” mean?"
# title -> (word that looks, word that it looks at most), as the words beside the example say
LEADS = {
    BRACKETS: [(")", "("), ("(", ")")],
    NOUN: [("woman", "The"), ("window", "a"), ("friend", "her")],
    OBJECT: [("washed", "hands"), ("his", "hands")],
    CAT: [("it", "cat")],
}
LABELLED = {BEFORE: "previous_token", TWICE: "induction", FAR: "induction", SINK: "first_token"}


def traced(example: Example) -> AttentionRecord:
    return mv.load(example.model).trace(example.text, example.pair or None, keep=KEEP)


def place(record: AttentionRecord, word: str) -> int:
    """The only token of that name."""
    (found,) = [i for i, token in enumerate(record.tokens) if token.text.strip() == word]
    return found


def test_each_example_is_answered_below_or_is_the_one_of_nothing():
    assert {*LEADS, *LABELLED, REST, NOTHING} == set(BY_TITLE)
    assert [example.title for example in EXAMPLES if example.head is None] == [NOTHING]
    assert DEFAULT.text == EXAMPLES[0].text and DEFAULT.model == EXAMPLES[0].model


@pytest.mark.parametrize("title", LEADS)
def test_the_named_head_leads_where_it_is_said_to(title):
    example = BY_TITLE[title]
    record = traced(example).merge_words()
    for query, key in LEADS[title]:
        row = record.head(*example.head)[place(record, query)]
        assert int(row.argmax()) == place(record, key), (query, key)
        assert f"*{query}*" in example.look and f"*{key}*" in example.look


@pytest.mark.parametrize("title", LABELLED)
def test_the_named_head_earns_its_label(title):
    example = BY_TITLE[title]
    model = mv.load(example.model)
    found = report(traced(example), model)
    layer, head = example.head
    earned = [one.label.key for one in found.labels[layer][head]]
    assert LABELLED[title] in earned
    if title == BEFORE:
        assert "next_token" in [one.label.key for one in found.labels[0][7]]


def repeated(record: AttentionRecord, words: list[str]) -> tuple[list[int], list[int]]:
    """The words' tokens where they stand again at the end, and those that followed them before."""
    n, tokens = len(words), [token.text.strip() for token in record.tokens]
    again = len(tokens) - n
    first = tokens.index(words[0])
    assert tokens[again:] == tokens[first : first + n] == words
    return list(range(again, again + n)), list(range(first + 1, first + 1 + n))


def test_far_example_head_finds_what_followed_each_word_five_hundred_tokens_before():
    example = BY_TITLE[FAR]
    model = mv.load(example.model)
    record = model.trace(example.text, keep=("pattern",))
    words = example.text.rpartition(": ")[2].split()
    queries, keys = repeated(record, words)
    assert len(words) == 12 and "twelve words at the end" in example.look
    assert {query + 1 - key for query, key in zip(queries, keys, strict=True)} == {500}
    assert f"*{words[0]}* to *{words[1]}*" in example.look
    assert example.n_tokens == len(record.tokens)
    head = record.head(*example.head)[queries]
    assert head.argmax(-1).tolist() == keys
    found = record.pattern[:, :, queries, keys].mean(-1)
    assert found.argmax() == example.head[0] * model.n_heads + example.head[1]
    assert found.max() > 0.6
    untrained = untrained_copy(model).trace(example.text, keep=("pattern",))
    assert untrained.pattern[:, :, queries, keys].max() < 0.01


def test_shares_that_are_named_are_those_measured():
    scores = {title: report(traced(BY_TITLE[title])).scores for title in (REST, SINK)}
    assert float(scores[REST]["special_token"][BY_TITLE[REST].head]) == pytest.approx(0.8, abs=0.04)
    assert float(scores[SINK]["first_token"][BY_TITLE[SINK].head]) == pytest.approx(0.75, abs=0.04)


def test_it_looks_at_the_cat_a_little_more_than_chance_and_at_other_words_nearly_as_much():
    example, before = BY_TITLE[CAT], 10  # words that "it" may see, with itself
    model = mv.load(example.model)

    def weights(network: mv.AttentionModel) -> tuple[AttentionRecord, torch.Tensor]:
        record = network.trace(example.text, keep=("pattern",)).merge_words()
        return record, record.pattern[:, :, place(record, "it")]

    record, row = weights(model)
    found = row[:, :, place(record, "cat")]
    assert found.argmax() == example.head[0] * model.n_heads + example.head[1]
    assert float(found.max()) == pytest.approx(0.20, abs=0.005)
    assert float(row[example.head][place(record, "yesterday")]) == pytest.approx(0.17, abs=0.005)
    assert int((row[example.head] > 0).sum()) == before
    untrained = [weights(untrained_copy(model, seed))[1][:, :, 1].max() for seed in range(5)]
    assert float(max(untrained)) == pytest.approx(0.11, abs=0.005)
    record = traced(BY_TITLE[NOTHING])
    nothing = record.pattern[:, :, place(record, "it"), place(record, "animal")]
    assert float(nothing.max()) < 0.1
    assert {one.kind for one in relations() if one.is_offset} == {"local"}
    asked = [one for one in relations() if one.title == "pronoun → antecedent"]
    assert lab.measure(model, asked)[0].verdict == lab.NONE
