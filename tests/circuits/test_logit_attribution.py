"""Logits as sums of shares, against the model's own and against components taken away by hooks."""

import copy

import pytest
import torch

import mha_viz as mv
from mha_viz.circuits.attribution.logit_attribution import logit_attribution
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, TextError
from mha_viz.prediction.logits import logits
from tests.making.every_family import (
    PREDICTING,
    TOLERANCE,
    build,
    encoded,
    in_both_precisions,
    text_for,
)


@torch.no_grad()
def own_logits(model: AttentionModel, text: str, position: int) -> torch.Tensor:
    return logits(model.network, [encoded(model, text)])[0, position]


@pytest.mark.parametrize(("name", "dtype"), in_both_precisions(PREDICTING))
def test_shares_sum_to_the_logit_the_difference_and_the_log_probability(name, dtype):
    tolerance = TOLERANCE[dtype]
    model, text = build(name, dtype, predicts=True), text_for(name)
    found = logit_attribution(model, text, token="mat")
    own = own_logits(model, text, found.position)
    mat, street = (model.tokenizer.convert_tokens_to_ids(word) for word in ("mat", "street"))
    size = float(own.abs().max())
    assert found.token_id == mat and abs(found.value - float(own[mat])) <= tolerance * size
    assert abs(found.sum() - float(own[mat])) <= tolerance * size
    assert abs(found.remainder) <= tolerance * size
    difference = logit_attribution(model, text, "mat", versus="street")
    assert abs(difference.sum() - float(own[mat] - own[street])) <= tolerance * size
    nats = logit_attribution(model, text, "mat", of="log_probability")
    assert abs(nats.sum() - float(own.log_softmax(-1)[mat])) <= tolerance * size
    heads = torch.stack(
        [s for c, s in zip(found.components, found.shares, strict=True) if c.kind == "head"]
    )
    miss = (found.heads.flatten() - heads).abs().max()
    assert float(miss) <= tolerance * size


class Frozen:
    """The network again by hooks: norms and gates divide as before, writers give what they gave."""

    def __init__(self, model: AttentionModel, ids: torch.Tensor) -> None:
        self.network = copy.deepcopy(model.network)
        self.network.set_attn_implementation("eager")
        self.ids, self.heard = ids, {}
        self.frozen, self.without = False, {}
        bert = model.family == "bert"
        ends = ("output.dense", "embeddings.word_embeddings") if bert else ("c_proj", "mlp", "wte")
        for name, module in self.network.named_modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.register_forward_hook(self.norm(name))
            elif name.endswith("transform_act_fn"):
                module.register_forward_hook(self.gate(name))
            elif name.endswith(ends) and not name.endswith("mlp.c_proj"):
                module.register_forward_hook(self.writer(name))
        self.whole = self.logits()
        self.frozen = True

    @torch.no_grad()
    def logits(self, **without: torch.Tensor) -> torch.Tensor:
        self.without = without
        return self.network(input_ids=self.ids).logits[0]

    def norm(self, name):
        def hook(module, args, output):
            x = args[0] - args[0].mean(-1, keepdim=True)
            if not self.frozen:
                self.heard[name] = (x.square().mean(-1, keepdim=True) + module.eps).sqrt()
            return x / self.heard[name] * module.weight + module.bias

        return hook

    def gate(self, name):
        def hook(module, args, output):
            if not self.frozen:
                self.heard[name] = output / args[0]
            return args[0] * self.heard[name]

        return hook

    def writer(self, name):
        def hook(module, args, output):
            if not self.frozen:
                self.heard[name] = args[0], output
            return self.heard[name][1] - self.without.get(name, 0)

        return hook


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_share_is_what_is_lost_without_the_component_with_the_norms_frozen(name):
    model, text = build(name, torch.float64, predicts=True), text_for(name)
    found = logit_attribution(model, text, "mat")
    share = dict(zip((c.name for c in found.components), found.shares.tolist(), strict=True))
    own = Frozen(model, torch.tensor([encoded(model, text).input_ids]))
    layers = "bert.encoder.layer" if name == "bert" else "transformer.h"
    attention, mlp = (
        ("attention.output.dense", "output.dense") if name == "bert" else ("attn.c_proj", "mlp")
    )
    embedding = "bert.embeddings.word_embeddings" if name == "bert" else "transformer.wte"

    def lost(path: str, part: torch.Tensor) -> float:
        return float((own.whole - own.logits(**{path: part}))[found.position, found.token_id])

    assert abs(lost(embedding, own.heard[embedding][1]) - share["embedding"]) <= 1e-9
    for layer in range(model.n_layers):
        path = f"{layers}.{layer}.{mlp}"
        assert abs(lost(path, own.heard[path][1]) - share[f"L{layer} MLP"]) <= 1e-9
        path, weights = f"{layers}.{layer}.{attention}", model.attention_weights(layer)
        z = own.heard[path][0].unflatten(-1, (model.n_heads, -1))
        heads = torch.einsum("bqhd,hdm->hbqm", z - weights.b_V, weights.W_O)
        for head, part in enumerate(heads):
            assert abs(lost(path, part) - share[f"L{layer} H{head}"]) <= 1e-9


def test_a_masked_model_masks_the_position_that_is_asked_for():
    model = mv.load("tiny-bert")
    typed = mv.logit_attribution(model, "The [MASK] sat on the mat.", "cat")
    asked = mv.logit_attribution(model, "The cat sat on the mat.", "cat", position=2)
    assert asked.value == pytest.approx(typed.value)
    with pytest.raises(TextError, match=r"\[MASK\]"):
        mv.logit_attribution(model, "The cat sat on the mat.")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(token="antidisestablishment"), "tokens"),
        (dict(token=10**6), "target"),
        (dict(token="cat", versus="cat"), "versus"),
        (dict(position=99), "position"),
        (dict(of="loss"), "of must be"),
        (dict(token="a", versus="the", of="log_probability"), "of="),
    ],
)
def test_bad_arguments_are_one_sentence(given, message):
    with pytest.raises(ArgumentError, match=message):
        logit_attribution(mv.load("tiny-gpt2"), "The cat sat", **given)
