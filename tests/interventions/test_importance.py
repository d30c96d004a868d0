"""The importance of heads: against networks with W_O zeroed, finite differences, plain passes."""

import copy

import pytest
import scipy.stats
import torch
import transformers as tf

from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.interventions import importance as module
from mha_viz.interventions.importance import agreement, head_importance, t_interval
from mha_viz.prediction import replay
from mha_viz.prediction.replay import ReplayingPass, losses, replace_modules
from mha_viz.prediction.targets import ONE_TEXT, prediction_targets
from tests.engine.test_families import CAUSAL, FALLBACK, SINGLE, families
from tests.making.checkpoints import OTHER, TEXT, spread, tokenizer
from tests.making.families import FAMILIES
from tests.making.losses import plain_losses

CONFIGS = {name: config for name, config in SINGLE.items() if name not in FALLBACK}
CONFIGS |= {f"{name} (wide)": FAMILIES[name][0] for name in ("distilbert", "llama", "opt")}
NO_REUSE = {"albert"}
TEXTS = [TEXT, OTHER, "a cat ran"]


def predicting(name: str) -> AttentionModel:
    """A tiny random network of that family with its prediction head."""
    causal = name.split()[0] in CAUSAL
    auto = tf.AutoModelForCausalLM if causal else tf.AutoModelForMaskedLM
    network = auto.from_config(copy.deepcopy(CONFIGS[name]), attn_implementation=IMPLEMENTATION)
    return AttentionModel(spread(network), tokenizer(pairs=not causal), name=name)


@pytest.fixture(scope="module")
def wide() -> AttentionModel:
    return predicting("llama (wide)")


def all_but_one(model: AttentionModel) -> torch.Tensor:
    total = model.n_layers * model.n_heads
    return (1 - torch.eye(total)).reshape(-1, model.n_layers, model.n_heads)


# -- heads off -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", families(CONFIGS))
def test_ablation_is_that_of_separate_passes(name):
    model = predicting(name)
    found = head_importance(model, TEXTS)
    assert found.values.shape == (3, model.n_layers, model.n_heads)
    plain = plain_losses(model, TEXTS)
    assert (found.loss - plain).abs().max() <= 1e-5
    gated = plain_losses(model, TEXTS, all_but_one(model)) - plain
    assert (found.values - gated.T.reshape(found.values.shape)).abs().max() <= 2e-5
    assert found.values.abs().max() > 1e-3  # something happened


@pytest.mark.parametrize("name", families(CONFIGS))
def test_layers_below_are_not_run_again(name, monkeypatch):
    model = predicting(name)
    ran = []
    for number, layer in enumerate(model.layers()):
        layer.module.register_forward_pre_hook(lambda *_, number=number: ran.append(number))
    targets = prediction_targets(model, TEXT, 1.0)
    losses(model, targets, [[model.n_layers * model.n_heads - 1]])  # a head of the last layer
    every = list(range(model.n_layers))
    if name in NO_REUSE:
        assert len(ran) == model.n_layers**2  # the one module has as many hooks
    else:
        assert ran == [*every, every[-1], every[-1]]  # recorded, checked, and the head off


def test_a_network_that_hands_more_than_states_from_layer_to_layer_is_run_as_a_whole(models):
    model = AttentionModel(
        copy.deepcopy(models["gpt2"].network), models["gpt2"].tokenizer, name="odd"
    )
    network = model.network
    seen = {}
    # The last layer adds what the first one says by another way.
    layers = network.transformer.h
    layers[0].register_forward_hook(lambda _m, _a, out: seen.update(first=out))
    layers[-1].register_forward_hook(lambda _m, _a, out: out + seen.pop("first", out))
    prepared = ReplayingPass(model, prediction_targets(model, TEXT))
    assert not prepared.record(lambda n: None)
    gates = all_but_one(model)
    plain = plain_losses(model, TEXT, gates)
    found = head_importance(model, TEXT)
    expected = (plain - found.loss).T.reshape(found.values.shape)
    assert (found.values - expected).abs().max() <= 2e-5


def test_what_would_take_too_much_memory_is_not_recorded(models, monkeypatch):
    expected = head_importance(models["bert"], TEXTS)
    monkeypatch.setattr(replay, "MAX_RECORDED_BYTES", 10)
    assert not ReplayingPass(models["bert"], prediction_targets(models["bert"], TEXT)).record(
        lambda n: None
    )
    found = head_importance(models["bert"], TEXTS)
    assert (found.values - expected.values).abs().max() <= 2e-5


@pytest.mark.parametrize("budget", [1, 40])
def test_small_budgets_change_nothing(models, monkeypatch, budget):
    for name in ("bert", "gpt2"):
        whole = [
            head_importance(models[name], TEXTS, method) for method in ("ablation", "gradient")
        ]
        with monkeypatch.context() as patch:
            patch.setattr("mha_viz.prediction.replay.MAX_TOKENS", budget)
            patch.setattr(module, "GRADIENT_TOKENS", budget)
            for expected in whole:
                found = head_importance(models[name], TEXTS, expected.method)
                assert (found.values - expected.values).abs().max() <= 2e-5


# -- by gradient ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "step", "tolerance"),
    # Llama takes its norms in float32, whatever its weights are.
    [("gpt2", 1e-5, 1e-8), ("bert", 1e-5, 1e-8), ("llama (wide)", 1e-2, 1e-4)],
)
def test_the_gradient_is_that_of_finite_differences(name, step, tolerance):
    model = predicting(name)
    model = AttentionModel(model.network.double(), model.tokenizer, name="double")
    found = head_importance(model, TEXTS, "gradient")
    gates = step * (1 - all_but_one(model))
    ones = torch.ones_like(gates, dtype=torch.float64)
    above, below = (plain_losses(model, TEXTS, ones + sign * gates) for sign in (1, -1))
    slopes = ((above - below) / (2 * step)).T.reshape(found.values.shape).abs()
    assert slopes.max() > 1e-3
    assert (found.values - slopes).abs().max() <= tolerance
    assert torch.equal(found.mean, found.values.mean(0)) and (found.values >= 0).all()
    assert (found.loss - plain_losses(model, TEXTS)).abs().max() <= tolerance


