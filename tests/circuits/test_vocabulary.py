"""A head and the running stream read as tokens."""

import pytest
import torch

import mha_viz as mv
from mha_viz.circuits.attribution.vocabulary import head_tokens, logit_lens
from mha_viz.prediction.predict import predict
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
