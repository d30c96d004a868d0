"""Inputs and outputs of a layer's attention, against hooks on the network's own eager run."""

import pytest
import torch
import transformers as tf
from torch import nn

from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.layer_activations import LayerActivations, layer_activations
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.numbering import own_layer_numbers
from mha_viz.errors import ArgumentError, AttentionUnavailableError, TextError
from tests.making.checkpoints import D_HEAD, HEADS, LAYERS, spread, tokenizer
from tests.making.comparing import close
from tests.making.families import SIZES, build
from tests.making.hybrids import jamba

ELEVEN = "the cat sat on a mat and the cat ran on"
TWELVE = "a mat sat on the cat and ran on the mat and"


def heard(network, reads_query, reads_key, writes, calls=1, **inputs):
    """Record what three modules read, read and write at each call, by its own attention."""
    caught = {"X": [], "Y": [], "output": []}
    hooks = [
        reads_query.register_forward_pre_hook(lambda _, args: caught["X"].append(args[0][0])),
        reads_key.register_forward_pre_hook(lambda _, args: caught["Y"].append(args[0][0])),
        writes.register_forward_hook(lambda _, args, made: caught["output"].append(made[0])),
    ]
    before = network.config._attn_implementation
    network.set_attn_implementation("eager")
    with torch.no_grad():
        network(**{name: torch.tensor([ids]) for name, ids in inputs.items()})
    network.set_attn_implementation(before)
    for hook in hooks:
        hook.remove()
    assert all(len(found) == calls for found in caught.values())
    return [LayerActivations(*each) for each in zip(*caught.values(), strict=True)]


def same(found, expected, queries, keys, width):
    assert found.X.shape == found.output.shape == (queries, width)
    assert found.Y.shape == (keys, width)
    for name in ("X", "Y", "output"):
        own, theirs = getattr(found, name), getattr(expected, name)
        assert theirs.std() > 0.1
        close(own, theirs)
        assert own.dtype == torch.float32 and not own.is_inference() and not own.requires_grad


def ids_of(record):
    return [token.id for token in record.tokens]


# The modules by which a layer's attention reads and writes.
PROJECTIONS = {
    "bert": lambda network, layer: (
        network.bert.encoder.layer[layer].attention.self.query,
        network.bert.encoder.layer[layer].attention.self.key,
        network.bert.encoder.layer[layer].attention.output.dense,
    ),
    "gpt2": lambda network, layer: (
        *[network.transformer.h[layer].attn.c_attn] * 2,
        network.transformer.h[layer].attn.c_proj,
    ),
}


@pytest.mark.parametrize("layer", range(LAYERS))
@pytest.mark.parametrize("name", PROJECTIONS)
def test_separate_projections_and_fused_ones_after_a_norm(models, name, layer):
    model = models[name]
    texts = (ELEVEN, "a cat ran") if name == "bert" else (ELEVEN,)
    ids = ids_of(model.trace(*texts))
    assert len(ids) == (11 + 3 + 3 if name == "bert" else 11)  # three of them special
    (expected,) = heard(model.network, *PROJECTIONS[name](model.network, layer), input_ids=ids)
    found = layer_activations(model, *texts, layer=layer)
    same(found, expected, len(ids), len(ids), HEADS * D_HEAD)
    assert torch.equal(found.X, found.Y)


@pytest.mark.parametrize(
    ("part", "queries", "keys"),
    [
        ("encoder", 11, 11),
        ("decoder", 13, 13),
        ("cross", 13, 11),
    ],
)
def test_the_parts_of_an_encoder_decoder(part, queries, keys):
    model = build("t5")
    stack = model.network.encoder if part == "encoder" else model.network.decoder
    block = stack.block[1].layer[1 if part == "cross" else 0]
    attention = block.EncDecAttention if part == "cross" else block.SelfAttention
    (expected,) = heard(
        model.network,
        attention.q,
        attention.k,
        attention.o,
        input_ids=ids_of(model.trace(ELEVEN, TWELVE, part="encoder")),
        decoder_input_ids=ids_of(model.trace(ELEVEN, TWELVE, part="decoder")),
    )
    found = layer_activations(model, ELEVEN, TWELVE, layer=1, part=part)
    same(found, expected, queries, keys, 23)
    assert torch.equal(found.X, found.Y) == (part != "cross")
    if part == "encoder":  # the first part where none is named
        assert torch.equal(layer_activations(model, ELEVEN, TWELVE, layer=1).X, found.X)


def test_one_module_that_runs_as_every_layer():
    sizes = SIZES | dict(num_hidden_layers=3, embedding_size=17, hidden_size=HEADS * D_HEAD)
    config = tf.AlbertConfig(**sizes, num_attention_heads=HEADS)
    network = tf.AutoModel.from_config(config, attn_implementation=IMPLEMENTATION)
    model = AttentionModel(spread(network), tokenizer(pairs=False), name="albert")
    block = network.encoder.albert_layer_groups[0].albert_layers[0].attention
    ids = ids_of(model.trace(ELEVEN))
    expected = heard(network, block.query, block.key, block.dense, calls=3, input_ids=ids)
    for layer in range(3):
        same(layer_activations(model, ELEVEN, layer=layer), expected[layer], 11, 11, HEADS * D_HEAD)


def test_what_cannot_be_listened_to(models, monkeypatch):
    model = models["bert"]
    for layer in (-1, LAYERS):
        with pytest.raises(ArgumentError, match="layer must lie"):
            layer_activations(model, ELEVEN, layer=layer)
    with pytest.raises(ArgumentError, match="part"):
        layer_activations(model, ELEVEN, layer=0, part="cross")
    with pytest.raises(TextError):
        layer_activations(model, " ", layer=0)
    monkeypatch.setattr(model, "backend", "eager")
    with pytest.raises(AttentionUnavailableError, match="by itself"):
        layer_activations(model, ELEVEN, layer=0)


TEXT = "ba da fa ba da fa ka"


def test_a_hybrid_numbers_its_layers_as_its_network_does():
    model = jamba()
    record = model.trace(TEXT)
    assert model.layer_numbers == record.layer_numbers == (3, 7) and record.shape[:2] == (2, 4)
    for position, number in enumerate(model.layer_numbers):
        module = model.network.model.layers[number].self_attn
        assert model.layers()[position].module is module and record.layer_of(number) == position
    note = "Layers 0–2 and 4–6 have no attention over the text."
    assert model.notes == record.notes == (note,)
    assert record.merge_words().without_first().layer_numbers == (3, 7)


class _Layer(nn.Module):
    def __init__(self, attention: nn.Module, layer_idx: int | None = None) -> None:
        super().__init__()
        self.attention, self.attention.layer_idx = attention, layer_idx


@pytest.mark.parametrize(
    ("shared", "expected"), [((0, 1), (1, 3)), ((0, 0), (1, 3)), (None, (0, 1))]
)
def test_places_of_shared_modules_and_of_one_that_runs_twice(shared, expected):
    attentions = [nn.Identity(), nn.Identity()]
    if shared is None:  # as ALBERT has it: one layer that is called again
        network, called = nn.ModuleList([_Layer(attentions[0])]), [attentions[0]] * 2
    else:  # as Zamba2 has it: what shares its weights may be one module
        called = [attentions[i] for i in shared]
        layers = [nn.Linear(1, 1), _Layer(called[0], -1), nn.Linear(1, 1), _Layer(called[1], -1)]
        network = nn.ModuleList(layers)
    found, n_all = own_layer_numbers(nn.ModuleDict({"layers": network}), called, 2)
    assert found == expected and n_all == (4 if shared else 2)
