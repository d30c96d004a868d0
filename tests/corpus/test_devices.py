"""Reductions stay on the device: nothing is fetched, and nothing waited for, while layers come."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

from mha_viz.corpus.measure.batches import Batch
from mha_viz.corpus.measure.edges import HeaviestKeys, layer_edges
from mha_viz.corpus.measure.measuring import BatchOptions, LayerSums
from mha_viz.corpus.measure.padded import PaddedTexts, visible_keys
from mha_viz.corpus.measure.pair_similarity import MEASURES, PairSums
from mha_viz.corpus.measure.profiles import Profile
from mha_viz.engine.probe import LayerTensors
from mha_viz.engine.recording import reduce_texts
from mha_viz.engine.run import Run
from tests.corpus.elsewhere import There
from tests.corpus.reference import one_batch, small
from tests.engine.test_families import SINGLE, build
from tests.making.comparing import close

N_LAYERS, N_HEADS, N_VALUE_HEADS, D_HEAD = 3, 4, 2, 6


@functools.cache
def batch() -> Batch:
    return one_batch(small("bert"))


def layers(device: str) -> list[LayerTensors]:
    """Made-up layers of the batch; the last sees less than the others."""
    dice = torch.Generator().manual_seed(0)
    texts = PaddedTexts.of(batch().encoded, causal=True)
    n_texts, n = texts.real.shape
    window = torch.ones(n, n, dtype=torch.bool).tril().triu(-2)[None]
    found = []
    for layer in range(N_LAYERS):
        allowed = window if layer == N_LAYERS - 1 else None
        seen = visible_keys(texts, allowed).keys[:, None]
        scores = 3 * torch.randn(n_texts, N_HEADS, n, n, generator=dice)
        pattern = scores.masked_fill(~seen, -1e9).softmax(-1) * seen
        z, value = (
            torch.randn(n_texts, heads, n, D_HEAD, generator=dice)
            for heads in (N_HEADS, N_VALUE_HEADS)
        )
        tensors = (pattern, z, value, allowed)
        found.append(
            LayerTensors(layer, *(None if one is None else one.to(device) for one in tensors))
        )
    return found


@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_no_layer_of_a_whole_run_is_fetched(name: str) -> None:
    """transformers itself asks of encoders whether a mask hides anything, once in each run."""
    model = build(SINGLE[name], name)
    encoded = one_batch(model).encoded
    model.network.to("meta")
    roots = torch.empty(model.n_layers, model.n_heads, model.d_head, model.d_head, device="meta")
    texts = PaddedTexts.of(encoded, causal=True, device="meta")
    sums = LayerSums(
        texts, roots, BatchOptions(0.3, Profile(model.n_layers, model.n_heads), chance=True)
    )
    reduce_texts(model, encoded, sums.add)
    assert [one.device.type for one in sums.scores] == ["meta"] * model.n_layers


@pytest.mark.parametrize("min_weight", [0.0, 0.3, 1.0])
def test_the_heaviest_keys_hold_the_edges(
    monkeypatch: pytest.MonkeyPatch, min_weight: float
) -> None:
    """A graphics card hands on what the processor finds."""
    texts = PaddedTexts.of(batch().encoded, causal=True)
    one = layers("cpu")[1]
    one.pattern[:, :, 1] = 0.0
    one.pattern[:, :, 1, :2] = torch.tensor([0.7, 0.3])  # the second of just some least weight
    expected = layer_edges(1, one.pattern, texts, min_weight)
    heaviest = layer_edges(1, There("cuda").bring(one.pattern), texts, min_weight)
    assert isinstance(heaviest, HeaviestKeys)
    found = heaviest.edges()

    def rows(edges: object) -> np.ndarray:
        names = ("row", "head", "query", "key", "strongest", "weight")
        columns = [np.asarray(getattr(edges, name), float) for name in names]
        return np.stack(columns, 1)[np.lexsort(columns[:4])]

    assert len(rows(expected))
    np.testing.assert_array_equal(rows(found), rows(expected))


def left(made: list[LayerTensors], there: There | None = None) -> Run:
    """Return what a run holds of layers for the pairs of their heads."""
    kept = {name: [getattr(one, name) for one in made] for name in ("pattern", "z")}
    if there is not None:
        kept = {name: list(map(there.bring, tensors)) for name, tensors in kept.items()}
    return Run(kept, None)


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_of_pairs_only_matrices_of_heads_are_fetched(kind: str) -> None:
    n_all, there = N_LAYERS * N_HEADS, There(kind)
    ours, theirs = PairSums(n_all), PairSums(n_all)
    ours.add(left(layers("cpu")), batch().encoded)
    with there:
        theirs.add(left(layers("cpu"), there), batch().encoded)
    a, b = (one.table().to_pandas().select_dtypes("number") for one in (ours, theirs))
    close(a, b)
    matrices = [n for n in there.fetched if n > 1]  # others: whether anything is not defined
    if kind == "cuda":  # sums over all texts
        assert matrices == [3 * len(MEASURES) * n_all**2]
    else:  # where there is no float64, they are added up here
        assert matrices == [len(MEASURES) * n_all**2] * len(batch().encoded)
    assert max(matrices) < n_all * max(len(text.tokens) for text in batch().encoded) ** 2
