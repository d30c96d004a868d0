"""The scores of a padded batch against the report of each text by itself."""

import functools

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.corpus.measure.measuring import BatchMeasure, BatchOptions
from mha_viz.corpus.measure.padded import PaddedTexts, is_punctuation
from mha_viz.corpus.measure.profiles import FAR, rows_of
from mha_viz.corpus.measure.scores import SCORES
from tests.corpus.reference import (
    TEXTS,
    chance_alone,
    one_batch,
    scores_alone,
    small,
    traced,
)
from tests.engine.test_families import PAIRED, SINGLE

model = functools.cache(small)


def differing(found: np.ndarray, expected: np.ndarray, names) -> dict[str, float]:
    """By how much more than rounding the last axis's columns differ."""
    apart = np.abs(found - expected) / (1 + np.abs(expected))
    apart = np.where(np.isnan(found) & np.isnan(expected), 0.0, apart)
    worst = apart.reshape(-1, len(names)).max(0)
    return {n: float(w) for n, w in zip(names, worst, strict=True) if not w <= 1e-5}


def check(subject: mv.AttentionModel, texts) -> None:
    batch = one_batch(subject, texts)
    measured = BatchMeasure(subject, batch.encoded, BatchOptions(chance=True))
    scores, chance = measured.numbers("scores"), measured.numbers("chance")
    for row, item in enumerate(batch.items):
        record = traced(subject, item.text)
        assert not differing(scores[row], scores_alone(record), SCORES), item.text
        assert not differing(chance[row], chance_alone(record), BatchOptions().baselines), item.text


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_a_batch_scores_as_each_text_does_by_itself(name: str) -> None:
    check(model(name), TEXTS)


@pytest.mark.parametrize("name", sorted(PAIRED))
def test_of_an_encoder_decoder_the_encoder_is_measured(name: str) -> None:
    check(model(name), TEXTS[:5])


def test_a_layer_that_sees_less_has_chance_of_its_own() -> None:
    subject = model("mistral")
    chance = BatchMeasure(subject, one_batch(subject).encoded, BatchOptions(chance=True)).numbers(
        "chance"
    )
    entropy = chance[..., 0, BatchOptions().baselines.index("entropy")]
    mixed = model("gemma2")
    of_layers = BatchMeasure(mixed, one_batch(mixed).encoded, BatchOptions(chance=True)).numbers(
        "chance"
    )
    assert np.allclose(entropy, entropy[:, :1])  # one window in all layers
    longest = of_layers[-1, :, 0, BatchOptions().baselines.index("entropy")]
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
    assert counts[0] == n - FAR - 1 > 1 and counts.sum() == n
