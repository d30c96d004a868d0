"""Spaces of heads, against numpy's singular vectors of what eager networks compute."""

import copy
import itertools

import numpy as np
import pytest
import torch
import transformers
from scipy.spatial.distance import pdist
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

import mha_viz as mv
from mha_viz.circuits.attribution import head_spaces as module
from mha_viz.core.compare.token_spaces import SPACES
from mha_viz.errors import ArgumentError

TEXTS = ["The old cat saw a small dog.", "Once upon a time there was a dog.", "Lily ran home."]
D_HEAD, N_HEADS, LAYER, HEAD = 7, 3, 1, 2


@pytest.fixture(scope="module")
def network() -> transformers.GPT2LMHeadModel:
    torch.manual_seed(11)
    sizes = dict(n_embd=D_HEAD * N_HEADS, n_head=N_HEADS, n_layer=2, vocab_size=4_001)
    made = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, n_positions=61)).eval()
    for parameter in made.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return made


@pytest.fixture(scope="module")
def model(network) -> mv.AttentionModel:
    return mv.wrap(network, mv.load("tiny-gpt2").tokenizer)


@pytest.fixture(scope="module")
def eager(network, model) -> dict[str, np.ndarray]:
    """The head's vectors of all tokens in float64, out of the library's own eager network."""
    own = copy.deepcopy(network).double()
    own.set_attn_implementation("eager")
    block, left = own.transformer.h[LAYER].attn, []
    block.c_attn.register_forward_hook(lambda module, inputs, output: left.append(output[0]))
    part = slice(HEAD * D_HEAD, (HEAD + 1) * D_HEAD)
    found: dict[str, list[np.ndarray]] = {name: [] for name in (*SPACES, "received")}
    for text in TEXTS:
        with torch.no_grad():
            output = own(**model.tokenizer(text, return_tensors="pt"), output_attentions=True)
        weights = output.attentions[LAYER][0, HEAD].numpy()
        queries, keys, values = (one[:, part].numpy() for one in left.pop().chunk(3, -1))
        written = weights @ values @ block.c_proj.weight[part].detach().numpy()
        n = len(weights)
        received = weights.sum(0) / np.arange(n, 0, -1)
        vectors = (queries, keys, values, written, received)
        for name, one in zip(found, vectors, strict=True):
            found[name].append(one)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def test_coordinates_are_those_of_numpys_singular_vectors(model, eager) -> None:
    found = mv.head_spaces(model, TEXTS, LAYER, HEAD, n_components=5)
    places = _places(found, model)
    for space, name in enumerate(SPACES):
        vectors = eager[name] - eager[name].mean(0)
        left, sizes, _ = np.linalg.svd(vectors, full_matrices=False)
        expected = (left * sizes)[places, :5]
        ours = found.coordinates[space].double().numpy()
        signs = np.sign((ours * expected).sum(0))
        assert ours == pytest.approx(expected * signs, abs=2e-4 * sizes[0])
        assert found.explained[space].numpy() == pytest.approx(
            sizes[:5] ** 2 / (sizes**2).sum(), abs=1e-5
        )


def _places(found: mv.HeadSpaces, model: mv.AttentionModel) -> list[int]:
    """The numbers of tokens in the order in which the texts stand here."""
    lengths = [len(model.tokenizer(text)["input_ids"]) for text in TEXTS]
    starts = dict(zip(TEXTS, itertools.accumulate([0, *lengths]), strict=False))
    pairs = zip(found.text.tolist(), found.position.tolist(), strict=True)
    return [starts[found.texts[text]] + position for text, position in pairs]


def test_received_weight_is_the_mean_over_the_queries_that_see_a_key(model, eager) -> None:
    found = mv.head_spaces(model, TEXTS, LAYER, HEAD)
    expected = eager["received"][_places(found, model)]
    assert found.received.numpy() == pytest.approx(expected, abs=1e-5)
    table = found.table((0, 2))
    assert table["keys 3"].to_numpy() == pytest.approx(found.coordinates[1, :, 2].numpy())
    with pytest.raises(ArgumentError, match="component"):
        found.table((0, 8))


