"""A vector added to every row of W_U changes no share of a difference or of a probability."""

import copy

import pytest
import torch
from torch import Tensor, nn

import mha_viz as mv
from mha_viz.engine.model import AttentionModel
from tests.circuits.test_path_effect import CLEAN, asked, predicting


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
