"""Attention through all layers, against values by hand, networkx and vectors laid out in full."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from mha_viz.core.metrics import flow
from mha_viz.core.metrics.flow import (
    attention_flow,
    attention_rollout,
    last_rollout,
    value_weighted,
)
from mha_viz.errors import ArgumentError, DTypeError, ShapeError
from tests.core import patterns
from tests.making.comparing import close

LAYERS, HEADS, N, D_VALUE, D_MODEL = 3, 5, 7, 11, 13


def random_pattern(layers: int = LAYERS, n: int = N, causal: bool = False) -> Tensor:
    return patterns.random_pattern(n, causal=causal, seed=3, layers=layers, heads=HEADS)


def two_layers() -> Tensor:
    """Two heads in each layer; their means are [[1, 0], [0.6, 0.4]] and [[0.5, 0.5], [0.2, 0.8]]"""
    first = [[[1.0, 0.0], [0.8, 0.2]], [[1.0, 0.0], [0.4, 0.6]]]
    second = [[[0.7, 0.3], [0.4, 0.6]], [[0.3, 0.7], [0.0, 1.0]]]
    return torch.tensor([first, second])


# -- rollout -------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("residual", [0.0, 0.3, 0.5])
def test_rollout_is_the_product_of_all_layers(causal, residual):
    pattern = random_pattern(causal=causal).double()
    M = residual * torch.eye(N) + (1 - residual) * pattern.mean(1)
    got = attention_rollout(pattern.float(), residual)
    assert got.shape == (LAYERS, N, N) and got.dtype == torch.float32
    close(got[-1], M[2] @ M[1] @ M[0])
    close(last_rollout(pattern.float(), residual), got[-1])
    close(got.sum(-1), torch.ones(LAYERS, N))
    assert not causal or got.triu(1).count_nonzero() == 0


def test_rows_of_nothing_keep_themselves():
    pattern = random_pattern()
    pattern[:, :, 2] = 0.0
    got = attention_rollout(pattern)
    close(got[:, 2], torch.eye(N)[2].expand(LAYERS, N))
    close(got.sum(-1), torch.ones(LAYERS, N))  # scaled back to 1 after the residual was added
    bare = attention_rollout(pattern, residual=0.0)
    assert bare.isfinite().all() and bare[:, 2].count_nonzero() == 0
    pattern[:, :, 4] *= 0.5  # half of its mass was removed: 0.5 of itself against 0.25
    M = attention_rollout(pattern)[0, 4]
    close(M, (torch.eye(N)[4] * 0.5 + 0.5 * pattern[0, :, 4].mean(0)) / 0.75)


# -- flow ----------------------------------------------------------------------------------------


def test_flow_by_hand():
    # From token 1: 0.9 to itself, 0.1 to token 0, and then at most 0.3 and 1 to input 0.
    close(attention_flow(two_layers(), query=1), [0.1 + 0.3, 0.7])
    close(attention_flow(two_layers(), query=0), [0.75 + 0.25, 0.25])
    close(attention_flow(two_layers()[:1], query=1), [0.3, 0.7])  # one layer: its own row


def test_flow_counts_from_the_end_too_and_is_a_share():
    pattern = random_pattern()
    assert torch.equal(attention_flow(pattern, -1), attention_flow(pattern, N - 1))
    identity = torch.eye(N).expand(LAYERS, HEADS, N, N)
    close(attention_flow(identity, 3), torch.eye(N)[3])
    uniform = torch.full((2, 1, N, N), 1 / N)
    assert attention_flow(uniform, 3).max() <= 1.0
    close(attention_flow(torch.zeros(2, 1, N, N), 3, residual=0.0), torch.zeros(N), atol=0)


def test_the_work_of_the_longest_text_that_flow_takes_is_the_limit(monkeypatch):
    """A problem for each token, in a network with an edge for each weight: layer * key ** 3."""
    edges = []

    def solve(network, source, sink, method):
        edges.append(network.nnz)
        return SimpleNamespace(flow_value=0)

    monkeypatch.setattr("scipy.sparse.csgraph.maximum_flow", solve)
    n = int((flow.FLOW_LIMIT / 12) ** (1 / 3))
    attention_flow(random_pattern(12, n), query=n - 1)
    assert len(edges) == n and 0.9 * flow.FLOW_LIMIT < sum(edges) <= flow.FLOW_LIMIT
    with pytest.raises(ArgumentError, match=f"at most {n} tokens in 12 layers, got {n + 1}"):
        attention_flow(torch.eye(n + 1).expand(12, 1, n + 1, n + 1), query=0)


# -- weights with what they carry ----------------------------------------------------------------


def test_query_heads_that_share_values_have_their_own_output_weights():
    pattern, value = random_pattern(), torch.randn(LAYERS, 1, N, D_VALUE)
    W_O = [torch.randn(HEADS, D_VALUE, D_MODEL) for _ in range(LAYERS)]
    repeated = value.expand(-1, HEADS, -1, -1)
    close(value_weighted(pattern, value, W_O), value_weighted(pattern, repeated, W_O))


def test_vectors_that_the_output_weights_cancel_carry_nothing():
    value = torch.randn(1, 1, 2, 3)
    W_O = torch.randn(1, 3, D_MODEL)
    W_O[0, 2] = -(value[0, 0, 0, 0] * W_O[0, 0] + value[0, 0, 0, 1] * W_O[0, 1]) / value[0, 0, 0, 2]
    got = value_weighted(torch.full((1, 1, 1, 2), 0.5), value, [W_O])
    assert 0 <= got[0, 0, 0, 0] < 1e-6 < 0.1 < got[0, 0, 0, 1]
    zeros = value_weighted(torch.full((1, 1, 1, 2), 0.5), torch.zeros(1, 1, 2, 3), [W_O])
    assert zeros.count_nonzero() == 0  # and no NaN of a square root below zero


# -- what is wrong is said -----------------------------------------------------------------------

P = random_pattern()
V, W = torch.zeros(LAYERS, HEADS, N, 2), [torch.zeros(HEADS, 2, 3)] * LAYERS


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: attention_rollout(P[0]), ShapeError, "layer, head, query, key"),
        (lambda: attention_rollout(P.long()), DTypeError, "floating point"),
        (lambda: attention_rollout(P[..., :4]), ArgumentError, "self-attention.*7 queries and 4"),
        (lambda: attention_rollout(P, 1.5), ArgumentError, r"residual must be in \[0, 1\], got"),
        (lambda: attention_flow(P, 7), ArgumentError, r"query must lie in 0\.\.6, got 7"),
        (lambda: value_weighted(P[0], V, W), ShapeError, "layer, head, query, key"),
        (lambda: value_weighted(P, V[:1], W), ShapeError, r"value must be \(3, 5, 7\)"),
        (lambda: value_weighted(P, V, W[:2]), ShapeError, "in each of 3 layers"),
        (lambda: value_weighted(P, V, [w.mT for w in W]), ShapeError, r"\(5, 2, d_model\)"),
        (lambda: value_weighted(P, V.long(), W), DTypeError, "value must be floating"),
        (lambda: value_weighted(P, V, [w.long() for w in W]), DTypeError, "W_O must be floating"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(call, error, message):
    with pytest.raises(error, match=message):
        call()
