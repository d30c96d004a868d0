"""Composition against explicit products of d_model x d_model matrices, and its z-score."""

import math
from collections.abc import Callable

import pytest
import torch
import transformers as tf
from torch import Tensor

import mha_viz as mv
from mha_viz.circuits.composition import head_pairs as module
from mha_viz.circuits.composition import pair_products
from mha_viz.circuits.composition.factored_matrix import FactoredMatrix
from mha_viz.circuits.composition.head_pairs import composition
from mha_viz.circuits.composition.pair_products import (
    _by_products,
    _by_tiles,
    later_squared_norms,
)
from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, NotKeptError
from tests.circuits.networks import NETWORKS, SIZES, build, in_order
from tests.families import tiny
from tests.making.checkpoints import spread, tokenizer


def explicit(model: AttentionModel, name: str, layer: int, head: int) -> tuple[Tensor, Tensor]:
    """W_QK and W_OV of a head as d_model x d_model matrices, the layer's own norms in them."""
    family, weights = NETWORKS[name], model.attention_weights(layer)
    key_head = head * model.n_kv_heads // model.n_heads
    norm = in_order(family.reading(model.network, layer), model.d_model)
    after = in_order(family.writing(model.network, layer), model.d_model)
    if all_centre(name):
        after = after - after.mean(1, keepdim=True)
    W_QK = norm @ weights.W_Q[head] @ weights.W_K[key_head].T @ norm.T
    return W_QK, norm @ weights.W_V[key_head] @ weights.W_O[head] @ after


def all_centre(name: str) -> bool:
    return name in ("gpt2", "opt", "phi", "modernbert")


def pairs(
    model: AttentionModel, name: str, kind: str
) -> Callable[[int, int], tuple[Tensor, Tensor]]:
    """Return, for two heads, W_OV of the earlier as it arrives and what the later reads by."""
    n_heads = model.n_heads
    heads = [explicit(model, name, *divmod(i, n_heads)) for i in range(model.n_layers * n_heads)]
    passing = NETWORKS[name].passing

    def pair(one: int, two: int) -> tuple[Tensor, Tensor]:
        between = range(one // n_heads, two // n_heads)
        norms = [norm for layer in between for norm in passing(model.network, layer)]
        W_QK, W_OV = heads[two]
        read = {"Q": W_QK, "K": W_QK.T, "V": W_OV}[kind]
        return heads[one][1] @ in_order(norms, model.d_model), read

    return pair


@pytest.mark.parametrize("name", NETWORKS)
def test_is_what_explicit_products_give(name: str) -> None:
    model = build(name)
    for kind in "QKV":
        found = composition(model, kind)
        pair, n = pairs(model, name, kind), model.n_layers * model.n_heads
        assert found.score.shape == found.zscore.shape == (n, n)
        assert found.score.dtype == torch.float64
        for one in range(n):
            for two in range(n):
                if one // model.n_heads >= two // model.n_heads:
                    assert math.isnan(found.score[one, two]) and math.isnan(found.zscore[one, two])
                    continue
                written, read = pair(one, two)
                expected = (written @ read).norm() / (written.norm() * read.norm())
                assert float(found.score[one, two]) == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama"])
def test_z_score_is_that_of_many_random_rotations(name: str) -> None:
    model = build(name)
    n_samples, rng = 4000, torch.Generator().manual_seed(7)
    d_model, n = model.d_model, model.d_model - all_centre(name)
    # The dimensions that readers can see: all, or those whose entries sum to 0.
    start = torch.eye(d_model, dtype=torch.float64)
    start[:, 0] = 1.0
    seen = torch.linalg.qr(start).Q[:, d_model - n :]
    turns, signs = torch.linalg.qr(torch.randn(n_samples, n, n, generator=rng, dtype=torch.float64))
    turns = turns * signs.diagonal(dim1=-2, dim2=-1).sign()[:, None]
    for kind, one, two in [("K", 1, model.n_heads), ("V", 0, 2 * model.n_heads + 1)]:
        found = composition(model, kind)
        assert found.expected == pytest.approx(n**-0.5)
        written, read = pairs(model, name, kind)(one, two)
        left, right = written @ seen, seen.T @ read
        squares = (left @ turns @ right).square().sum((1, 2))
        squares /= (written.norm() * read.norm()) ** 2
        mean, deviation = float(squares.mean()), float(squares.std())
        assert mean == pytest.approx(1 / n, abs=4 * deviation / n_samples**0.5)
        z = (float(found.score[one, two]) ** 2 - 1 / n) / deviation
        assert float(found.zscore[one, two]) == pytest.approx(z, rel=0.06)


def test_the_table_holds_every_pair_once_highest_z_first() -> None:
    found = composition(build("bert"), "V")
    table = found.table()
    assert len(table) == 3 * found.n_heads**2  # of layers 0-1, 0-2 and 1-2
    assert table.zscore.is_monotonic_decreasing
    for row in table.sample(20, random_state=1).itertuples():
        one = row.sender_layer * found.n_heads + row.sender_head
        two = row.receiver_layer * found.n_heads + row.receiver_head
        assert row.score == found.score[one, two] and row.zscore == found.zscore[one, two]
        assert row.expected == found.expected


def test_a_head_of_zeros_has_no_score_and_stops_nobody() -> None:
    model = build("gpt2")
    with torch.no_grad():
        model.network.transformer.h[0].attn.c_proj.weight[: model.d_head] = 0.0
    found = composition(model, "K")
    assert found.score[0].isnan().all()
    assert found.score[1, model.n_heads :].isfinite().all()
    assert found.table().zscore.isna().sum() == 2 * model.n_heads  # those of L0 H0, last


def test_kinds_families_and_sizes_that_do_not_compose_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ArgumentError, match="'q'"):
        composition(mv.load("tiny-gpt2"), "q")
    model = built(tf.GraniteConfig(**GROUPED, residual_multiplier=0.3))
    with pytest.raises(NotKeptError):
        composition(model)
    config = tf.RecurrentGemmaConfig(**tiny.sizes(tf.RecurrentGemmaConfig))
    with pytest.raises(NotKeptError, match="its layers without attention write into it"):
        composition(mv.wrap(tiny.build(config), tiny.tiny_tokenizer()))
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    with pytest.raises(ArgumentError):
        composition(mv.load("tiny-gpt2"))


