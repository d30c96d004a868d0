"""Measuring the importance of heads leaves the shared model as it is, in several threads, too."""

import copy

import pytest
import torch

from mha_viz.interventions.importance import head_importance
from mha_viz.prediction.replay import replace_modules
from tests.interventions.test_importance import TEXTS, predicting


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
