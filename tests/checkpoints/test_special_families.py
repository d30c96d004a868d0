"""Families that need more than the usual to load, or that say what they lack."""

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.checkpoints.config_limits import check_limits
from mha_viz.checkpoints.loading import size_of
from mha_viz.errors import AttentionUnavailableError, BrokenCheckpointError, UnsafeCheckpointError
from tests.families.tiny import build, tiny_config, tiny_tokenizer
from tests.making.checkpoints import bert, bounded, copy, tokenizer

TEXT = "ba de fi lo"


@pytest.mark.parametrize("family", ["trocr", "emu3", "gemma4_text"])
def test_a_text_part_that_no_loader_knows_loads_by_its_own_class(tmp_path, family):
    network = build(tiny_config(family))
    network.save_pretrained(tmp_path / "part")
    tiny_tokenizer().save_pretrained(tmp_path / "part")
    record = mv.load(str(tmp_path / "part")).trace(TEXT)
    assert torch.allclose(record.pattern, mv.wrap(network, tiny_tokenizer()).trace(TEXT).pattern)
    stored = sum(weight.numel() for weight in network.parameters())
    assert 0 <= size_of(str(tmp_path / "part"), "float32").n_parameters - stored < 100


def test_a_part_of_another_model_says_what_to_do(tmp_path):
    build(tiny_config("emu3")).save_pretrained(tmp_path / "good")
    tiny_tokenizer().save_pretrained(tmp_path / "good")
    bad = copy(tmp_path / "good", tmp_path / "bad", architectures=["EmuOfTomorrow"])
    with pytest.raises(BrokenCheckpointError, match=r"part of a larger model .*mv\.wrap"):
        mv.load(str(bad))
    network = build(tiny_config("voxtral_realtime"))
    with pytest.raises(AttentionUnavailableError, match=r"exactly one of input_features .*capture"):
        mv.wrap(network, tiny_tokenizer())


def test_a_network_that_reads_no_text_without_a_language_takes_its_first():
    config = tiny_config("xmod")
    config.default_language, config.languages = None, ["de_DE", "en_XX"]
    network = build(config)
    model = mv.wrap(network, tiny_tokenizer())
    assert network.config.default_language == "de_DE" and "“de_DE”" in model.notes[0]
    german = model.trace(TEXT).pattern
    network.set_default_language("en_XX")
    assert not torch.equal(model.trace(TEXT).pattern[1:], german[1:])


def test_a_whole_number_may_be_written_as_a_float():
    check_limits({"max_position_embeddings": 1200.0}, "good")
    with pytest.raises(UnsafeCheckpointError, match=r"max_position_embeddings = 1200\.5"):
        check_limits({"max_position_embeddings": 1200.5}, "bad")


def test_what_is_no_weight_may_be_infinite_but_not_nan():
    network: tf.PreTrainedModel = bert()
    network.register_buffer("limit", torch.tensor(float("-inf")))
    assert mv.wrap(network, tokenizer(pairs=True)).n_layers
    network.limit.fill_(float("nan"))
    with pytest.raises(BrokenCheckpointError, match="in limit"):
        mv.wrap(network, tokenizer(pairs=True))


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
