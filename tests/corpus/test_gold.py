"""The tables of many sentences, against direct counts on the shipped treebank."""

from collections import Counter

import pytest
import torch

import mha_viz as mv
from mha_viz.corpus.treebank.gold import SCHEMAS, TreeCounts
from mha_viz.corpus.treebank.relations import ALL, TO_HEAD, relation_scores
from mha_viz.corpus.treebank.trees import ROOT
from tests.corpus.tree_tables import tree_tables
from tests.making.comparing import near
from tests.making.trees import looking_at, plain_words, sample, word_tokens

SENTENCES = sample()
SOME = SENTENCES[:60:2]


@pytest.fixture(scope="module", params=["tiny-bert", "tiny-gpt2"])
def model(request):
    return mv.load(request.param)


@pytest.fixture(scope="module")
def texts(model):
    records = [model.trace(sentence.text, keep=("pattern",)) for sentence in SOME]
    return [
        (i, record.pattern, record.tokens, sentence)
        for i, (record, sentence) in enumerate(zip(records, SOME, strict=True))
    ]


@pytest.fixture(scope="module")
def tables(model, texts):
    return tree_tables(texts, causal=model.causal)


def test_parts_of_speech_are_what_a_plain_loop_adds_up(texts, tables):
    layer, head = 2, 5
    expected = Counter()
    for _, pattern, tokens, sentence in texts:
        words = plain_words(pattern[layer, head].numpy(), tokens, sentence)
        for i, query in enumerate(sentence.words):
            for j, key in enumerate(sentence.words):
                expected[query.upos, key.upos] += words[i, j]
    rows = tables["parts_of_speech"].to_pandas()
    rows = rows[(rows.layer == layer) & (rows["head"] == head)]
    found = rows.set_index(["from_upos", "to_upos"])
    for pair, weight in expected.items():
        assert found.weight[pair] == near(weight)
    parts = Counter(word.upos for sentence in SOME for word in sentence.words)
    assert found["rows"].groupby("from_upos").first().to_dict() == dict(parts)
    sums = rows.groupby("from_upos")[["weight", "expected"]].sum()
    assert sums.weight.tolist() == pytest.approx(sums.expected.tolist())


def test_arcs_are_between_the_tokens_of_a_word_and_of_its_head(texts, tables):
    rows = tables["arcs"].to_pandas()
    assert rows.text_id.is_monotonic_increasing and set(rows.text_id) == {i for i, *_ in texts}
    for i, _, tokens, sentence in texts:
        inside = [
            {
                t
                for t, token in enumerate(tokens)
                if not token.is_special and token.start < word.end and word.start < token.end
            }
            for word in sentence.words
        ]
        expected = {
            (mine, theirs, word.deprel, word.upos, sentence.words[word.head].upos)
            for number, word in enumerate(sentence.words)
            if word.head != ROOT
            for mine in inside[number]
            for theirs in inside[word.head] - {mine}
        }
        found = rows[rows.text_id == i].drop(columns="text_id").itertuples(index=False, name=None)
        assert set(found) == expected


@pytest.fixture(scope="module")
def planted():
    """One layer, two heads: the first follows the trees up, the second looks at the word before."""
    texts = []
    for i, sentence in enumerate(SENTENCES):
        n = len(sentence.words)
        heads = [word.head for word in sentence.words]
        both = [looking_at(keys, n) for keys in (heads, [k - 1 for k in range(n)])]
        texts.append((i, torch.stack(both)[None], word_tokens(sentence), sentence))
    return tree_tables(texts, causal=False)


def test_a_planted_head_scores_one_and_is_chosen(planted):
    counts, offsets = (planted[n].to_pandas() for n in ("relations", "relation_offsets"))
    found = relation_scores(counts, offsets)
    up = found[(found["head"] == 0) & (found.direction == TO_HEAD)]
    assert (up.accuracy == 1).all() and (up.chosen_on == 1).all() and up.chosen.all()
    [everything] = up[up.relation == ALL].to_dict("records")
    assert everything["n"] > 500 and everything["low"] > 0.99
    assert everything["offset"] == 1 and 0.3 < everything["offset_baseline"] < 0.6


def test_the_head_that_looks_back_is_the_offset_baseline(planted):
    counts, offsets = (planted[n].to_pandas() for n in ("relations", "relation_offsets"))
    found = counts[counts["head"] == 1].set_index(["half", "relation", "direction"])
    steps = offsets[offsets.offset == -1].set_index(["half", "relation", "direction"])
    assert found.hits.to_dict() == steps.hits.to_dict()
    assert found.n.to_dict() == steps.n.to_dict()


def test_a_planted_tree_has_all_arcs(planted):
    rows = planted["parses"].to_pandas()
    first = rows[rows["head"] == 0]
    assert (first.hits == first.n_arcs).all() and len(first) == len(SENTENCES)
    assert 0 < rows.branching_hits.sum() / rows.n_arcs.sum() < 0.7


def test_tree_counts_of_no_text_are_empty_tables() -> None:
    tables = TreeCounts(causal=False).tables()
    assert tables.keys() == SCHEMAS.keys() and not any(table.num_rows for table in tables.values())
