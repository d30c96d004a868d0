"""A head and the running stream read as tokens."""

import copy

import pytest
import torch
from torch import Tensor, nn

import mha_viz as mv
from mha_viz.circuits.attribution.vocabulary import head_tokens, logit_lens
from mha_viz.engine.model import AttentionModel
from mha_viz.prediction.predict import predict
from tests.circuits.test_path_effect import CLEAN, asked, predicting
from tests.making.comparing import near
from tests.making.every_family import PREDICTING, build, text_for


@pytest.mark.parametrize("name", PREDICTING)
def test_the_last_guess_is_the_prediction(name):
    model, text = build(name, predicts=True), text_for(name)
    found = logit_lens(model, text, "mat", top_k=3)
    own = predict(model, text, top_k=3)
    assert found.ids.shape == (model.n_layers + 1, 3)
    assert found.probabilities[-1].tolist() == near(own.probabilities)
    mat = model.tokenizer.convert_tokens_to_ids("mat")
    assert float(found.chosen[-1]) == near(float(own.log_probs[mat].exp()))


def test_the_guess_after_a_layer_is_that_of_a_model_which_ends_there():
    model = mv.load("tiny-gpt2")
    found = logit_lens(model, "Once upon a", "time")
    text = model.tokenizer("Once upon a", return_tensors="pt")["input_ids"]
    states = model.network(text, output_hidden_states=True).hidden_states
    network = model.network
    for depth, state in enumerate(states[:-1]):  # transformers puts the last one through the norm
        logits = network.lm_head(network.transformer.ln_f(state[0, -1]))
        own = float(logits.softmax(-1)[found.token_id])
        assert float(found.chosen[depth]) == pytest.approx(own, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2"])
def test_a_heads_tokens_are_those_whose_logits_it_moves_most(name):
    model = mv.load(name)
    text = "The [MASK] sat on the mat." if name == "tiny-bert" else "Once upon a"
    found = head_tokens(model, text, 2, 5, top_k=4)
    best = mv.logit_attribution(model, text, found.promoted_ids[0], found.suppressed_ids[0])
    difference = float(best.heads[2, 5])
    assert difference == pytest.approx(float(found.raised[0] - found.lowered[0]), abs=1e-4)
    generator = torch.Generator().manual_seed(0)
    for number in torch.randint(model.d_vocab, (5,), generator=generator).tolist():
        if number not in (found.promoted_ids[0], found.suppressed_ids[0]):
            other = mv.logit_attribution(model, text, number, found.suppressed_ids[0])
            assert -1e-5 <= float(other.heads[2, 5]) <= difference + 1e-5
    assert len(found.table()) == 4 and not found.raised.requires_grad
    assert len(head_tokens(model, text, 2, 5).promoted) == 10


def shifted(model: AttentionModel) -> AttentionModel:
    """The same model, its unembedding untied, with one vector added to each of its rows."""
    network = copy.deepcopy(model.network)
    unembedding = network.get_output_embeddings()
    rng = torch.Generator().manual_seed(7)
    step = 3 * torch.randn(unembedding.weight.shape[1], generator=rng, dtype=torch.float64)
    unembedding.weight = nn.Parameter(unembedding.weight.detach() + step, requires_grad=False)
    assert unembedding.weight is not network.get_input_embeddings().weight
    return AttentionModel(network, model.tokenizer, name=model.name)


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_what_is_said_of_a_prediction_does_not_change(name: str) -> None:
    model = predicting(name, double=True)
    other, at = shifted(model), asked(model)["position"]

    def attributed(each: AttentionModel, **of: object) -> Tensor:
        found = mv.logit_attribution(each, CLEAN, "mat", position=at, **of)
        assert abs(found.remainder) < 1e-4
        return torch.cat([found.shares, found.sources.flatten()])

    for of in (dict(versus="cat"), dict(of="log_probability")):
        torch.testing.assert_close(
            attributed(model, **of), attributed(other, **of), rtol=1e-4, atol=1e-5
        )
    assert not torch.allclose(attributed(model), attributed(other), atol=1e-2)  # the model's own
    tokens = [mv.head_tokens(each, CLEAN, 1, 2, at, top_k=3) for each in (model, other)]
    torch.testing.assert_close(tokens[0].raised, tokens[1].raised, rtol=1e-4, atol=1e-5)
    assert tokens[0].promoted_ids == tokens[1].promoted_ids
