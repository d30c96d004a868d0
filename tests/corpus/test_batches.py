"""Batches: every text once, within the budget, with little padding, the same each time."""

import functools
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.corpus.measure.batches import PASS_TOKENS, Batch, _cuts, batches, prepared
from mha_viz.corpus.measure.measuring import BatchMeasure, BatchOptions
from mha_viz.corpus.measure.padded import PaddedTexts, is_punctuation
from mha_viz.corpus.measure.profiles import MAX_OFFSET, rows_of
from mha_viz.corpus.measure.scores import SCORES
from mha_viz.corpus.measure.shard import Settings, measure_shard
from mha_viz.corpus.sources.source import Item
from mha_viz.corpus.treebank.trees import Sentence, Word
from mha_viz.errors import ArgumentError, SourceError
from mha_viz.text.encoding import Reader, encode_texts
from tests.corpus.reference import (
    TEXTS,
    chance_alone,
    one_batch,
    scores_alone,
    small,
    traced,
)
from tests.engine.test_families import PAIRED, SINGLE


@pytest.fixture(scope="module")
def reader() -> Reader:
    return mv.load("tiny-bert").reader


def items(lengths: list[int]) -> list[Item]:
    return [Item(i, "cat " * n, f"a.txt:{i + 1}") for i, n in enumerate(lengths)]


def prose(n: int) -> list[int]:
    """Lengths as paragraphs of prose have them: many short, few long."""
    return [int(x) for x in np.random.default_rng(0).lognormal(3.4, 0.7, n).clip(2, 110)]


def test_every_text_is_in_one_batch_within_the_budget(reader: Reader) -> None:
    given = items(prose(256))
    packed, skipped = batches(reader, given, 1024)
    assert not skipped
    assert sorted(chain.from_iterable(b.items for b in packed), key=lambda i: i.number) == given
    for batch in packed:
        lengths = [len(encoded.input_ids) for encoded in batch.encoded]
        assert lengths == sorted(lengths)
        assert batch.n_real == sum(lengths)
        assert batch.n_padded == len(lengths) * lengths[-1] <= 1024
        expected = [encode_texts(reader, item.text)[0] for item in batch.items]
        assert list(batch.encoded) == expected


def test_no_other_cut_costs_less() -> None:
    lengths, n = [3, 3, 4, 9, 10, 30, 31, 33, 70], 9

    def cost(ends: list[int]) -> float:
        sizes = [(end - begin) * lengths[end - 1] for begin, end in pairwise([0, *ends])]
        tight = all(size <= 100 or size in lengths for size in sizes)
        return sum(sizes) + PASS_TOKENS * len(ends) if tight else np.inf

    every = [[i for i in range(1, n) if chosen >> i & 1] + [n] for chosen in range(0, 2**n, 2)]
    assert cost(_cuts(lengths, 100)) == min(map(cost, every)) < np.inf


def test_a_text_that_the_model_cannot_read_is_told_with_its_place(reader: Reader) -> None:
    small = replace(reader, d_vocab=encode_texts(reader, "the")[0].input_ids[1] + 1)
    given = [Item(0, "the", "a:1"), Item(1, "zebra", "a:2")]
    packed, skipped = batches(small, given, 100)
    assert [batch.items for batch in packed] == [(given[0],)]
    assert [place for place, _ in skipped] == ["a:2"]
    with pytest.raises(ArgumentError, match="batch_tokens=0"):
        batches(reader, given, 0)


def test_a_tree_of_which_the_model_reads_no_word_is_left_out_and_counted() -> None:
    model = mv.load("tiny-bert")
    before = "cat " * model.n_ctx
    cut, read = (
        Sentence(text, (Word("dog", "dog", "NOUN", -1, "root", at, at + 3),))
        for text, at in ((before + "dog", len(before)), ("dog", 0))
    )
    given = [Item(0, cut.text, "a:1", cut), Item(1, read.text, "a:2", read)]
    for items, n_texts in ((given[:1], 0), (given, 1)):
        shard = measure_shard(model, items, Settings())
        assert (shard.counts["n_texts"], shard.counts["n_skipped"]) == (n_texts, 1)
        assert [place for place, _ in shard.skipped] == ["a:1"]
        assert shard.make_tables() is not None


