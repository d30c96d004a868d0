"""The tables of a shard against direct counts over each text's own record."""

import collections

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.record.visible import visible_keys
from mha_viz.corpus.measure.measuring import WAYS, BatchOptions
from mha_viz.corpus.measure.padded import KINDS, is_punctuation
from mha_viz.corpus.measure.profiles import (
    MAX_OFFSET,
    MAX_POSITION,
    N_BINS,
    bin_limits,
    histogram,
)
from mha_viz.corpus.measure.scores import SCORES
from mha_viz.corpus.measure.shard import Settings, Shard, measure_shard
from tests.corpus.reference import TEXTS, chance_alone, items, scores_alone, small, traced
from tests.making.comparing import close, near

HEAD = ["layer", "head"]
LONG = " ".join(f"the cat sat on the mat because it was tired {i}" for i in range(4))
SETTINGS = Settings(batch_tokens=40)  # several batches, and out of order


@pytest.fixture(scope="module", params=["bert", "gemma2", "deberta-v2"])
def subject(request) -> mv.AttentionModel:
    return small(request.param)


@pytest.fixture(scope="module")
def shard(subject: mv.AttentionModel) -> Shard:
    twin = untrained_copy(subject) if subject.backend == "mha_viz" else None
    return measure_shard(subject, items((*TEXTS, LONG)), SETTINGS, untrained=twin)


@pytest.fixture(scope="module")
def records(subject: mv.AttentionModel) -> list[mv.AttentionRecord]:
    return [traced(subject, text) for text in (*TEXTS, LONG)]


def frame(shard: Shard, name: str) -> pd.DataFrame:
    return shard.tables[name].to_pandas()


def test_scores_chance_and_pairs_are_those_of_each_text_by_itself(subject, shard, records) -> None:
    texts, chance = frame(shard, "texts"), frame(shard, "chance")
    assert texts[["text_id", *HEAD]].apply(tuple, axis=1).is_monotonic_increasing
    assert (texts.n_tokens == [len(records[i].tokens) for i in texts.text_id]).all()
    scores = [scores_alone(record).reshape(-1, len(SCORES)) for record in records]
    close(texts[list(SCORES)], np.concatenate(scores))
    columns = [f"{key}_{way}" for way in WAYS for key in BatchOptions().baselines]
    baselines = [chance_alone(record).reshape(record.n_layers, -1) for record in records]
    close(chance[columns], np.concatenate(baselines))
    if "untrained" in shard.tables:
        fifth = traced(untrained_copy(subject), TEXTS[4])
        rows = frame(shard, "untrained").query("text_id == 4")[list(SCORES)]
        close(rows, scores_alone(fifth).reshape(-1, len(SCORES)))
    for measure, rows in frame(shard, "pairs").groupby("measure"):
        each = np.stack([mv.head_similarity(r, measure).double().numpy() for r in records])
        values = each[:, rows.i, rows.j]
        assert (rows.i < rows.j).all() and len(rows) == len(np.triu_indices(len(each[0]), 1)[0])
        assert (rows.n == np.isfinite(values).sum(0)).all()
        np.testing.assert_allclose(rows["sum"], np.nansum(values, 0), atol=2e-5)
        np.testing.assert_allclose(rows.sum_sq, np.nansum(values**2, 0), atol=2e-5)


def test_histograms_count_the_texts(shard: Shard) -> None:
    names, head = ("histogram", "texts"), "layer == 1 and head == 2"
    table, texts = (frame(shard, name).query(head) for name in names)
    for metric in ("confidence", "duplicate_token", "distance", "entropy"):
        rows, bins = table[table.metric == metric], np.zeros(N_BINS, int)
        bins[rows.bin] = rows.n
        values = texts[metric].dropna().astype(float)
        assert bins.tolist() == np.histogram(values, bin_limits(metric))[0].tolist()


def test_edges_are_the_strongest_and_the_heavy(shard: Shard, records) -> None:
    table = frame(shard, "edges")
    found = collections.defaultdict(dict)
    for e in table.itertuples():
        assert e.query_token == records[e.text_id].labels[e.query]
        assert e.key_token == records[e.text_id].labels[e.key]
        found[e.text_id, e.layer, e.head, e.query][e.key] = (e.weight, e.strongest)
    expected_rows = 0
    for number, record in enumerate(records):
        for place in np.ndindex(record.pattern.shape[:3]):
            row = record.pattern[place]
            if record.tokens[place[2]].is_special:
                assert (number, *place) not in found
                continue
            expected_rows += 1
            got = found[(number, *place)]
            best = [key for key, (_, strongest) in got.items() if strongest]
            assert len(best) == 1 and row[best[0]] == near(float(row.max()))
            heavy = set((row >= SETTINGS.min_weight).nonzero().flatten().tolist())
            assert set(got) == heavy | set(best)
            for key, (weight, _) in got.items():
                assert weight == near(float(row[key]))
    assert len(found) == expected_rows
    order = ["query_token", *HEAD, "text_id", "query"]
    keys = table[order].astype({"query_token": str}).apply(tuple, axis=1)
    assert keys.is_monotonic_increasing


def _bins(axis: str, record: mv.AttentionRecord, q: int, k: int) -> str:
    if axis == "offset":
        return str(k - q) if abs(k - q) <= MAX_OFFSET else f"{'<-' if k < q else '>'}{MAX_OFFSET}"
    if axis == "position":
        return f">={MAX_POSITION}" if k >= MAX_POSITION else str(k)
    query, key = record.tokens[q], record.tokens[k]
    fits = [q == k, query.id == key.id, key.is_special, is_punctuation(key, record.text), k == 0]
    return KINDS[fits.index(True)] if any(fits) else "other"


@pytest.mark.parametrize("axis", ["offset", "position", "kind"])
def test_profiles_add_up_the_weight_of_every_bin(shard: Shard, records, axis: str) -> None:
    table = frame(shard, "profile")
    table = table[table.axis == axis].set_index([*HEAD, "at"])
    weight: collections.Counter = collections.Counter()
    rows: collections.Counter = collections.Counter()
    for record in records:
        for layer in range(record.n_layers):
            seen = visible_keys(record, layer)
            for q in range(len(record.tokens)):
                bins = [_bins(axis, record, q, k) for k in range(len(record.tokens))]
                for at in {b for b, visible in zip(bins, seen[q], strict=True) if visible}:
                    rows[layer, at] += 1
                for k, at in enumerate(bins):
                    for head in range(record.n_heads):
                        weight[layer, head, at] += float(record.pattern[layer, head, q, k])
    for place, row in table.iterrows():
        assert row.weight == near(weight[place]), place
        assert row.rows == rows[place[0], place[2]], place
    assert table.weight.sum() > 0


def test_histogram_of_scores_on_the_limits_of_bins_counts_them_in_the_upper_bin() -> None:
    scores = bin_limits("confidence")[[0, 1, 32, 64]].astype(np.float32).reshape(4, 1, 1)
    assert histogram({"confidence": scores})["bin"].to_pylist() == [0, 1, 32, N_BINS - 1]


def test_a_text_that_cannot_be_read_is_counted_and_skipped() -> None:
    shard = measure_shard(small("gpt2"), items(("the cat", "   ", "the dog ran")), SETTINGS)
    assert [place for place, _ in shard.skipped] == ["here:2"]
    assert shard.tables["sentences"]["text_id"].to_pylist() == [0, 2]
    nothing = measure_shard(small("gpt2"), items((" ",)), SETTINGS)
    assert nothing.counts["n_texts"] == 0 and nothing.tables == {}
