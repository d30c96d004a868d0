"""Phi and Phi 3 in all rooms of the circuits; GPT-Neo refused."""

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError
from tests.circuits.test_path_effect import CLEAN, CORRUPT
from tests.engine.test_families import LLAMA_LIKE, SINGLE, small_tokenizer
from tests.making.checkpoints import spread

# Half of Phi's widths are rotated in pairs, so that a head takes a multiple of 4.
PHI = {**LLAMA_LIKE, "head_dim": 12, "hidden_size": 72}
TAKEN_APART = {
    "phi": tf.PhiConfig(**PHI),
    "phi with norms of queries": tf.PhiConfig(**PHI, qk_layernorm=True),
    "phi3": tf.Phi3Config(**LLAMA_LIKE),
}


def made(config: tf.PretrainedConfig) -> AttentionModel:
    torch.manual_seed(0)
    network = spread(tf.AutoModelForCausalLM.from_config(config)).requires_grad_(False)
    return mv.wrap(network, small_tokenizer(template=False))


@pytest.mark.parametrize("name", TAKEN_APART)
def test_parts_sum_to_the_numbers_of_the_run(name):
    model = made(TAKEN_APART[name])
    assert model.n_heads == len(model.trace(CLEAN).tokens)  # axes of one length are told apart
    found = mv.logit_attribution(model, CLEAN)
    ids = torch.tensor([model.tokenizer(CLEAN)["input_ids"]])
    assert abs(found.value - float(model.network(ids).logits[0, -1].max())) <= 1e-5
    assert abs(found.remainder) <= 1e-5 and found.heads.abs().min() > 0
    score = mv.score_attribution(model, CLEAN, 2, 1, 4, 1)
    assert abs(score.remainder) <= 1e-5 and score.value != 0
    path = mv.path_effect(model, CLEAN, CORRUPT, (0, 1), (2, 2, "key"))
    assert path.direct != 0 and abs(path.direct - path.direct_estimate) <= 0.1 * abs(path.direct)
    assert mv.composition(model, "V").score[6:, :6].isnan().all()


def test_families_that_hand_out_weights_alone_are_refused():
    model = made(SINGLE["gpt_neo"])
    asks = [
        lambda: mv.logit_attribution(model, CLEAN),
        lambda: mv.score_attribution(model, CLEAN, 0, 0, 2, 1),
        lambda: mv.path_effect(model, CLEAN, CORRUPT, (0, 1), (1, 2, "key")),
        lambda: mv.composition(model, "K"),
        lambda: mv.flow_graph(model, CLEAN, 3),
    ]
    for ask in asks:
        with pytest.raises(AttentionUnavailableError, match="gpt_neo"):
            ask()
