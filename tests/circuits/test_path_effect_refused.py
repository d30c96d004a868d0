"""Path patching: what cannot be patched is refused in a sentence."""

import copy

import pytest
import transformers as tf

import mha_viz as mv
from mha_viz.circuits.effects.path_effect import path_effect
from mha_viz.engine.head_changes import reference_means
from mha_viz.errors import ArgumentError, AttentionUnavailableError, MhaVizError, TextError
from tests.circuits.test_path_effect import CLEAN, CORRUPT, asked, predicting


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict(corrupt="the cat sat"), TextError, "6"),
        (dict(sender=(0, 9)), ArgumentError, "has no L0 H9"),
        (dict(receiver=(0, 1, "key")), ArgumentError, "later layer"),
        (dict(receiver=(1, 1, "pattern")), ArgumentError, "receiver"),
        (dict(metric="magic"), ArgumentError, "metric"),
        (dict(metric="logit", against="cat"), ArgumentError, "against"),
        (dict(metric="kl", target="cat"), ArgumentError, "target"),
        (dict(target="zebra"), MhaVizError, "zebra"),
        (dict(position=99), ArgumentError, "position"),
        (dict(clean=""), TextError, "empty"),
    ],
)
def test_what_cannot_be_patched_is_said_in_a_sentence(models, change, error, message):
    path = dict(clean=CLEAN, corrupt=CORRUPT, sender=(0, 3), receiver=(1, 2, "key"))
    with pytest.raises(error, match=message):
        path_effect(models["gpt2"], **(path | change))


def test_mlps_that_run_in_pieces_cannot_be_held():
    model = predicting("bert")
    config = copy.deepcopy(model.network.config)
    config.chunk_size_feed_forward = 1  # each layer's MLP is called for one token at a time
    network = tf.BertForMaskedLM(config).requires_grad_(False)
    network.load_state_dict(model.network.state_dict())
    pieces = mv.wrap(network, model.tokenizer)
    with pytest.raises(AttentionUnavailableError):
        path_effect(pieces, CLEAN, CORRUPT, (0, 1), (1, 2, "key"), **asked(model))


def test_means_of_another_model(models):
    means = reference_means(predicting("llama"), ["a dog ran"])
    with pytest.raises(ArgumentError):
        path_effect(models["gpt2"], CLEAN, means, (0, 1), "logits")
