"""Predictions and losses: against the network's own numbers, and every way to place a [MASK]."""

import math

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.engine.attention_function import IMPLEMENTATION, register
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError, TextError
from mha_viz.prediction.logits import mask_word_at
from mha_viz.text.encoding import continuing, id_of, label_of
from tests.making.checkpoints import OTHER, TEXT, bert, spread, tokenizer
from tests.making.comparing import close
from tests.making.families import build
from tests.making.small_tokenizers import make

register()
STORY = "The old man went to the store and bought a loaf of bread."
BLANK = "The [MASK] sat on the mat."


@torch.no_grad()
def own_logits(model: AttentionModel, text: str, *pair: str) -> torch.Tensor:
    return model.network(**model.tokenizer(text, *pair, return_tensors="pt")).logits[0]


# -- causal --------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [None, 0, 4, -2])
def test_the_next_token_is_the_networks_own_softmax(gpt, position):
    found = mv.predict(gpt, STORY, position=position, top_k=7)
    rows = own_logits(gpt, STORY)
    at = len(rows) - 1 if position is None else position % len(rows)
    p = rows[at].softmax(-1)
    assert (found.objective, found.position, found.masks, found.other_predictions) == (
        "causal",
        at,
        (),
        (),
    )
    close(found.log_probs, p.log())
    assert found.ids == tuple(p.topk(7).indices.tolist())
    close(found.probabilities, p.topk(7).values)
    close(found.entropy, float(-(p * p.log()).sum()))
    assert found.log_probs.shape == (gpt.d_vocab,) and not found.log_probs.is_inference()
    assert found.tokens == gpt.trace(STORY).tokens


def test_losses_are_cross_entropy_and_their_mean_the_models_own(gpt, monkeypatch):
    found, rows = mv.predict(gpt, STORY), own_logits(gpt, STORY)
    ids = torch.tensor([token.id for token in found.tokens])
    assert found.losses[0] is None and len(found.losses) == len(ids)
    expected = torch.nn.functional.cross_entropy(rows[:-1], ids[1:], reduction="none")
    close(found.losses[1:], expected)
    with torch.no_grad():
        close(found.loss, float(gpt.network(input_ids=ids[None], labels=ids[None]).loss))
    found = mv.predict(gpt, "the")
    assert found.losses == (None,) and found.loss is None
    expected = mv.predict(gpt, STORY).losses
    monkeypatch.setattr("mha_viz.prediction.logits._NUMBERS_AT_ONCE", 5 * gpt.d_vocab)
    close(mv.predict(gpt, STORY).losses[1:], expected[1:])


def test_temperature_is_for_display_alone(gpt):
    plain, warm = mv.predict(gpt, STORY), mv.predict(gpt, STORY, temperature=2)
    assert (plain.display_temperature, warm.display_temperature) == (1.0, 2.0)
    close(plain.displayed, plain.probabilities)
    close(warm.displayed, (own_logits(gpt, STORY)[-1] / 2).softmax(-1)[list(warm.ids)])
    for name in ("ids", "probabilities", "entropy", "losses"):
        assert getattr(plain, name) == getattr(warm, name)
    assert "displayed" in warm.table() and "displayed" not in plain.table()


def test_the_table_has_a_row_for_each_candidate(gpt):
    found = mv.predict(gpt, "Once upon a", top_k=3)
    table = found.table()
    assert tuple(table.token) == found.candidates and table.token[0] == "time"
    close([math.exp(p) for p in table.log_probability], list(table.probability))
    assert "time 0." in repr(found)


def test_more_candidates_than_there_are_tokens():
    network = bert()
    network.set_attn_implementation(IMPLEMENTATION)
    model = AttentionModel(network, tokenizer(pairs=True), name="bert")
    found = mv.predict(model, "the [MASK]", top_k=1000)
    assert len(found.ids) == model.d_vocab
    close(math.fsum(found.probabilities), 1.0)


# -- masked --------------------------------------------------------------------------------------


