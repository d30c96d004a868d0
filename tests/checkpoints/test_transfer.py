"""Models taken apart, sent as a cluster sends them, and put together: the same to the last bit."""

import dataclasses
import pickle
from typing import Any

import pytest
import torch

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import assemble, disassemble, untrained_copy
from mha_viz.corpus.store.manifest import model_identity
from mha_viz.errors import ArgumentError


def sent(model: Any) -> Any:
    return assemble(pickle.loads(pickle.dumps(disassemble(model))))


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
def test_what_arrives_is_the_same_model(name: str) -> None:
    for model in (mv.load(name), untrained_copy(mv.load(name))):
        there = sent(model)
        assert model_identity(there) == model_identity(model)
        text = "The cat sat on the mat."
        assert torch.equal(there.trace(text).pattern, model.trace(text).pattern)


def test_its_limits_and_its_precision_travel_with_it() -> None:
    model = mv.load("tiny-bert", dtype="bfloat16")
    model.cut_texts(100_000)
    there = sent(model)
    assert there.n_ctx == model.n_ctx < 128 and there.dtype == torch.bfloat16


def test_a_network_that_its_config_does_not_build_is_refused() -> None:
    parts = disassemble(mv.load("tiny-bert"))
    weights = dict(parts.weights)
    weights.popitem()
    with pytest.raises(ArgumentError, match="BertForMaskedLM, which its config alone does not"):
        assemble(dataclasses.replace(parts, weights=weights))
