"""The components of a residual stream sum to it; families without one are refused."""

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.circuits.attribution.residual_stream import ResidualStream
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from tests.circuits.test_path_effect import CLEAN, CORRUPT
from tests.engine.test_families import BERT_LIKE, LLAMA_LIKE, LONG, SINGLE, small_tokenizer
from tests.making.checkpoints import spread
from tests.making.every_family import (
    EXACT,
    ROTATED_IN_FLOAT32,
    TOLERANCE,
    build,
    encoded,
    in_both_precisions,
    miss,
)


@pytest.mark.parametrize(("name", "dtype"), in_both_precisions(EXACT))
def test_components_sum_to_what_enters_every_layer(name, dtype):
    tolerance = TOLERANCE[dtype]
    model = build(name, dtype)
    stream = ResidualStream(model, encoded(model), positions=(2, 5, 7))
    for layer in range(model.n_layers + 1):
        parts = stream.at(layer)
        assert parts.shape == (len(stream.components), 3, model.d_model)
        assert miss(parts.sum(0), stream.entering(layer)) <= tolerance
    rotated = 1e-6 if name in ROTATED_IN_FLOAT32 else 0
    query, key = stream.queries_and_keys(1)
    assert miss(query.sum(0), stream.run.probe.tensors["query"][1][0]) <= max(tolerance, rotated)
    assert miss(key.sum(0), stream.run.probe.tensors["key"][1][0][:, [2, 5, 7]]) <= max(
        tolerance, rotated
    )


def test_before_any_norm_a_head_is_its_output_less_what_the_bias_of_values_adds():
    model = build("gpt2", torch.float64)
    stream = ResidualStream(model, encoded(model))
    output = model.trace(LONG).head_output.double()
    weights = model.attention_weights(1)
    constant = torch.einsum("hd,hdm->hm", weights.b_V, weights.W_O)
    names = [component.name for component in stream.components]
    heads = stream.at(2)[names.index("L1 H0") : names.index("L1 attention bias")]
    assert miss(heads, output[1] - constant[:, None]) <= 1e-6
    bias = stream.at(2)[names.index("L1 attention bias")]
    assert miss(bias, (weights.b_O + constant.sum(0)).expand_as(bias)) <= 1e-10


@pytest.mark.parametrize("name", ["gpt2", "bert", "gpt_oss"])
def test_the_shares_of_a_heads_sources_sum_to_its_own(name):
    model = build(name)
    stream = ResidualStream(model, encoded(model), (3, 4))
    direction = torch.randn(2, model.d_model)
    for layer in range(model.n_layers):
        heads = torch.stack([stream.values[f"L{layer} H{head}"] for head in range(model.n_heads)])
        shares = stream.source_shares(layer, direction)
        assert shares.shape == (model.n_heads, 2, len(stream.encoded.tokens))
        assert miss(shares.sum(-1), (heads * direction).sum(-1)) <= 1e-5


@pytest.mark.parametrize(
    ("network", "config"),
    [
        (tf.LayoutLMModel, tf.LayoutLMConfig),  # one table of positions for left and right
        (tf.MarkupLMForQuestionAnswering, tf.MarkupLMConfig),  # reads dtype of its parameters
    ],
)
def test_a_family_that_is_not_built_as_is_known_is_refused(network, config):
    made = network(config(**BERT_LIKE)).eval()
    model = AttentionModel(made, small_tokenizer(True), name="other")
    with pytest.raises(AttentionUnavailableError):
        ResidualStream(model, encoded(model))


def test_a_stream_that_something_unknown_is_added_to_is_refused():
    class Adds(tf.models.gpt2.modeling_gpt2.GPT2Block):
        def forward(self, x, *args, **kwargs):
            return super().forward(x, *args, **kwargs) + 0.25

    network = tf.GPT2Model(SINGLE["gpt2"]).eval()
    network.h[1].__class__ = Adds
    model = AttentionModel(network, small_tokenizer(False), name="adds")
    stream = ResidualStream(model, encoded(model), (3,))
    with pytest.raises(AttentionUnavailableError):
        stream.at(2)


def test_too_many_positions_are_refused():
    model = mv.load("tiny-gpt2")
    stream_of = "many words " * 60
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mha_viz.circuits.attribution.residual_stream.MAX_BYTES", 2**20)
        with pytest.raises(ArgumentError):
            ResidualStream(model, encoded(model, stream_of))


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