GROUPED = SIZES | dict(hidden_size=24, num_attention_heads=4, num_key_value_heads=2)


def built(config: tf.PretrainedConfig) -> AttentionModel:
    """A random network of a family, with our attention."""
    network = tf.AutoModel.from_config(config, attn_implementation=IMPLEMENTATION)
    return AttentionModel(spread(network), tokenizer(pairs=False), name=config.model_type)


def test_normed_queries_and_keys_are_refused_but_values_are_not() -> None:
    model = built(tf.Qwen3Config(**GROUPED, head_dim=6))
    for kind in "QK":
        with pytest.raises(NotKeptError):
            composition(model, kind)
    assert composition(model, "V").score[:4, 4:].isfinite().all()


def test_gains_of_0_in_the_stream_are_not_divided_by() -> None:
    model = build("bert")
    layers = model.network.bert.encoder.layer
    with torch.no_grad():
        layers[0].attention.output.LayerNorm.weight[:5] = 0.0
        layers[1].output.LayerNorm.weight[3:7] = 1e-12
    found, pair = composition(model, "Q"), pairs(model, "bert", "Q")
    for one, two in ((1, model.n_heads + 2), (0, 2 * model.n_heads), (model.n_heads, -1)):
        written, read = pair(one, two % len(found.score))
        expected = (written @ read).norm() / (written.norm() * read.norm())
        assert float(found.score[one, two]) == pytest.approx(float(expected), rel=1e-9)


def test_heads_of_a_single_layer_do_not_compose():
    config = tf.GPT2Config(vocab_size=60, n_positions=16, n_embd=12, n_layer=1, n_head=2)
    network = tf.GPT2LMHeadModel._from_config(config, attn_implementation=IMPLEMENTATION)
    model = AttentionModel(spread(network), tokenizer(pairs=False), name="one layer")
    assert composition(model, "K").zscore.isnan().all()


def expected_squares(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.einsum("mjd,ndk->mnjk", left, right).square().sum((2, 3))


def test_both_ways_give_what_products_give() -> None:
    rng = torch.Generator().manual_seed(3)
    for m, n, j, k, d in [(5, 3, 7, 2, 37), (1, 1, 1, 1, 1), (2, 11, 3, 3, 61)]:
        left = torch.randn(m, j, d, generator=rng, dtype=torch.float64)
        right = torch.randn(n, d, k, generator=rng, dtype=torch.float64)
        for way in (_by_products, _by_tiles):
            found = way(left, right)
            torch.testing.assert_close(found, expected_squares(left, right), rtol=1e-12, atol=0)


@pytest.mark.parametrize("k", [1, 19])  # few multiplications by the products, and by tiles
def test_pairs_of_later_layers_are_what_products_give(k: int) -> None:
    rng = torch.Generator().manual_seed(11)
    n_layers, n_heads, d = 7, 3, 23
    left = torch.randn(n_layers * n_heads, k, d, generator=rng, dtype=torch.float64)
    right = torch.randn(n_layers * n_heads, d, k, generator=rng, dtype=torch.float64)
    layer = torch.arange(n_layers * n_heads) // n_heads
    later = layer[:, None] <= layer  # those on the right begin one layer above
    found = later_squared_norms(left, right, n_heads)[later]
    torch.testing.assert_close(found, expected_squares(left, right)[later], rtol=1e-12, atol=0)


def test_tiles_and_parts_that_do_not_divide_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_products, "_CELLS", 1)  # the smallest tiles and parts
    rng = torch.Generator().manual_seed(5)
    left = torch.randn(3, 5, 41, generator=rng, dtype=torch.float64)
    right = torch.randn(7, 41, 2, generator=rng, dtype=torch.float64)
    expected = expected_squares(left, right)
    torch.testing.assert_close(_by_tiles(left, right), expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(_by_products(left, right), expected, rtol=1e-12, atol=0)


def test_factored_matrix_has_the_columns_and_eigenvalues_of_its_product() -> None:
    rng = torch.Generator().manual_seed(7)
    A = torch.randn(2, 9, 3, generator=rng, dtype=torch.float64)
    B = torch.randn(2, 3, 9, generator=rng, dtype=torch.float64)
    matrix = FactoredMatrix(A, B)
    for one, product in ((matrix, A @ B), (matrix.T, (A @ B).mT)):
        unit = product / torch.linalg.matrix_norm(product, keepdim=True)
        factor = one.column_factor
        torch.testing.assert_close(factor @ factor.mT, unit @ unit.mT)
        expected = torch.linalg.eigvals(product).abs().sort(descending=True).values[:, :3]
        torch.testing.assert_close(one.eigenvalues.abs().sort(descending=True).values, expected)
    assert FactoredMatrix(A, 0 * B).column_factor.isnan().all()
