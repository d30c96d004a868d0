"""The loss of texts: against the networks' own, alone and together, and what has none."""

import pytest
import torch
import transformers as tf

from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import (
    ArgumentError,
    AttentionUnavailableError,
    TextError,
)
from mha_viz.prediction.replay import ReplayingPass
from mha_viz.prediction.replay import losses as losses_without
from mha_viz.prediction.targets import prediction_targets
from tests.making.checkpoints import HEADS, LAYERS, OTHER, TEXT, spread, tokenizer
from tests.making.comparing import close
from tests.making.families import FAMILIES
from tests.making.losses import plain_losses

MASK = 4
SHORT = "a cat ran"


def losses(model, texts, off=(), share=0.15, **options) -> torch.Tensor:
    """(text,): the loss with these heads off."""
    return losses_without(model, prediction_targets(model, texts, share), [off], **options)[0]


def own_causal_loss(model: AttentionModel, text: str) -> float:
    ids = torch.tensor([model.tokenizer(text)["input_ids"]])
    with torch.no_grad():
        return float(model.network(input_ids=ids, labels=ids).loss)


def own_masked_loss(model: AttentionModel, text: str, step: int = 7) -> float:
    """Compute the network's own loss with every step-th of the text's own tokens hidden."""
    ids = torch.tensor(model.tokenizer(text)["input_ids"])
    own = [i for i, token in enumerate(ids.tolist()) if token not in (2, 3)]
    step = min(step, len(own))
    total = 0.0
    for first in range(step):
        places = own[first::step]
        hidden, labels = ids.clone(), torch.full_like(ids, -100)
        hidden[places], labels[places] = MASK, ids[places]
        with torch.no_grad():
            found = model.network(input_ids=hidden[None], labels=labels[None]).loss
        total += float(found) * len(places)
    return total / len(own)


# -- against the networks' own -------------------------------------------------------------------


@pytest.mark.parametrize("text", [TEXT, OTHER, SHORT])
def test_it_is_the_networks_own_loss(models, text):
    close(losses(models["gpt2"], text)[0], own_causal_loss(models["gpt2"], text))
    close(losses(models["bert"], text)[0], own_masked_loss(models["bert"], text))


@pytest.mark.parametrize(("share", "step"), [(1.0, 1), (0.5, 2), (1 / 3, 3), (0.15, 7), (0.01, 8)])
def test_a_share_of_the_tokens_is_hidden_at_once(models, share, step):
    targets = prediction_targets(models["bert"], OTHER, share)  # 8 words
    assert len(targets.rows) == step
    assert sorted(place for places in targets.positions for place in places) == list(range(1, 9))
    for row, places, answers in zip(targets.rows, targets.positions, targets.answers, strict=True):
        assert [i for i, token in enumerate(row.input_ids) if token == MASK] == list(places)
        assert max(len(places) for places in targets.positions) - len(places) <= 1
        assert answers == tuple(models["bert"].tokenizer(OTHER)["input_ids"][i] for i in places)
    found = losses(models["bert"], OTHER, share=share)
    close(found[0], own_masked_loss(models["bert"], OTHER, step))


def test_a_mask_that_was_typed_is_not_asked_for(models):
    targets = prediction_targets(models["bert"], "the [MASK] sat on a mat", 1.0)
    assert targets.positions == ((1, 3, 4, 5, 6),)


# -- alone and together --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_settings_together_are_plain_passes(models, name):
    model, texts = models[name], [TEXT, OTHER]
    off = [[], [0], [3, 14], range(LAYERS * HEADS), [0]]
    found = losses_without(model, prediction_targets(model, texts), off)
    assert found.shape == (5, 2)
    for one, heads in zip(found, off, strict=True):
        gates = torch.ones(LAYERS, HEADS)
        gates.view(-1)[list(heads)] = 0.0
        close(one, plain_losses(model, texts, gates))
        close(one, losses(model, texts, heads))
    assert torch.equal(found[1], found[4])  # to the bit: what is asked for twice runs once
    assert (found[0] - found[3]).abs().min() > 1e-4


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_pass_takes_any_factors(models, name):
    gates = torch.rand(5, LAYERS, HEADS, generator=torch.Generator().manual_seed(1)) * 2
    targets = prediction_targets(models[name], TEXT)
    with torch.no_grad():
        sums = targets.of_texts(-ReplayingPass(models[name], targets).log_p(gates))
    close(sums / targets.n_answers, plain_losses(models[name], TEXT, gates))


# -- what has no loss ----------------------------------------------------------------------------


def test_nothing_to_predict(models):
    with pytest.raises(TextError, match=r"Text 2 of 2 has one token for .*gpt2"):
        losses(models["gpt2"], [TEXT, "cat"])
    with pytest.raises(TextError, match="no token of its own"):
        losses(models["bert"], "[MASK]")
    assert losses(models["bert"], "cat").isfinite().all()
    with pytest.raises(TextError, match="no text"):
        losses(models["bert"], [])
    with pytest.raises(TextError, match="empty"):
        losses(models["bert"], [TEXT, " "])
    for share in (0.0, -1.0, 1.1, float("nan")):
        with pytest.raises(ArgumentError, match="masked_share"):
            prediction_targets(models["bert"], TEXT, share)


def test_a_long_text_is_cut_and_says_so(models):
    targets = prediction_targets(models["gpt2"], ["cat " * 50, TEXT])
    assert len(targets.answers[0]) == models["gpt2"].n_ctx - 1
    assert targets.n_answers.tolist() == [models["gpt2"].n_ctx - 1, 5]
    assert len(targets.notes) == 1 and "was cut" in targets.notes[0]


def test_models_without_a_loss():
    network = tf.AutoModelForMaskedLM.from_config(
        FAMILIES["distilbert"][0], attn_implementation=IMPLEMENTATION
    )
    model = AttentionModel(spread(network), tokenizer(pairs=False), name="without a mask")
    model.tokenizer.mask_token = None
    with pytest.raises(AttentionUnavailableError, match="has no mask token"):
        losses(model, TEXT)
    sizes = dict(
        vocab_size=model.d_vocab, hidden_size=20, num_hidden_layers=2, num_attention_heads=5
    )
    network = tf.AutoModelForMaskedLM.from_config(tf.DebertaV2Config(**sizes, intermediate_size=37))
    model = AttentionModel(network, tokenizer(pairs=False), name="by itself")
    with pytest.raises(AttentionUnavailableError, match="computes its attention by itself"):
        losses(model, TEXT)
