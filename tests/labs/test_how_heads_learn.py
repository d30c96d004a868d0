"""Lab 9: what it claims about a tiny model that learns induction."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mha_viz.learn.networks import induction_transformer as lab
from mha_viz.learn.training import with_weights
from tests.making.comparing import close, near


@pytest.fixture(scope="module")
def film() -> lab.Film:
    return lab.film()  # the settings that the page begins with


@pytest.fixture(scope="module")
def short() -> lab.Film:
    return lab.film(n_heads=2, n_steps=20, lr=0.01, seed=3)


def test_the_model_is_causal_and_what_two_plain_layers_are():
    model = lab.TinyTransformer(4, torch.Generator().manual_seed(1))
    ids, _ = lab.repeat_tokens(2, lab.PERIODS, torch.Generator().manual_seed(2))
    logits, patterns = model(ids)
    later = ids.clone()
    later[:, -1] = (later[:, -1] + 1) % lab.D_VOCAB
    close(model(later)[0][:, :-1], logits[:, :-1])
    assert all((pattern.triu(1) == 0).all() for pattern in patterns)
    # the first layer by torch's own attention
    residual = F.layer_norm(model.embed[ids] + model.position, (lab.D_MODEL,))
    mha = model.layers[0]
    q, k, v = (torch.einsum("btd,hde->bhte", residual, w) for w in (mha.W_Q, mha.W_K, mha.W_V))
    z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    close(torch.einsum("bhte,hed->btd", z, mha.W_O), mha(residual, causal=True).output)


@pytest.mark.slow
def test_induction_is_learned_in_the_second_layer(film):
    assert film.numbers["accuracy"][-1] > 0.9 and film.numbers["loss"][-1] < 0.3
    assert film.formed is not None and film.best_head[0] == 1
    scores = film.numbers["induction"]
    assert scores[-1, 1].max() > 0.7 and scores[:, 0].max() < 0.2
    # the first layer passes on what came before
    before = film.numbers["previous"][:, 0].amax(-1)
    assert before[-1] > 2 * before[0]


def test_gradients_and_updates_are_those_of_the_step(short):
    random = torch.Generator().manual_seed(3)
    model = lab.TinyTransformer(2, random)
    ids, period = lab.repeat_tokens(32, lab.PERIODS, random)
    logits, _ = model(ids)
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
    known = torch.arange(1, lab.N_CTX)[None] >= period
    loss = losses[known].mean()
    loss.backward()
    numbers = {name: values[0] for name, values in short.numbers.items()}
    assert float(numbers["loss"]) == near(float(loss.detach()))
    for layer in range(2):
        for head in range(2):
            grad = model.layers[layer].W_Q.grad[head]
            assert float(numbers["gradient"][layer, head]) == pytest.approx(
                float(grad.norm()), rel=1e-4
            )
    # Adam's first step is the rate (warm-up: 1/50 of it) for every entry
    for layer in range(2):
        weight = model.layers[layer].W_Q[0].detach()
        expected = 0.01 / 50 * math.sqrt(weight.numel()) / float(weight.norm())
        assert float(numbers["update"][layer, 0]) == pytest.approx(expected, rel=0.02)


def test_plain_sgd_takes_eta_times_the_gradient_from_every_weight():
    found = lab.film(n_heads=2, n_steps=20, lr=0.5, seed=3, optimizer="sgd", all_weights=True)
    # each step by hand, in float32: the pictures' weights are from before their step
    weights = list(found.weights.values())
    for before, after, step in zip(weights, weights[1:], range(20), strict=False):
        model = with_weights(lab.TinyTransformer(2, torch.Generator()), before)
        random = torch.Generator().manual_seed(3)
        lab.TinyTransformer(2, random)  # takes as many random numbers as the one that was trained
        for _ in range(step + 1):
            texts = lab.repeat_tokens(32, lab.PERIODS, random)
        lab.loss_of(model, texts)[0].backward()
        expected = torch.cat([(w - 0.5 * w.grad).flatten() for w in model.parameters()])
        close(after, expected)
    assert found.numbers["off_rule"].max() < 2e-7 and (found.numbers["rate"] == 0.5).all()
    before, gradient, after = found.numbers["entry"].double().unbind(-1)
    torch.testing.assert_close(before - 0.5 * gradient, after, rtol=0, atol=2e-7)
    assert float(gradient.abs().min()) > 0


def test_two_batches_tell_the_squared_gradient_without_what_chance_adds(short):
    model = lab.TinyTransformer(2, torch.Generator().manual_seed(3))

    def gradient(count, seed):
        model.zero_grad()
        random = torch.Generator().manual_seed(seed)
        lab.loss_of(model, lab.repeat_tokens(count, lab.PERIODS, random))[0].backward()
        return torch.cat([w.grad.flatten() for w in model.parameters()])

    true = float(gradient(2_000, 1).square().sum())
    small = [gradient(4, seed) for seed in range(2, 42)]
    alone = np.mean([float(g.square().sum()) for g in small])
    pairs = np.mean([float(a @ b) for a, b in zip(small[::2], small[1::2], strict=True)])
    assert alone > 1.3 * true and pairs == pytest.approx(true, rel=0.15)
    assert float(short.numbers["squared"][0]) == pytest.approx(true, rel=0.3)


@pytest.mark.parametrize("step", [6, 60, 200])  # the first is below the fewest of a film
def test_the_weights_of_any_step_come_from_training_once_more(step):
    settings = (2, 200, 0.01, 3, "adam")
    film = lab.film(2, 200, 0.01, 3, all_weights=True)
    close(lab.weights_at(settings, step), film.weights[step], atol=0)
