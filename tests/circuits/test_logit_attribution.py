"""Logits as sums of shares, against the model's own and against components taken away by hooks."""

import pytest
import torch

import mha_viz as mv
from mha_viz.circuits.attribution.logit_attribution import logit_attribution
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, TextError
from mha_viz.prediction.logits import logits
from tests.circuits.frozen_reference import FrozenNetwork
from tests.circuits.plain_paths import note, put
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


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_share_is_what_is_lost_without_the_component_with_the_norms_frozen(name):
    model, text = build(name, torch.float64, predicts=True), text_for(name)
    found = logit_attribution(model, text, "mat")
    share = dict(zip((c.name for c in found.components), found.shares.tolist(), strict=True))
    ids = encoded(model, text).input_ids
    own = FrozenNetwork(model, ids)
    writers = [own.network.get_input_embeddings(), *own.outputs, *own.mlps]
    written = [None] * len(writers)
    own.run(ids, *(note(module, written, i) for i, module in enumerate(writers)))

    def lost(writer: int, part: torch.Tensor) -> float:
        """Return what the logit loses while all other writers write what they wrote."""
        less = [tensor - part if i == writer else tensor for i, tensor in enumerate(written)]
        logits = own.run(ids, *map(put, writers, less))
        return float((own.logits.detach() - logits)[found.position, found.token_id])

    assert abs(lost(0, written[0]) - share["embedding"]) <= 1e-9
    for layer in range(model.n_layers):
        mlp = 1 + model.n_layers + layer
        assert abs(lost(mlp, written[mlp]) - share[f"L{layer} MLP"]) <= 1e-9
        weights = model.attention_weights(layer)
        z = own.z[layer].detach().unflatten(-1, (model.n_heads, -1))
        heads = torch.einsum("bqhd,hdm->hbqm", z - weights.b_V, weights.W_O)
        for head, part in enumerate(heads):
            assert abs(lost(1 + layer, part) - share[f"L{layer} H{head}"]) <= 1e-9


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