def test_keys_are_turned_by_position_and_shared_by_a_group() -> None:
    torch.manual_seed(13)
    sizes = transformers.LlamaConfig(
        hidden_size=30, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        num_hidden_layers=2, intermediate_size=17, vocab_size=4_001,
    )  # fmt: skip
    network = transformers.LlamaModel(sizes).eval()
    left: list[torch.Tensor] = []
    hook = network.layers[1].self_attn.k_proj
    hook.register_forward_hook(lambda module, inputs, output: left.append(output))
    ids = mv.load("tiny-llama").tokenizer(TEXTS[1], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        network(ids)
        keys = left[0].unflatten(-1, (2, 10)).transpose(1, 2)
        turns = network.rotary_emb(keys, torch.arange(ids.shape[1])[None])
        _, turned = apply_rotary_pos_emb(keys, keys, *turns)
    model = mv.wrap(network, mv.load("tiny-llama").tokenizer)
    spaces = {head: mv.head_spaces(model, TEXTS[1], 1, head, n_components=10) for head in (3, 5)}
    for found in spaces.values():
        distances = pdist(found.coordinates[1].numpy())
        assert distances == pytest.approx(pdist(turned[0, 1].numpy()), abs=1e-5)
        assert "rotary" in found.notes[0] and "Heads 3 to 5" in found.notes[1]
    assert not torch.allclose(spaces[3].coordinates[0], spaces[5].coordinates[0], atol=1e-3)


def test_many_heads_in_small_batches_are_those_of_one_run(
    model, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[int, int]] = []
    together = mv.spaces_of_heads(model, TEXTS, on_progress=lambda *step: steps.append(step))
    assert steps == [(done, 3) for done in range(4)]
    assert [(one.layer, one.head) for one in together] == list(
        itertools.product(range(2), range(3))
    )
    monkeypatch.setattr(module, "_BATCH_BYTES", 1)
    monkeypatch.setattr(module, "_VECTOR_BYTES", 1)
    for one in together:
        alone = mv.head_spaces(model, TEXTS, one.layer, one.head)
        assert torch.allclose(alone.explained, one.explained, atol=1e-5)
        assert pdist(alone.coordinates[3].numpy()) == pytest.approx(
            pdist(one.coordinates[3].numpy()), abs=1e-4
        )


def test_tokens_are_drawn_by_their_seed(model) -> None:
    texts = [f"{text} Number {i}." for i in range(13) for text in TEXTS]
    first, again, other = (
        mv.head_spaces(model, texts, 0, 1, max_tokens=29, seed=seed) for seed in (3, 3, 5)
    )
    assert torch.equal(first.coordinates, again.coordinates)
    assert first.coordinates.shape == (4, 29, D_HEAD) and len(first.tokens) == 29
    assert (first.texts, first.position.tolist()) != (other.texts, other.position.tolist())
    for token, text, position in zip(first.tokens, first.text, first.position, strict=True):
        ids = model.tokenizer(first.texts[text])["input_ids"]
        assert ids[position] == token.id
    assert "29 tokens" in first.notes[0]
    assert len(set(zip(first.text.tolist(), first.position.tolist(), strict=True))) == 29


def test_spaces_of_what_is_not_there(model) -> None:
    with pytest.raises(ArgumentError, match="head"):
        mv.head_spaces(model, TEXTS, 1, 3)
    with pytest.raises(ArgumentError, match="layer"):
        mv.head_spaces(model, TEXTS, 2, 0)
    with pytest.raises(ArgumentError, match="at least one text"):
        mv.head_spaces(model, [], 0, 0)
    with pytest.raises(ArgumentError, match="max_tokens"):
        mv.head_spaces(model, TEXTS, 0, 0, max_tokens=0)
    found = mv.head_spaces(model, "a", 0, 0)
    assert found.coordinates.shape == (4, 1, D_HEAD) and (found.coordinates == 0).all()
    assert found.explained.isnan().all()
