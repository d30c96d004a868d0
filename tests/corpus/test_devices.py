"""Reductions stay on the device: nothing is fetched, and nothing waited for, while layers come."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

from mha_viz.corpus.batches import Batch
from mha_viz.corpus.edges import Heaviest, layer_edges
from mha_viz.corpus.measuring import CHANCE, LayerSums, Wanted
from mha_viz.corpus.padded import PaddedTexts, Sight
from mha_viz.corpus.profiles import AT, Profile
from mha_viz.corpus.scores import SCORES, PatternSums
from mha_viz.engine.attention_function import LayerTensors
from mha_viz.engine.recording import reduce_texts
from tests.corpus.reference import one_batch, small
from tests.engine.test_families import SINGLE, build

N_LAYERS, N_HEADS, N_VALUE_HEADS, D_HEAD = 3, 4, 2, 6
WANTED = Wanted(0.3, Profile(N_LAYERS, N_HEADS), chance=True)


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
        seen = Sight.of(texts, allowed).seen[:, None]
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


@pytest.mark.parametrize("causal", [True, False])
def test_no_layer_is_fetched_from_its_device(causal: bool) -> None:
    """On "meta" there is nothing to fetch: .item(), .cpu() and places of a mask fail."""
    texts = PaddedTexts.of(batch().encoded, causal, "meta")
    roots = torch.empty(N_LAYERS, N_HEADS, D_HEAD, D_HEAD, device="meta")
    sums = LayerSums(texts, roots, WANTED)
    for one in layers("meta"):
        sums.add(one)
    n_texts, n = texts.real.shape
    shapes = {
        "scores": (n_texts, N_HEADS, len(SCORES)),
        "chance": (n_texts, 2, len(CHANCE)),
        "chance_outputs": (n_texts, N_HEADS, 2, 4),
        "repeating": (n_texts,),
    }
    for name, shape in shapes.items():
        made = getattr(sums, name)
        assert [tuple(one.shape) for one in made] == [shape] * N_LAYERS, name
        assert {one.device.type for one in made} == {"meta"}, name
    for weight, rows in sums.profiles:
        for axis, bins in AT.items():
            assert (weight[axis].shape, rows[axis].shape) == ((N_HEADS, len(bins)), (len(bins),))
            assert weight[axis].device.type == rows[axis].device.type == "meta"
    for edges in sums.edges:
        assert isinstance(edges, Heaviest) and edges.weight.shape == (n_texts, N_HEADS, n, 3)


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "llama"])
def test_no_layer_of_a_whole_run_is_fetched(name: str) -> None:
    """Of encoders, transformers itself asks whether a mask hides anything, once in each run."""
    model = build(SINGLE[name], name)
    encoded = one_batch(model).encoded
    model.network.to("meta")
    roots = torch.empty(model.n_layers, model.n_heads, model.d_head, model.d_head, device="meta")
    texts = PaddedTexts.of(encoded, causal=True, device="meta")
    sums = LayerSums(texts, roots, Wanted(0.3, Profile(model.n_layers, model.n_heads), chance=True))
    reduce_texts(model, encoded, sums.add)
    assert [one.device.type for one in sums.scores] == ["meta"] * model.n_layers


@pytest.mark.parametrize("min_weight", [0.0, 0.2, 0.3, 0.5, 1.0])
def test_the_heaviest_keys_hold_the_edges(
    monkeypatch: pytest.MonkeyPatch, min_weight: float
) -> None:
    """What a graphics card hands on, against what the processor finds."""
    texts = PaddedTexts.of(batch().encoded, causal=True)
    one = layers("cpu")[1]
    sums = PatternSums(one.pattern, texts, Sight.of(texts, None))
    expected = layer_edges(1, sums, min_weight)

    class Elsewhere(torch.Tensor):
        """A tensor of which only its device is said to be another."""

        device = property(lambda self: torch.device("cuda"))  # type: ignore[assignment]

    elsewhere = PatternSums(one.pattern.as_subclass(Elsewhere), texts, sums.sight)
    heaviest = layer_edges(1, elsewhere, min_weight)
    assert isinstance(heaviest, Heaviest)
    found = heaviest.fetched()

    def rows(edges: object) -> np.ndarray:
        names = ("row", "head", "query", "key", "strongest", "weight")
        columns = [np.asarray(getattr(edges, name), float) for name in names]
        return np.stack(columns, 1)[np.lexsort(columns[:4])]

    assert len(rows(expected))
    np.testing.assert_array_equal(rows(found), rows(expected))
