"""Configs that claim absurd sizes are refused, before anything is laid out in memory."""

import pytest

import mha_viz as mv
from mha_viz.errors import UnsafeCheckpointError
from tests.making.checkpoints import bounded, copy


@pytest.mark.parametrize(
    "claim",
    [
        {"vocab_size": 10**9},
        {"num_hidden_layers": 10**9},
        {"max_position_embeddings": 10**9},
        {"hidden_size": -5},
        {"hidden_size": 1e300},
        {"num_attention_heads": "many"},
        {"text_config": {"model_type": "llama", "num_hidden_layers": 10**9}},
        # Each within the limits, but far beyond what the file of weights explains.
        {"vocab_size": 1_199_999, "hidden_size": 35 * 4096},
        {"num_hidden_layers": 512, "hidden_size": 5 * 2048, "intermediate_size": 100_003},
        {"max_position_embeddings": 10**7},
    ],
    ids=str,
)
def test_config_that_claims_absurd_sizes(folder, tmp_path, claim):
    with bounded(4), pytest.raises(UnsafeCheckpointError, match=r"config\.json of bad"):
        mv.load(str(copy(folder, tmp_path / "bad", **claim)))


def test_absurd_buffers_are_not_laid_out(folder, tmp_path):
    # GPT-Neo keeps a square mask of all positions in each layer.
    claim = {
        "model_type": "gpt_neo",
        "attention_types": [[["global"], 3]],
        "num_layers": 3,
        "num_heads": 5,
        "classifier_dropout": 0.1,
        "max_position_embeddings": 500_000,
    }
    with bounded(4), pytest.raises(UnsafeCheckpointError, match="too many numbers"):
        mv.load(str(copy(folder, tmp_path / "bad", **claim)))
