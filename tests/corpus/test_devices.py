"""Reductions stay on the device: nothing is fetched, and nothing waited for, while layers come."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
import torch

from mha_viz.core.metrics.output_weights import output_root
from mha_viz.corpus.measure.batches import Batch
from mha_viz.corpus.measure.edges import HeaviestKeys, layer_edges
from mha_viz.corpus.measure.measuring import BatchOptions, LayerSums
from mha_viz.corpus.measure.padded import PaddedTexts, visible_keys
from mha_viz.corpus.measure.pair_similarity import MEASURES, PairSums
from mha_viz.corpus.measure.profiles import Profile
from mha_viz.corpus.treebank.batch_trees import BatchTrees
from mha_viz.corpus.treebank.gold import TreeCounts
from mha_viz.engine.probe import LayerTensors
from mha_viz.engine.recording import reduce_texts
from mha_viz.engine.run import Run
from tests.corpus.elsewhere import There
from tests.corpus.reference import one_batch, small
from tests.engine.test_families import SINGLE, build
from tests.making.comparing import close
from tests.making.trees import sample, word_tokens

N_LAYERS, N_HEADS, N_VALUE_HEADS, D_HEAD = 3, 4, 2, 6
WANTED = BatchOptions(0.3, Profile(N_LAYERS, N_HEADS), chance=True)


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
        seen = visible_keys(texts, allowed).seen[:, None]
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


SENTENCES = sample()[::30]


def tree_texts() -> list[tuple]:
    """Number, tokens and tree; the second has none."""
    texts = [(i, word_tokens(sentence), sentence) for i, sentence in enumerate(SENTENCES)]
    return [*texts[:1], (99, texts[1][1], None), *texts[1:]]


def tree_patterns(causal: bool) -> torch.Tensor:
    """(layer, text, head, token, token) of `tree_texts`, padded as in a run."""
    lengths = [len(tokens) for _, tokens, _ in tree_texts()]
    pattern = torch.zeros(N_LAYERS, len(lengths), N_HEADS, max(lengths), max(lengths))
    for row, n in enumerate(lengths):
        seen = torch.ones(n, n).tril() if causal else torch.ones(n, n)
        scores = 3 * torch.randn(N_LAYERS, N_HEADS, n, n)
        pattern[:, row, :, :n, :n] = scores.masked_fill(seen == 0, -torch.inf).softmax(-1)
    return pattern


def counted(counts: TreeCounts, texts: list[tuple], pattern: torch.Tensor, device: str) -> None:
    trees = BatchTrees(counts, texts, device)
    for layer, of_layer in enumerate(pattern):
        trees.add(layer, of_layer)
    trees.finish()


def same_tables(ours: TreeCounts, theirs: TreeCounts) -> None:
    others = theirs.tables()
    for name, table in ours.tables().items():
        pd.testing.assert_frame_equal(table.to_pandas(), others[name].to_pandas(), rtol=1e-5)
        assert table.num_rows


@pytest.mark.parametrize("causal", [True, False])
def test_a_batch_of_trees_counts_what_each_of_its_texts_does(causal: bool) -> None:
    """With a text in between that has no tree."""
    pattern, texts = tree_patterns(causal), tree_texts()
    alone, together = TreeCounts(causal=causal), TreeCounts(causal=causal)
    for row, text in enumerate(texts):
        n = len(text[1])
        counted(alone, [text], pattern[:, row : row + 1, :, :n, :n], "cpu")
    counted(together, texts, pattern, "cpu")
    same_tables(alone, together)


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_of_gold_trees_only_counts_are_fetched(kind: str) -> None:
    pattern, texts = tree_patterns(causal=True), tree_texts()
    here, elsewhere = TreeCounts(causal=True), TreeCounts(causal=True)
    counted(here, texts, pattern, "cpu")
    with There(kind) as there:
        counted(elsewhere, texts, there.bring(pattern), kind)
    same_tables(here, elsewhere)
    assert len(there.fetched) == 4 * N_LAYERS  # of relations, antecedents, arcs, parts of speech
    assert max(there.fetched) == 2 * N_HEADS * 17**2


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_what_heads_write_is_known_wherever_the_model_is(kind: str) -> None:
    """Once for each model: by the processor where the device has no float64."""
    weights = [torch.rand(N_HEADS, D_HEAD, 20) for _ in range(N_LAYERS)]
    with There(kind) as there:
        found = output_root([there.bring(one) for one in weights], torch.float32).cpu()
    close(found, output_root(weights, torch.float32))


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_layer_is_summed_up_elsewhere_as_it_is_here(kind: str) -> None:
    """Sums are in float32 where there is no float64."""
    roots = torch.rand(N_LAYERS, N_HEADS, D_HEAD, D_HEAD)
    here = LayerSums(PaddedTexts.of(batch().encoded, causal=True), roots, WANTED)
    for one in layers("cpu"):
        here.add(one)
    with There(kind) as there:
        texts = PaddedTexts.of(batch().encoded, True, kind)
        elsewhere = LayerSums(texts, there.bring(roots), WANTED)
        for one in layers("cpu"):
            names = ("pattern", "z", "value", "allowed")
            tensors = (getattr(one, name) for name in names)
            brought = (None if each is None else there.bring(each) for each in tensors)
            elsewhere.add(LayerTensors(one.layer, *brought))
        assert there.fetched == []
        for name in ("scores", "chance", "chance_outputs", "repeating"):
            found = [each.cpu() for each in getattr(elsewhere, name)]
            close(torch.stack(found), torch.stack(getattr(here, name)))


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


def test_heads_that_are_nearly_alike_are_so_where_there_is_no_float64() -> None:
    """Those few are compared by the processor."""
    made = layers("cpu")
    for one in made:
        one.pattern[:, 1] = one.pattern[:, 0]
        one.pattern[:, 3] = 0.9999 * one.pattern[:, 2] + 0.0001 * one.pattern[:, 0]
    sums = PairSums(N_LAYERS * N_HEADS, ["hellinger"]), PairSums(N_LAYERS * N_HEADS, ["hellinger"])
    sums[0].add(left(made), batch().encoded)
    with There("mps") as there:
        sums[1].add(left(made, there), batch().encoded)
    a, b = (one.table().to_pandas().set_index(["i", "j"])["sum"] for one in sums)
    assert a[0, 1] == b[0, 1] == 0 and 0 < a[2, 3] < 0.02
    close(a, b)
