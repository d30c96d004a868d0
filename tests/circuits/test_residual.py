"""The components of a residual stream sum to it, at every place and in every family."""

import pytest
import torch
import transformers as tf

import mha_viz as mv
from mha_viz.circuits.residual import ResidualStream
from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from mha_viz.text.encoding import encode_texts
from tests.engine.test_families import CAUSAL, FALLBACK, LONG, PAIRED, SINGLE, small_tokenizer
from tests.making.checkpoints import spread

FAMILIES = SINGLE | PAIRED
EXACT = [name for name in FAMILIES if name not in FALLBACK]


def build(name: str, dtype: torch.dtype) -> AttentionModel:
    torch.manual_seed(0)
    network = tf.AutoModel.from_config(FAMILIES[name], attn_implementation=IMPLEMENTATION)
    template = name not in CAUSAL and name not in PAIRED
    return AttentionModel(spread(network).to(dtype), small_tokenizer(template), name=name)


def encoded(model: AttentionModel, text: str = LONG):
    return encode_texts(model.reader, text)[0]


def miss(parts: torch.Tensor, whole: torch.Tensor) -> float:
    return float((parts - whole).abs().max() / whole.abs().max())


# In float64, too, ModernBERT turns queries and keys in float32.
TURNED_IN_FLOAT32 = {"modernbert"}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
@pytest.mark.parametrize("name", EXACT)
def test_components_sum_to_what_enters_every_layer(name, dtype, tolerance):
    if name == "gpt_oss" and dtype == torch.float64:
        pytest.skip("its experts do not run in float64")
    model = build(name, dtype)
    stream = ResidualStream(model, encoded(model), positions=(2, 5, 7))
    for layer in range(model.n_layers + 1):
        parts = stream.at(layer)
        assert parts.shape == (len(stream.components), 3, model.d_model)
        assert miss(parts.sum(0), stream.whole(layer)) <= tolerance
    turned = 1e-6 if name in TURNED_IN_FLOAT32 else 0
    query, key = stream.queries_and_keys(1)
    assert miss(query.sum(0), stream.run.left.kept["query"][1][0]) <= max(tolerance, turned)
    assert miss(key.sum(0), stream.run.left.kept["key"][1][0][:, [2, 5, 7]]) <= max(
        tolerance, turned
    )


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2"])
def test_components_of_the_shipped_models(name):
    model = mv.load(name)
    stream = ResidualStream(model, encoded(model, "The cat sat on the mat."))
    for layer in range(model.n_layers + 1):
        assert miss(stream.at(layer).sum(0), stream.whole(layer)) <= 1e-4


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


def test_components_stand_in_their_order():
    model = build("bert", torch.float32)
    names = [c.name for c in ResidualStream(model, encoded(model), (1,)).components]
    assert names[:4] == ["embedding", "position", "token type", "embedding norm bias"]
    assert names[4:6] == ["L0 H0", "L0 H1"]
    assert names[9:13] == ["L0 attention bias", "L0 MLP", "L0 norm bias", "L1 H0"]


@pytest.mark.parametrize("name", ["gpt2", "bert", "gpt_oss"])
def test_a_heads_sources_sum_to_it(name):
    model = build(name, torch.float32)
    stream = ResidualStream(model, encoded(model), (3, 4))
    for layer in range(model.n_layers):
        heads = torch.stack([stream.values[f"L{layer} H{head}"] for head in range(model.n_heads)])
        assert miss(stream.sources(layer).sum(2), heads) <= 1e-5


def test_a_family_that_computes_its_attention_by_itself_is_refused():
    network = tf.AutoModel.from_config(SINGLE["mpnet"], attn_implementation="eager")
    model = AttentionModel(network.eval(), small_tokenizer(True), name="mpnet")
    with pytest.raises(AttentionUnavailableError, match="by itself"):
        ResidualStream(model, encoded(model))


def test_too_many_positions_are_refused():
    model = mv.load("tiny-gpt2")
    stream_of = "many words " * 60
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mha_viz.circuits.residual.MAX_BYTES", 2**20)
        with pytest.raises(ArgumentError, match="ask for fewer"):
            ResidualStream(model, encoded(model, stream_of))