def test_the_next_shard_is_read_while_one_is_measured(reader: Reader) -> None:
    taken = [threading.Event() for _ in range(4)]

    def watched() -> Iterator[tuple[int, list[Item]]]:
        for number, event in enumerate(taken):
            event.set()
            yield number, items([2])

    coming = prepared(watched(), reader, 512)
    for number in range(3):
        assert next(coming).number == number
        assert taken[number + 1].wait(60)  # though nobody has asked for it
        assert number > 1 or not taken[number + 2].is_set()  # and no more than one is held
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("texts")]
    coming.close()
    assert ours and not any(thread.is_alive() for thread in ours)


def test_what_goes_wrong_in_the_thread_is_raised_here(reader: Reader) -> None:
    def failing() -> Iterator[tuple[int, list[Item]]]:
        yield 0, items([2])
        raise SourceError("a.txt cannot be read.")

    coming = prepared(failing(), reader, 512)
    assert isinstance(next(coming).batches[0], Batch)
    with pytest.raises(SourceError, match="cannot be read"):
        next(coming)


model = functools.cache(small)


def differing(found: np.ndarray, expected: np.ndarray, names) -> dict[str, float]:
    """Return by how much more than rounding the last axis's columns differ."""
    apart = np.abs(found - expected) / (1 + np.abs(expected))
    apart = np.where(np.isnan(found) & np.isnan(expected), 0.0, apart)
    worst = apart.reshape(-1, len(names)).max(0)
    return {n: float(w) for n, w in zip(names, worst, strict=True) if not w <= 1e-5}


@pytest.mark.parametrize("name", [*sorted(SINGLE), *sorted(PAIRED)])
def test_a_batch_scores_as_each_text_does_by_itself(name: str) -> None:
    """Measure each kind of model; of an encoder-decoder the encoder counts."""
    subject = model(name)
    batch = one_batch(subject, TEXTS[:5] if name in PAIRED else TEXTS)
    measured = BatchMeasure(subject, batch.encoded, BatchOptions(chance=True))
    scores, chance = measured.numbers("scores"), measured.numbers("chance")
    for row, item in enumerate(batch.items):
        record = traced(subject, item.text)
        assert not differing(scores[row], scores_alone(record), SCORES), item.text
        assert not differing(chance[row], chance_alone(record), BatchOptions().baselines), item.text


def test_a_layer_that_sees_less_has_chance_of_its_own() -> None:
    options = BatchOptions(chance=True)
    alike, mixed = (
        BatchMeasure(model(name), one_batch(model(name)).encoded, options).numbers("chance")
        for name in ("mistral", "gemma2")
    )
    entropy = (..., 0, options.baselines.index("entropy"))
    assert np.allclose(alike[entropy], alike[entropy][:, :1])  # one window in all layers
    longest = mixed[entropy][-1]
    assert longest[1] > longest[0] + 0.1


def test_punctuation_is_known_by_the_characters_of_the_text(masked: mv.AttentionModel) -> None:
    encoded = one_batch(masked, ["Well, it's 3€!"]).encoded[0]
    found = {t.text for t in encoded.tokens if is_punctuation(t, encoded.text)}
    assert {",", "'", "!"} <= found
    assert not {"well", "it", "s", "3", "[CLS]"} & {text.lower() for text in found}


def test_rows_of_counts_the_queries_that_see_a_bin():
    texts = PaddedTexts.of(one_batch(model("bert"), ["The cat sat. " * 15]).encoded, causal=True)
    n = texts.real.shape[1]
    seen = torch.zeros(1, n, n, dtype=torch.bool)
    seen[..., 0] = True  # of all queries, which see nothing else
    counts = rows_of(texts, seen)["offset"]
    assert counts[0] == n - MAX_OFFSET - 1 > 1 and counts.sum() == n
