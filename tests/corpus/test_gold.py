"""The tables of sentences and of their halves, against direct counts on the treebank."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch

import mha_viz as mv
from mha_viz.corpus.treebank.gold import SCHEMAS, TreeCounts
from mha_viz.corpus.treebank.relations import ALL, TO_HEAD, relation_scores
from mha_viz.corpus.treebank.split_half import (
    head_scores,
    in_units,
    on_both_halves,
    unit_wilson,
    wilson,
)
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


def test_planted_heads_are_chosen_are_the_offset_baseline_and_have_all_arcs(planted):
    counts, offsets = (planted[n].to_pandas() for n in ("relations", "relation_offsets"))
    found = relation_scores(counts, offsets)
    up = found[(found["head"] == 0) & (found.direction == TO_HEAD)]
    assert (up.accuracy == 1).all() and (up.chosen_on == 1).all() and up.chosen.all()
    [everything] = up[up.relation == ALL].to_dict("records")
    assert everything["n"] > 500 and everything["low"] > 0.99
    assert everything["offset"] == 1 and 0.3 < everything["offset_baseline"] < 0.6
    counts, offsets = (planted[n].to_pandas() for n in ("relations", "relation_offsets"))
    found = counts[counts["head"] == 1].set_index(["half", "relation", "direction"])
    steps = offsets[offsets.offset == -1].set_index(["half", "relation", "direction"])
    assert found.hits.to_dict() == steps.hits.to_dict()
    assert found.n.to_dict() == steps.n.to_dict()
    rows = planted["parses"].to_pandas()
    first = rows[rows["head"] == 0]
    assert (first.hits == first.n_arcs).all() and len(first) == len(SENTENCES)
    assert 0 < rows.branching_hits.sum() / rows.n_arcs.sum() < 0.7


def test_tree_counts_of_no_text_are_empty_tables() -> None:
    tables = TreeCounts(causal=False).tables()
    assert tables.keys() == SCHEMAS.keys() and not any(table.num_rows for table in tables.values())


def test_wilson_interval_covers_as_often_as_it_says():
    n = 40
    hits = np.arange(n + 1)
    low, high = wilson(hits, np.full(n + 1, n))
    assert (low >= 0).all() and (high <= 1).all() and (low < high).all()
    shares = np.linspace(0.05, 0.95, 181)[:, None]
    covers = (low <= shares) & (shares <= high)
    coverage = (scipy.stats.binom.pmf(hits, n, shares) * covers).sum(1)
    assert coverage.mean() == pytest.approx(0.95, abs=0.01)
    low, high = wilson(np.array([0]), np.array([0]))
    assert np.isnan(low[0]) and np.isnan(high[0])


def test_wilson_ends_are_as_far_from_the_share_as_their_own_spread_allows():
    n = 23
    hits = np.arange(n + 1)
    z = scipy.stats.norm.ppf(0.975)
    for end in wilson(hits, np.full(n + 1, n)):
        allowed = z * np.sqrt(end * (1 - end) / n)
        assert np.abs(hits / n - end) == pytest.approx(allowed, abs=1e-6)


def test_rows_of_one_place_add_up_and_places_of_one_half_are_left_out():
    rows = [("choose", 0, 4, 1), ("choose", 0, 4, 3), ("report", 0, 5, 5), ("report", 1, 9, 9)]
    counts = pd.DataFrame(rows, columns=["half", "head", "n", "hits"])
    [found] = on_both_halves(counts, ["head"]).reset_index().to_dict("records")
    assert (found["head"], found["n"], found["accuracy"], found["chosen_on"]) == (0, 5, 1.0, 0.5)


def test_interval_of_independent_words_is_wilsons_with_students_quantile():
    """Each word a unit: as sure as n words, but for t in place of z and n - 1 in place of n."""
    hits, ones = np.r_[np.ones(23), np.zeros(40)][None], np.ones((1, 63))
    few = 62 * (scipy.stats.norm.ppf(0.975) / scipy.stats.t.ppf(0.975, 62)) ** 2
    assert np.ravel(unit_wilson(hits, ones)) == pytest.approx(
        np.ravel(wilson(np.array([23 / 63 * few]), np.array([few]))), abs=1e-6
    )


def test_interval_of_words_that_hang_together_is_wider():
    """Units that are all right or all wrong are no more than one word each."""
    units = np.array([1.0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1])[None]
    copied = unit_wilson(17 * units, np.full((1, 13), 17.0))
    assert np.ravel(copied) == pytest.approx(np.ravel(unit_wilson(units, np.ones((1, 13)))))
    low, high = wilson(17 * units.sum(1), np.array([17 * 13]))
    assert copied[0] < low and high < copied[1]
    assert np.isnan(unit_wilson(np.array([[7.0, 0]]), np.array([[13.0, 0]]))).all()


@pytest.mark.parametrize("n_units", [20, 50])
def test_interval_of_words_in_units_covers_as_often_as_it_says(n_units: int):
    rng = np.random.default_rng(n_units)
    n = rng.integers(1, 20, (2_000, n_units))
    hits = rng.binomial(n, rng.beta(2, 3, n.shape))  # each unit has a share of its own
    low, high = unit_wilson(hits.astype(float), n.astype(float))
    assert 0.93 <= ((low <= 0.4) & (high >= 0.4)).mean() <= 0.97


def test_rows_and_columns_of_units_are_laid_out_alike():
    rows = [("report", 0, 3, 5, 2), ("report", 0, 7, 4, 4), ("choose", 0, 3, 9, 9)]
    counts = pd.DataFrame(rows, columns=["half", "head", "unit", "n", "hits"])
    index = pd.Index([0, 1], name="head")
    assert in_units(counts, index, "hits")[0, [3, 7]].tolist() == [2, 4]
    wide = {f"hits_u{unit}": {3: 2, 7: 4}.get(unit, 0) for unit in range(64)}
    wide = pd.DataFrame([{"half": "report", "head": 0} | wide])
    assert in_units(wide, index, "hits")[0, [3, 7]].tolist() == [2, 4]
    assert np.isnan(in_units(wide, index, "hits")[1]).all()


def test_heads_are_held_against_each_baseline():
    rows = [
        dict(half=half, layer=0, head=head, unit=unit, n=9, hits=hits, near_hits=4)
        for half in ("choose", "report")
        for head, hits in ((0, 7), (1, 4))
        for unit in range(12)
    ]
    counts = pd.DataFrame(rows)
    untrained = counts.assign(hits=5 + counts["unit"] % 2)
    found = head_scores(counts, untrained, {"near_baseline": "near_hits"})
    z = np.array([np.sqrt(12), 0.0])  # of all units alike, and of none apart
    assert found["q_near_baseline"].to_numpy() == pytest.approx(
        scipy.stats.false_discovery_control(scipy.stats.norm.sf(z))
    )
    assert (found["q_random_baseline"] <= 0.05).tolist() == [True, False]
    few = head_scores(counts[counts["unit"] < 9], untrained, {"near_baseline": "near_hits"})
    assert few["q_near_baseline"].isna().all() and few["low"].notna().all()