def test_the_masked_token_is_the_networks_own_softmax(masked):
    found = mv.predict(masked, BLANK)
    close(found.log_probs, own_logits(masked, BLANK)[2].log_softmax(-1))
    assert (found.objective, found.position, found.masks) == ("masked", 2, (2,))
    assert found.tokens[2].text == "[MASK]" and set(found.losses) == {None}
    pair = ("The cat sat.", "It was a [MASK].")
    found = mv.predict(masked, pair[0], text_pair=pair[1])
    close(found.log_probs, own_logits(masked, *pair)[found.position].log_softmax(-1))
    assert found.tokens[found.position].segment == 1 and found.text_pair == pair[1]


def test_several_masks_are_each_predicted(masked):
    text = "The [MASK] sat on the [MASK]."
    rows = own_logits(masked, text).log_softmax(-1)
    for position, order in ((None, [2, 6]), (6, [6, 2])):
        found = mv.predict(masked, text, position=position)
        assert found.masks == (2, 6)
        assert [one.position for one in (found, *found.other_predictions)] == order
        with pytest.warns(DeprecationWarning, match="other_predictions"):
            assert found.others == found.other_predictions
        for one in (found, *found.other_predictions):
            close(one.log_probs, rows[one.position])


def test_a_token_that_is_chosen_is_masked_first(masked):
    found = mv.predict(masked, "The cat sat on the mat.", position=2)
    typed = mv.predict(masked, BLANK)
    close(found.log_probs, typed.log_probs)
    assert [token.text for token in found.tokens] == [token.text for token in typed.tokens]
    assert found.text == "The cat sat on the mat." and found.masks == (2,)


def test_no_mask_says_how_to_give_one(masked):
    with pytest.raises(TextError, match=r"this text has none\. Type \[MASK\] .*position="):
        mv.predict(masked, "The cat sat.")
    with pytest.raises(TextError, match="none in its first 128 tokens"):
        mv.predict(masked, "cat " * 300 + "[MASK]")
    with pytest.raises(ArgumentError, match=r"Position 0 is \[CLS\]"):
        mv.predict(masked, "The cat sat.", position=0)


def test_words_are_masked_by_their_number(masked):
    assert mask_word_at(masked, "The cat sat.", 1) == "The [MASK] sat."
    assert mask_word_at(masked, "An unbelievableish tale", 1) == "An [MASK] tale"  # many tokens
    found = mv.predict(masked, mask_word_at(masked, "The cat sat.", 0))
    assert found.position == 1
    with pytest.raises(ArgumentError, match=r"word must lie in 0\.\.3, got 4"):
        mask_word_at(masked, "The cat sat.", 4)
    with pytest.raises(ArgumentError, match="has no"):
        mask_word_at(mv.load("tiny-gpt2"), "The cat sat.", 0)


def roberta() -> AttentionModel:
    spoken = make("roberta_like")
    config = tf.RobertaConfig(
        vocab_size=len(spoken),
        hidden_size=20,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=60,
        pad_token_id=3,
    )
    network = tf.AutoModelForMaskedLM.from_config(config, attn_implementation=IMPLEMENTATION)
    return AttentionModel(spread(network), spoken, name="roberta")


def test_a_typed_mask_is_the_models_own():
    model = roberta()
    found = mv.predict(model, "The [MASK] sat")
    assert found.text == "The <mask> sat"
    close(found.log_probs, mv.predict(model, "The <mask> sat").log_probs)
    assert mask_word_at(model, "The cat sat", 1) == "The <mask> sat"


