"""AttentionModel: the weights of all its layers, a matrix for each head."""

import pytest
import torch

from mha_viz.errors import ArgumentError, AttentionUnavailableError
from tests.making.families import build

MATRICES = ("W_Q", "W_K", "W_V", "W_O")


def test_head_weights_of_shared_heads_are_repeated():
    model = build("llama")
    for name in MATRICES:
        for layer, weight in enumerate(model.head_weights(name)):
            own = getattr(model.attention_weights(layer), name)
            assert len(weight) == 6 and len(own) == (3 if name in ("W_K", "W_V") else 6)
            for head in range(6):
                assert torch.equal(weight[head], own[head * len(own) // 6])


def test_head_weights_of_a_part_and_of_nothing(models):
    model = build("t5")
    for part, layers in (("encoder", 2), ("decoder", 3), ("cross", 3)):
        weights = model.head_weights("W_K", part)
        assert len(weights) == layers
        assert torch.equal(weights[1], model.attention_weights(1, part).W_K)
    assert torch.equal(model.head_weights("W_K")[0], model.head_weights("W_K", "encoder")[0])
    for name in ("W_X", "b_Q", "", "scale"):
        with pytest.raises(ArgumentError, match="name must be one of W_Q, W_K, W_V, W_O"):
            model.head_weights(name)
    with pytest.raises(ArgumentError, match=r"part\(s\) self, got 'cross'"):
        models["bert"].head_weights("W_Q", part="cross")


def test_head_weights_of_a_family_that_computes_by_itself(models, monkeypatch):
    monkeypatch.setattr(models["bert"], "backend", "eager")
    for ask in (models["bert"].head_weights, lambda _: models["bert"].attention_weights(0)):
        with pytest.raises(AttentionUnavailableError, match="computes its attention by itself"):
            ask("W_Q")
