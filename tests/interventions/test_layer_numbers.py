"""Heads of a model with layers without attention are switched by the model's own layer numbers."""

import copy

import pytest
import torch

import mha_viz as mv
from mha_viz.circuits.effects.tested_heads import Faithfulness
from tests.making.hybrids import jamba

TEXT = "ba da fa ba da fa ka"
OTHER = "ba da fa ba ka fa ka"


@pytest.fixture(scope="module")
def model() -> mv.AttentionModel:
    return jamba()


def zeroed(model: mv.AttentionModel, layer: int, head: int) -> torch.Tensor:
    """The log-probabilities of the network itself with a head's columns of its W_O set to zero."""
    network = copy.deepcopy(model.network)
    network.set_attn_implementation("eager")
    weight = network.model.layers[layer].self_attn.o_proj.weight
    d_head = weight.shape[1] // model.n_heads
    with torch.inference_mode():
        weight[:, head * d_head : (head + 1) * d_head] = 0
        ids = model.tokenizer(TEXT, return_tensors="pt").input_ids
        return network(ids).logits[0].double().log_softmax(-1)


@pytest.mark.parametrize("head", [(3, 1), (7, 2)])
def test_a_head_is_switched_off_in_the_layer_of_its_number(model, head):
    found = mv.ablate(model, TEXT, [head])
    expected = zeroed(model, *head)
    torch.testing.assert_close(found.after.log_probs.double(), expected[-1], atol=1e-5, rtol=0)
    assert repr(found).startswith(f"Ablation(zero L{head[0]} H{head[1]}, ") and found.kl > 1e-4
    # a mean loss over the next tokens, by each way of naming the head
    ids = torch.tensor(model.tokenizer(TEXT).input_ids)
    with torch.inference_mode():
        with_all = model.network(ids[None]).logits[0].double().log_softmax(-1)
    losses = [-one[:-1].gather(1, ids[1:, None]).mean() for one in (expected, with_all)]
    table = mv.head_importance(model, TEXT).table().set_index(["layer", "head"])
    assert table.importance[head] == pytest.approx(float(losses[0] - losses[1]), abs=1e-4)
    assert set(table.index) == {(layer, j) for layer in (3, 7) for j in range(4)}


@pytest.mark.parametrize("head", [(0, 1), (1, 1), (4, 0), (7, 4), (-1, 0)])
def test_a_layer_without_attention_is_refused_by_name(model, head):
    message = rf"jamba has no L{head[0]} H{head[1]}: layers with attention are 3, 7 and heads 0..3"
    with pytest.raises(mv.errors.ArgumentError, match=message):
        mv.ablate(model, TEXT, [head])
    with pytest.raises(mv.errors.ArgumentError, match=message):
        mv.path_effect(model, TEXT, OTHER, head)


def test_paths_and_circuits_name_their_heads(model, tmp_path):
    ways = {"target": "ba", "against": "da"}
    change = mv.ablate(model, TEXT, [(3, 1)], "patch_z", source=OTHER, **ways)
    total = change.logit_difference_after - change.logit_difference_before
    paths = mv.path_effects(model, TEXT, OTHER, way="total", **ways)
    assert paths.at_logits[0, 1] == pytest.approx(total, abs=1e-4)
    paths.measure()
    ends = ["sender_layer", "sender_head", "layer", "head", "input"]
    assert paths.table().set_index(ends).effect[3, 1, 7, 2, "value"] == paths.exact[0, 1, 1, 2, 2]
    # layers without attention answer to a sender: nothing holds them as it holds heads and MLPs
    with pytest.raises(mv.errors.AttentionUnavailableError, match="no path is direct"):
        mv.path_effect(model, TEXT, OTHER, (3, 1), **ways)
    task = mv.make_task(model, "induction", n_examples=6)
    tested = mv.faithfulness(model, task, [(3, 1), (7, 0)], n_random=2)
    tested.save(tmp_path / "circuit.json")
    back = Faithfulness.load(tmp_path / "circuit.json")
    assert back == tested and back.heads == ((3, 1), (7, 0)) and back.layer_numbers == (3, 7)


def test_a_stream_into_which_other_layers_write_is_not_taken_apart(model):
    # what such a layer writes is no share of any head, MLP or embedding
    for split in (mv.logit_attribution, mv.logit_lens, mv.prediction_graph):
        with pytest.raises(mv.errors.AttentionUnavailableError, match="layers without attention"):
            split(model, TEXT)