def test_pseudo_losses_mask_each_token_in_turn(masked):
    text = "The cat sat on the mat."
    found = mv.predict(masked, BLANK, pseudo_loss=True)
    assert [loss is None for loss in found.losses] == [
        token.is_special or token.text == "[MASK]" for token in found.tokens
    ]
    losses = mv.predict(masked, text, position=1, pseudo_loss=True).losses
    ids = masked.tokenizer(text)["input_ids"]
    for i, loss in enumerate(losses):
        if i in (0, len(ids) - 1):
            assert loss is None
            continue
        batch = torch.tensor([[*ids[:i], masked.tokenizer.mask_token_id, *ids[i + 1 :]]])
        with torch.no_grad():
            row = masked.network(input_ids=batch).logits[0, i].log_softmax(-1)
        close(loss, -float(row[ids[i]]))
    gates = torch.ones(masked.n_layers, masked.n_heads)
    assert mv.predict(masked, text, gates, position=2, pseudo_loss=True).losses == losses
    gates[1] = 0
    assert mv.predict(masked, text, gates, position=2, pseudo_loss=True).losses != losses


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(top_k=0), "top_k"),
        (dict(temperature=0), "temperature must be a finite number above 0, got 0"),
        (dict(position=99), r"position must lie in 0\.\.\d+, .* got 99"),
        (dict(pseudo_loss=True), "a loss of its own"),
    ],
)
def test_arguments_out_of_range(gpt, options, message):
    with pytest.raises(ArgumentError, match=message):
        mv.predict(gpt, STORY, **options)


def test_models_without_a_prediction_head():
    with pytest.raises(AttentionUnavailableError, match="no head that predicts tokens"):
        mv.predict(build("llama"), TEXT)
    with pytest.raises(AttentionUnavailableError, match="is an encoder-decoder"):
        mv.predict(build("t5"), TEXT)
    with pytest.raises(TextError, match="takes one text"):
        mv.predict(mv.load("tiny-gpt2"), TEXT, text_pair=OTHER)


def test_a_head_for_pretraining_predicts_by_its_masked_part():
    network = spread(tf.BertForPreTraining(bert().config))
    network.set_attn_implementation(IMPLEMENTATION)
    model = AttentionModel(network, tokenizer(pairs=True), name="pre")
    found = mv.predict(model, "the [MASK] sat", torch.ones(3, 5))
    with torch.no_grad():
        own = network(**model.tokenizer("the [MASK] sat", return_tensors="pt"))
    close(found.log_probs, own.prediction_logits[0, 2].log_softmax(-1))


# -- labels --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["tiny_gpt2", "tiny_bert", "t5_class", "byt5"],
)
def test_labels_have_no_marks(name):
    spoken = make(name)
    special = set(spoken.all_special_ids)
    for number in range(min(len(spoken), 4096)):
        label = label_of(spoken, number)
        assert label and not any(ord(char) < 32 for char in label)
        assert number in special or not label.startswith(("Ġ", "▁", "##")) or len(label) <= 2
    assert label_of(spoken, 10**6) == "⟨1000000⟩"


def test_a_part_of_a_character_is_named_by_its_bytes():
    spoken = make("tiny_gpt2")
    assert label_of(spoken, spoken.convert_tokens_to_ids("Ā")) == "␀"
    assert label_of(spoken, spoken.convert_tokens_to_ids("ð")) == "⟨F0⟩"
    assert label_of(spoken, spoken.convert_tokens_to_ids("Ġon")) == "on"


def test_what_goes_on_with_a_word():
    gpt, bert_ = make("tiny_gpt2"), make("tiny_bert")
    ids = gpt.convert_tokens_to_ids(["Ġthe", "ing", ",", "Ġ", "<|endoftext|>"])
    assert continuing(gpt, ids) == (False, True, False, False, False)
    ids = bert_.convert_tokens_to_ids(["the", "##ing", ",", "[MASK]", "#"])
    assert continuing(bert_, ids) == (False, True, False, False, False)


@pytest.mark.parametrize(
    ("name", "typed", "spaced", "token"),
    [
        ("tiny_gpt2", "time", True, "Ġtime"),
        ("tiny_gpt2", "time", False, "time"),
        ("tiny_gpt2", ",", True, ","),
        ("tiny_bert", "##ing", True, "##ing"),
        ("roberta_like", "cat", True, "Ġcat"),
        ("t5_class", "the", True, "▁the"),
    ],
)
def test_a_typed_target_is_one_token(name, typed, spaced, token):
    spoken = make(name)
    assert spoken.convert_ids_to_tokens(id_of(spoken, typed, spaced)) == token
