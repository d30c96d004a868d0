"""Lab 5: one matrix or two, what both cost, their rank, and heads' parts that add up."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import mha_viz as mv
from mha_viz.learn.activations import record_activations, spread
from mha_viz.learn.labs.value_output import numbers as lab
from tests.making.comparing import close
from tests.making.families import build

TEXT = "The old dog slept while the young cat watched."
EVERYTHING = ("pattern", "z", "query", "key", "value")


@pytest.fixture(scope="module", params=["tiny-bert", "tiny-gpt2"])
def shipped(request):
    model = mv.load(request.param)
    return model, model.trace(TEXT, keep=EVERYTHING)


def test_two_matrices_and_their_product_write_the_same(shipped):
    model, record = shipped
    for layer in (0, 3):
        seen, weights = record_activations(model, record, layer), model.attention_weights(layer)
        for head in range(record.n_heads):
            found = lab.two_ways(weights, head, record.pattern[layer, head], seen.Y)
            assert found.difference < 1e-5 * max(found.size, 1)
            own = record.head_output[layer, head]
            close(found.apart, own)


def test_shared_value_heads_are_merged_with_their_own_query_head():
    model = build("llama")  # three key heads for six query heads
    record = model.trace("the cat sat on a mat", keep=EVERYTHING)
    seen, weights = record_activations(model, record, 1), model.attention_weights(1)
    for head in range(6):
        found = lab.two_ways(weights, head, record.pattern[1, head], seen.Y)
        torch.testing.assert_close(found.merged, record.head_output[1, head], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("n", "d_model", "d_value"), [(7, 24, 6), (50, 24, 24), (3, 8, 20)])
def test_the_bill_is_what_torch_counts(n, d_model, d_value):
    tokens, pattern = torch.ones(n, d_model), torch.ones(n, n)
    W_V, W_O, W_VO = (
        torch.ones(s) for s in ((d_model, d_value), (d_value, d_model), (d_model,) * 2)
    )
    counted = []
    for way in (lambda: pattern @ (tokens @ W_V) @ W_O, lambda: pattern @ (tokens @ W_VO)):
        with FlopCounterMode(display=False) as counter:
            way()
        counted.append(counter.get_total_flops() // 2)  # a product and a sum each
    found = lab.bill(n, d_model, d_value)
    assert found.operations == tuple(counted)
    assert found.parameters == (W_V.numel() + W_O.numel(), W_VO.numel())


def test_merging_is_dearer_below_the_break_even_and_cheaper_above():
    for n, d_model in ((1, 64), (100, 64), (5000, 64), (12, 768)):
        edge = lab.bill(n, d_model, 1).break_even
        assert d_model / 2 < edge < d_model
        for d_value in range(1, 2 * d_model):
            apart, merged = lab.bill(n, d_model, d_value).operations
            assert (merged < apart) == (d_value > edge + 1e-9) or d_value == edge
    # near d/2 for short texts, near d for long ones
    assert lab.bill(1, 1000, 1).break_even == pytest.approx(500, rel=0.01)
    assert lab.bill(100_000, 100, 1).break_even == pytest.approx(100, rel=0.01)


def test_the_rank_is_at_most_d_head(shipped):
    model, _ = shipped
    for layer in (0, 2):
        weights = model.attention_weights(layer)
        found = lab.spectrum(weights, 4)
        product = (weights.W_V[4].double() @ weights.W_O[4].double()).numpy()
        assert found.rank == np.linalg.matrix_rank(product) <= 32 < len(found.values) == 256
        assert found.all_of_them
        assert found.values[32] < 1e-12 * found.values[0]


def test_the_short_way_to_singular_values_finds_the_same(monkeypatch):
    weights = mv.load("tiny-bert").attention_weights(1)
    whole = lab.spectrum(weights, 2)
    monkeypatch.setattr(lab, "FULL_SVD", 100)
    short = lab.spectrum(weights, 2)
    assert not short.all_of_them and short.rank == whole.rank and len(short.values) == 32
    close(short.values, whole.values[:32])


def test_the_parts_sum_to_the_models_own_output(shipped):
    model, record = shipped
    for layer in range(record.n_layers):
        weights, seen = (
            spread(model.attention_weights(layer)),
            record_activations(model, record, layer),
        )
        found = lab.parts(record.z[layer], weights.W_O, weights.b_O)
        close(found.total, seen.output)
        close(found.outputs, record.head_output[layer])
        without = (seen.output - weights.b_O).norm(dim=-1)
        torch.testing.assert_close(found.norm_of_sum, without, atol=1e-4, rtol=1e-4)
        assert (found.norm_of_sum <= found.sum_of_norms + 1e-5).all()


def test_without_W_O_every_head_writes_into_its_own_slice_and_with_it_into_all():
    random = torch.Generator().manual_seed(1)
    side_by_side = torch.zeros(4, 9, 20)
    for i in range(4):
        side_by_side[i, :, 5 * i : 5 * i + 5] = torch.randn(9, 5, generator=random)
    close(lab.slice_shares(side_by_side), torch.eye(4))
    everywhere = torch.randn(4, 999, 20, generator=random)
    torch.testing.assert_close(
        lab.slice_shares(everywhere), torch.full((4, 4), 0.25), atol=0.02, rtol=0
    )
