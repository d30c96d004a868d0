"""A family's own weights are shown by query and key or not at all."""

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.engine.run import check_own_weights
from mha_viz.errors import AttentionUnavailableError
from mha_viz.text.tokens import encode
from tests.making.checkpoints import D_HEAD, HEADS, N_CTX, WORDS, spread, tokenizer
from tests.making.families import HEADED

WIDTH = HEADS * D_HEAD + HEADS  # even, as LED's decoder wants it
BERT_LIKE = HEADED | dict(hidden_size=WIDTH, max_position_embeddings=2 * N_CTX)
SAMPLE_TOKENS = 13  # of the text that a backend is chosen by, in this vocabulary


def longformer(window: int) -> tf.PreTrainedModel:
    return tf.LongformerModel(tf.LongformerConfig(**BERT_LIKE, attention_window=window))


def pegasus_x() -> tf.PreTrainedModel:
    layers = dict(encoder_layers=1, decoder_layers=1, encoder_ffn_dim=9, decoder_ffn_dim=9)
    heads = dict(encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, d_model=WIDTH)
    return tf.PegasusXModel(tf.PegasusXConfig(vocab_size=len(WORDS), **layers, **heads))


FOREIGN = {
    "pegasus_x": pegasus_x,  # a dict of two pieces for a layer
    "longformer": lambda: longformer(4),
    # as many offsets as the text has tokens by which a backend is chosen
    "longformer of that width": lambda: longformer(SAMPLE_TOKENS - 1),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_weights_that_are_not_by_query_and_key_are_refused(name):
    with pytest.raises(AttentionUnavailableError, match=r"every query.*Choose a BERT") as caught:
        mv.AttentionModel(spread(FOREIGN[name]()), tokenizer(pairs=True), name=name)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_the_text_that_settles_a_model_is_as_long_as_the_window_above():
    from mha_viz.engine.loaded_network import _SAMPLE

    assert len(encode(tokenizer(pairs=True), _SAMPLE, max_length=16).input_ids) == SAMPLE_TOKENS


def test_weights_are_looked_at_on_every_run(monkeypatch):
    """A family may give others for another text, as those with blocks do for a long one."""
    network = spread(tf.DebertaV2Model(tf.DebertaV2Config(**BERT_LIKE)))
    model = mv.AttentionModel(network, tokenizer(pairs=True), name="deberta")
    assert model.backend == "eager" and model.trace("the cat sat").n_heads == HEADS
    forward = network.forward

    def by_offset(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.attentions = tuple(weights[..., :-1] for weights in output.attentions)
        return output

    monkeypatch.setattr(network, "forward", by_offset)
    for trace in (model.trace, lambda text: model.trace_batch([text, "the cat sat on a mat"])):
        with pytest.raises(AttentionUnavailableError, match="for every query and key"):
            trace("the cat sat")


def texts(*lengths: int):
    return [encode(tokenizer(pairs=False), " ".join(["cat"] * n), max_length=999) for n in lengths]


def test_what_lies_behind_a_shorter_text_is_not_looked_at():
    weights = torch.full((2, HEADS, 4, 4), 0.25)
    weights[1, :, :2, :2], weights[1, :, :2, 2:] = 0.5, 0.0
    weights[1, :, 2:] = torch.nan
    check_own_weights([weights, weights], texts(4, 2), texts(4, 2), "some")
    cross = torch.full((1, HEADS, 2, 5), 0.2)
    check_own_weights([cross], texts(2), texts(5), "some")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounding_is_no_fault_in_any_precision(dtype):
    weights = torch.randn(1, HEADS, 300, 300).mul(3).softmax(-1).to(dtype)
    check_own_weights([weights], texts(300), texts(300), "some")


@pytest.mark.parametrize("wrong", [0.0, 0.9, 1.2, float("nan")])
def test_a_row_that_does_not_sum_to_one_is_refused(wrong):
    weights = torch.full((1, HEADS, 3, 3), 1 / 3)
    weights[0, 1, 2] = wrong / 3
    with pytest.raises(AttentionUnavailableError, match="sum to"):
        check_own_weights([weights], texts(3), texts(3), "some")
    weights = torch.tensor([[-1.0, 1.0, 1.0]]).expand(1, HEADS, 3, 3)
    with pytest.raises(AttentionUnavailableError, match="hold -1"):
        check_own_weights([weights], texts(3), texts(3), "some")
