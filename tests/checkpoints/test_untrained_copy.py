"""The same model with random weights: its architecture, its seeds, and what it leaves alone."""

import dataclasses
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.modules.module as registration

import mha_viz as mv
from mha_viz.checkpoints import untrained_copy as module
from mha_viz.checkpoints.untrained_copy import assemble, disassemble, untrained_copy
from mha_viz.corpus.store.manifest import model_identity
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, UnsafeCheckpointError
from tests.making.checkpoints import TEXT
from tests.making.families import build

FAMILIES = ["bert", "gpt2", "t5", "llama"]


@pytest.fixture(scope="module")
def originals(models) -> dict[str, AttentionModel]:
    return models | {name: build(name) for name in ("t5", "llama")}


@pytest.fixture(params=FAMILIES)
def model(originals, request) -> AttentionModel:
    return originals[request.param]


def weights(model: AttentionModel) -> dict[str, torch.Tensor]:
    return {name: w.detach().clone() for name, w in model.network.named_parameters()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def test_it_is_the_same_architecture_with_other_weights(model):
    untrained = untrained_copy(model)
    mine, theirs = weights(model), weights(untrained)
    assert {k: (w.shape, w.dtype) for k, w in mine.items()} == {
        k: (w.shape, w.dtype) for k, w in theirs.items()
    }
    matrices = [name for name, w in mine.items() if w.ndim > 1]
    assert matrices and not any(torch.equal(mine[name], theirs[name]) for name in matrices)
    assert type(untrained.network) is type(model.network)
    attributes = "family parts backend n_layers n_heads n_kv_heads d_head d_model n_ctx d_vocab"
    for name in [*attributes.split(), "causal", "device", "dtype"]:
        assert getattr(untrained, name) == getattr(model, name), name
    assert untrained.tokenizer is model.tokenizer
    assert untrained.name == f"{model.name} (random weights)" and "seed 0" in untrained.notes[0]
    assert not untrained.network.training
    assert not any(p.requires_grad for p in untrained.network.parameters())


def test_a_seed_is_one_model(model):
    first, again, other = (weights(untrained_copy(model, seed)) for seed in (7, 7, 11))
    assert equal(first, again) and not equal(first, other)
    assert not any(torch.equal(first[k], other[k]) for k, w in first.items() if w.ndim > 1)


def test_the_original_and_torchs_random_numbers_stay_as_they_are(model):
    before, config = weights(model), model.network.config.to_dict()
    record = model.trace(TEXT)
    torch.manual_seed(23)
    expected = torch.rand(5)
    torch.manual_seed(23)
    untrained_copy(model, seed=5)
    assert torch.equal(torch.rand(5), expected)
    assert equal(weights(model), before) and model.network.config.to_dict() == config
    assert model.trace(TEXT) == record
    assert torch.get_default_dtype() == torch.float32


def test_weights_are_those_that_training_begins_with(models):
    """BERT's and GPT-2's own initialisation: normal, of the config's width; biases zero."""
    for untrained in (untrained_copy(models["bert"]), untrained_copy(models["gpt2"])):
        embedding = untrained.network.get_input_embeddings().weight
        assert 0.01 < embedding.std() < 0.03
        for name, bias in weights(untrained).items():
            if name.endswith("bias"):
                assert bias.count_nonzero() == 0, name


def test_a_twin_is_made_while_others_load(folders, models):
    expected = weights(untrained_copy(models["gpt2"], seed=3))
    load = partial(mv.load, str(folders["bert"]), dtype="bfloat16")
    twin = partial(untrained_copy, models["gpt2"], seed=3)
    with ThreadPoolExecutor(2) as threads:
        loaded, twins = threads.map(lambda make: [make() for _ in range(5)], (load, twin))
    assert all(model.dtype == torch.bfloat16 for model in loaded)
    assert all(equal(weights(untrained), expected) for untrained in twins)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_default_dtype_of_other_threads_stays_while_a_model_is_built(dtype):
    """Torch's is that of all threads: their tensors would be of half precision meanwhile."""
    seen = set()

    def note(*_: object) -> None:
        seen.add(torch.get_default_dtype())

    with registration.register_module_parameter_registration_hook(note):
        model = mv.load("tiny-gpt2", dtype=dtype)  # its config.json names float16
        both = model, untrained_copy(model)
    assert seen == {torch.float32}
    assert {w.dtype for one in both for w in weights(one).values()} == {getattr(torch, dtype)}


def test_what_cannot_be_copied_is_refused_before_it_is_built(monkeypatch, models):
    model = build("llama")
    monkeypatch.setattr(model.network.config, "vocab_size", 100_000_000)
    with pytest.raises(UnsafeCheckpointError, match="describes a model of too many numbers"):
        untrained_copy(model)
    monkeypatch.undo()  # all networks of a family have one config
    model = build("llama")
    monkeypatch.setattr(model.network.config, "hidden_size", 60)
    with pytest.raises(ArgumentError, match="which its config alone does not build"):
        untrained_copy(model)
    parts = disassemble(mv.load("tiny-bert"))
    weights = dict(parts.weights)
    weights.popitem()
    with pytest.raises(ArgumentError, match="BertForMaskedLM, which its config alone does not"):
        assemble(dataclasses.replace(parts, weights=weights))
    monkeypatch.setattr(module, "built", lambda *_: pytest.fail("went on"))
    with pytest.raises(ArgumentError, match="seed must be 0 or more, got -1"):
        untrained_copy(models["bert"], seed=-1)


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