def test_the_gradient_works_where_none_are_recorded_and_leaves_none(models):
    model = models["gpt2"]
    expected = head_importance(model, TEXTS, "gradient")
    model.network.requires_grad_(True)
    with torch.inference_mode():
        found = head_importance(model, TEXTS, "gradient")
    assert all(parameter.grad is None for parameter in model.network.parameters())
    model.network.requires_grad_(False)
    assert torch.equal(found.values, expected.values)


# -- what comes back -----------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "total"), [("ablation", 3 * (1 + 12)), ("gradient", 3)])
def test_progress_is_told_and_may_stop(wide, method, total):
    told = []
    head_importance(wide, TEXTS, method, lambda *n: told.append(n))
    assert told[0] == (0, total) and told[-1] == (total, total)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len(told) > wide.n_layers

    def stop(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        head_importance(wide, TEXTS, method, stop)


@pytest.mark.parametrize("method", ["ablation", "gradient"])
def test_intervals_over_texts(models, method):
    found = head_importance(models["bert"], TEXTS, method)
    low, high = scipy.stats.t.interval(
        0.95, 2, loc=found.values.mean(0), scale=scipy.stats.sem(found.values.numpy(), axis=0)
    )
    assert (found.low - torch.tensor(low)).abs().max() <= 1e-10
    assert (found.high - torch.tensor(high)).abs().max() <= 1e-10
    assert found.n_texts == 3 and found.n_tokens == 6 + 8 + 3 and found.notes == ()
    table = found.table()
    assert list(table.columns) == ["layer", "head", "importance", "low", "high"]
    row = table[(table.layer == 2) & (table["head"] == 1)].iloc[0]
    assert row.importance == found.mean[2, 1] and row.low <= row.importance <= row.high


@pytest.mark.parametrize("method", ["ablation", "gradient"])
def test_copies_of_a_text_count_once(models, method):
    once, copies = (head_importance(models["bert"], TEXTS[:2] * n, method) for n in (1, 20))
    assert copies.n_texts == 2 and copies.n_tokens == once.n_tokens
    for name in ("mean", "low", "high", "values", "loss"):
        assert torch.equal(getattr(copies, name), getattr(once, name))
    assert not once.notes and "Duplicate texts left out: 38." in copies.notes[0]
    alone = head_importance(models["bert"], [TEXT, f"  {TEXT} "], method)
    assert alone.low.isnan().all() and ONE_TEXT in alone.notes


def test_agreement_is_spearmans():
    a, b = torch.rand(2, 4, 5, generator=torch.Generator().manual_seed(0))
    expected = scipy.stats.spearmanr(a.flatten(), b.flatten()).statistic
    assert abs(agreement(a, b).rho - expected) <= 1e-12
    assert agreement(a, -a) == (-1.0, 20)
    b[0, 0] = torch.nan
    assert agreement(a, b).n_heads == 19
    rho, n_heads = agreement(a, torch.ones(4, 5))
    assert rho != rho and n_heads == 20
    with pytest.raises(ShapeError, match="same heads"):
        agreement(a, a.T)


def test_head_importance_refuses_another_method(models):
    with pytest.raises(ArgumentError, match="magic"):
        head_importance(models["bert"], TEXT, "magic")


def test_t_interval_of_one_and_of_equal_texts():
    mean, low, high = t_interval(torch.tensor([[1.0, 2.0]]))
    assert mean.tolist() == [1, 2] and low.isnan().all() and high.isnan().all()
    mean, low, high = t_interval(torch.ones(4, 2))
    assert torch.equal(mean, low) and torch.equal(mean, high)


def everything(network: torch.nn.Module) -> list:
    """Each module with what it holds, by identity, and each parameter's numbers."""
    state = []
    for name, part in network.named_modules():
        hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks)
        held = [dict(part._modules), dict(part._buffers), dict(part._parameters)]
        state.append((name, id(part), part.training, *map(len, hooks)))
        state.append([(key, id(value)) for group in held for key, value in group.items()])
        state.append(sorted(part.__dict__))
    return state


@pytest.mark.parametrize("name", ["bert", "albert", "gpt_oss"])
def test_the_shared_model_is_not_touched(name):
    model = predicting(name)
    before, numbers = everything(model.network), copy.deepcopy(model.network.state_dict())
    for method in ("ablation", "gradient"):
        head_importance(model, TEXTS, method)
    with pytest.raises(ZeroDivisionError):
        head_importance(model, TEXTS, on_progress=lambda done, total: 1 // (done == 0))
    assert everything(model.network) == before
    after = model.network.state_dict()
    assert all(torch.equal(after[key], value) for key, value in numbers.items())


def test_a_copy_shares_all_but_what_stands_in(models):
    network = models["gpt2"].network
    other = torch.nn.Linear(2, 2)
    twin = replace_modules(network, {"transformer.h.1.mlp": other, "lm_head": other})
    assert twin.transformer.h[1].mlp is other and twin.lm_head is other
    assert network.transformer.h[1].mlp is not other and network.lm_head is not other
    assert twin.transformer.h[0] is network.transformer.h[0]
    assert twin.transformer.h[1].attn is network.transformer.h[1].attn
    assert twin.base_model is twin.transformer and twin.config is network.config
