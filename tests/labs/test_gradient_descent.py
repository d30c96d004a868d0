"""Lab 9, its gradients: the bound that theory states, and the chain rule to a head's W_Q."""

import numpy as np
import pytest
import torch

from mha_viz.learn.labs.how_heads_learn import numbers as lab
from mha_viz.learn.networks import induction_transformer as learning
from mha_viz.learn.training import weights_of

TIMES = torch.arange(1, 400, 4)


def bound(times, squared):
    return lab.bound(times - 1, squared)


def test_the_bound_is_on_the_running_mean_of_squares_and_from_above():
    squared = 5 / TIMES  # faster than the bound: nothing wrong with that
    found = bound(TIMES, squared)
    times, mean, line = (found.curves[name].to_numpy() for name in ("t", "mean", "line"))
    assert found.exceeded is None and times.tolist() == TIMES.tolist()
    assert mean == pytest.approx(np.cumsum(squared.double().numpy()) / np.arange(1, len(TIMES) + 1))
    first = (times >= lab.FIRST_STEP) & (times <= times[-1] / 2)
    assert found.factor == pytest.approx(lab.SLACK * (np.sqrt(times) * mean)[first].max())
    assert line == pytest.approx(found.factor / np.sqrt(times))


@pytest.mark.parametrize("power", [0.0, 0.2])
def test_gradients_that_shrink_too_slowly_break_it(power):
    found = bound(TIMES, TIMES.double() ** -power)
    assert 200 < found.exceeded < 397
    above = found.curves.set_index("t").eval("mean > line")
    assert above[found.exceeded] and not above[found.exceeded - 4]


def test_the_rule_itself_keeps_it_and_a_few_numbers_tell_nothing():
    assert bound(TIMES, TIMES.double() ** -0.5).exceeded is None
    assert bound(torch.arange(1, 13), torch.ones(12)) is None
    assert bound(TIMES[:0], torch.ones(0)) is None


@pytest.mark.parametrize("n_heads", [1, 2, 4, 8])
def test_the_chain_rule_is_what_autograd_finds(n_heads):
    random = torch.Generator().manual_seed(n_heads)
    model = learning.TinyTransformer(n_heads, random)
    (ids, period), head = learning.repeat_tokens(1, (8, 8), random), n_heads - 1
    chain = lab.chain_rule(n_heads, weights_of(model), ids[0].tolist(), 8, head)
    learning.loss_of(model, (ids, period))[0].backward()
    own = model.layers[-1].W_Q.grad[head]
    torch.testing.assert_close(chain.links[-1].float(), own, rtol=1e-3, atol=1e-7)
    assert chain.difference < 1e-13
    # the last link adds up over queries
    d_q = chain.links[-2]
    torch.testing.assert_close(chain.links[-1], torch.einsum("qi,qj->ij", chain.tokens, d_q))


def test_each_link_has_its_shape_and_blame_adds_up():
    model = learning.TinyTransformer(4, torch.Generator().manual_seed(0))
    ids = learning.repeat_tokens(1, (16, 16), torch.Generator().manual_seed(1))[0][0].tolist()
    links = lab.chain_rule(4, weights_of(model), ids, 16, 2).links
    n, d, h, vocab = learning.N_CTX, learning.D_MODEL, learning.D_MODEL // 4, learning.D_VOCAB
    expected = [(n, vocab), (n, d), (n, d), (n, h), (n, n), (n, n), (n, h), (d, h)]
    assert [tuple(link.shape) for link in links] == expected
    logits, _, residual, _, _, scores, _, _ = links
    # softmax and LayerNorm do not see a constant; what cannot be known is not asked for
    for sums in (logits.sum(-1), residual.sum(-1), scores.sum(-1)):
        torch.testing.assert_close(sums, torch.zeros_like(sums), atol=1e-14, rtol=0)
    assert (logits[:15] == 0).all() and (logits[31] == 0).all()
    assert (logits[15:31].abs().sum(-1) > 0).all() and (scores.triu(1) == 0).all()
