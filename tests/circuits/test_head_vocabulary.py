"""QK and OV over the vocabulary: against dense matrices in float64, and chance."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

import mha_viz as mv
from mha_viz.circuits.composition import factored_matrix
from mha_viz.circuits.composition.head_vocabulary import ENDS, head_vocabulary
from mha_viz.circuits.composition.token_circuits import token_matrices
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from mha_viz.text.encoding import id_of, label_of
from tests.circuits.networks import NETWORKS, build, causal, in_order, matrix
from tests.circuits.test_ov_circuit import FINAL, explicit
from tests.circuits.test_path_effect import predicting

LAYER, HEAD = 1, 2
ROTARY = ("llama", "phi", "gemma2")
OWN = list(range(5, 10))  # numbers of tokens


def qk(model: AttentionModel, before: Tensor, layer: int, head: int) -> Tensor:
    """(d_vocab, d_vocab): the scores of all keys for all queries, less their mean over keys."""
    weights = model.attention_weights(layer)
    key_head = head * model.n_kv_heads // model.n_heads
    W_QK = before @ weights.W_Q[head] @ (before @ weights.W_K[key_head]).T
    E = model.network.get_input_embeddings().weight
    found = (E @ W_QK @ E.T).detach()
    return found - found.mean(1, keepdim=True)


def check_pairs(model: AttentionModel, circuit, words, dense: Tensor) -> None:
    """Pairs, ids and the matrix of some words are those of the dense matrix, in its RMS."""
    dense = dense / dense.square().mean().sqrt()
    values, places = dense.flatten().topk(len(circuit.pairs))
    assert circuit.pairs.strength.tolist() == pytest.approx(values.tolist(), rel=1e-8)
    first, second = (circuit.pairs[name].tolist() for name in circuit.pairs.columns[-2:])
    assert list(zip(first, second, strict=True)) == [
        divmod(int(place), len(dense)) for place in places
    ]
    labels = circuit.pairs.iloc[:, 0].tolist()
    assert labels == [label_of(model.tokenizer, number) for number in first]
    matrix = torch.tensor(words[circuit.name].to_numpy())
    torch.testing.assert_close(matrix, dense[OWN][:, OWN], rtol=1e-8, atol=1e-10)


def check_directions(model: AttentionModel, circuit, dense_W: Tensor, ends: list[Tensor]) -> None:
    """Singular values and the tokens at both ends are those of the dense d_model x d_model."""
    U, S, Vh = torch.linalg.svd(dense_W)
    n = len(circuit.directions)
    assert circuit.directions.singular_value.tolist() == pytest.approx(S[:n].tolist(), rel=1e-8)
    for i in range(2):
        reads = [ends[0] @ U[:, i], ends[1] @ Vh[i]]
        if reads[0][reads[0].abs().argmax()] < 0:
            reads = [-one for one in reads]
        for column, read in zip(ENDS[circuit.name], reads, strict=True):
            labels = [label_of(model.tokenizer, int(k)) for k in read.topk(8).indices]
            assert circuit.directions[column][i] == " ".join(labels)
            against = [label_of(model.tokenizer, int(k)) for k in (-read).topk(8).indices]
            assert circuit.directions[f"{column}_opposite"][i] == " ".join(against)


@pytest.mark.parametrize("name", FINAL)
def test_pairs_and_directions_are_those_of_dense_matrices(name: str) -> None:
    model = causal(name)
    network = model.network
    body = network if name == "gpt2" else network.base_model
    found = head_vocabulary(model, LAYER, HEAD, top_k=11)
    words = token_matrices(model, LAYER, HEAD, OWN)
    before = in_order(NETWORKS[name].reading(body, LAYER), model.d_model)
    check_pairs(model, found.circuits["QK"], words, qk(model, before, LAYER, HEAD))
    check_pairs(model, found.circuits["OV"], words, explicit(model, name, LAYER, HEAD))
    weights = model.attention_weights(LAYER)
    key_head = HEAD * model.n_kv_heads // model.n_heads
    E = network.get_input_embeddings().weight.detach()
    W_QK = (before @ weights.W_Q[HEAD] @ (before @ weights.W_K[key_head]).T).detach()
    check_directions(model, found.circuits["QK"], W_QK, [E, E - E.mean(0)])
    few = head_vocabulary(model, LAYER, HEAD, top_k=11, tokens=OWN).circuits["QK"].pairs
    dense = qk(model, before, LAYER, HEAD)[OWN][:, OWN]
    dense = dense / dense.square().mean().sqrt()
    assert few.strength.tolist() == pytest.approx(dense.flatten().topk(11).values.tolist())
    at = [OWN.index(number) for number in few.query_id], [OWN.index(n) for n in few.key_id]
    assert dense[at].tolist() == pytest.approx(few.strength.tolist())
    assert [label_of(model.tokenizer, number) for number in OWN] == list(words["QK"].index)
    assert any("relative distance 0" in note for note in found.notes) == (name in ROTARY)
    favoured = mv.favoured_pairs(model, LAYER, HEAD, top=11).pairs
    assert found.circuits["OV"].pairs.strength.tolist() == pytest.approx(favoured.strength.tolist())


@pytest.mark.parametrize("layer", [0, 2])
def test_masked_model_has_qk_behind_all_norms_before_the_layer(layer: int) -> None:
    model = predicting("bert", double=True)
    bert = model.network.bert
    norms = [bert.embeddings.LayerNorm]
    for i in range(layer):
        one = bert.encoder.layer[i]
        norms += [one.attention.output.LayerNorm, one.output.LayerNorm]
    found = head_vocabulary(model, layer, HEAD, top_k=7)
    words = token_matrices(model, layer, HEAD, OWN)
    check_pairs(
        model, found.circuits["QK"], words, qk(model, in_order(norms, model.d_model), layer, HEAD)
    )
    assert list(found.circuits) == ["QK"]


def test_shipped_model_by_dense_matrices_and_small_blocks(monkeypatch) -> None:
    model = mv.load("tiny-gpt2")
    words = ["cat", "dog", "red", "the"]
    monkeypatch.setattr(factored_matrix, "_CELLS", 14 * model.d_vocab)  # 14 rows at a time
    told, matrices = [], token_matrices(model, 2, 4, [*words, "cat"])
    found = head_vocabulary(
        model, 2, 4, top_k=30, n_random=2, on_progress=lambda *news: told.append(news)
    )
    assert told[-1][0] == told[-1][1] == 2 * 3 * -(-model.d_vocab // 14)
    weights, body = model.attention_weights(2), model.network.transformer
    before = matrix(body.h[2].ln_1)
    E = body.wte.weight.detach().double()[: len(model.tokenizer)]
    QK = E @ before @ weights.W_Q[4].double() @ (E @ before @ weights.W_K[4].double()).T
    QK -= QK.mean(1, keepdim=True)
    OV = E @ before @ weights.W_V[4].double() @ weights.W_O[4].double() @ matrix(body.ln_f) @ E.T
    OV -= OV.mean(1, keepdim=True)
    for name, dense in (("QK", QK), ("OV", OV)):
        dense = dense / dense.square().mean().sqrt()
        pairs = found.circuits[name].pairs
        assert pairs.strength.tolist() == pytest.approx(
            dense.flatten().topk(30).values.tolist(), rel=1e-3
        )
        cells = dense[pairs.iloc[:, -2].tolist(), pairs.iloc[:, -1].tolist()]
        assert pairs.strength.tolist() == pytest.approx(cells.tolist(), rel=1e-3)
        ids = [id_of(model.tokenizer, word) for word in words]
        shown = torch.tensor(matrices[name].to_numpy()).double()
        torch.testing.assert_close(shown, dense[ids][:, ids], rtol=1e-3, atol=1e-3)


def test_chance_is_that_of_random_matrices_of_the_same_norm_and_holds_for_them() -> None:
    """A head with random weights lies in its own chance's range about as often as it says."""
    model = causal("llama")
    inside = []
    for layer in range(model.n_layers):
        for head in range(model.n_heads):
            found = head_vocabulary(model, layer, head, top_k=1, n_random=20)
            for circuit in found.circuits.values():
                first = circuit.pairs.iloc[0]
                inside.append(first.chance_low <= first.strength <= first.chance_high)
                assert first.chance_low < first.chance < first.chance_high
                values, chance = circuit.directions.singular_value, circuit.directions.chance
                assert all(a >= b for a, b in pairwise(values))
                assert float(chance.sum()) == pytest.approx(float(values.sum()), rel=0.5)
    assert sum(inside) / len(inside) > 0.8


def test_families_and_arguments_that_are_none_are_refused() -> None:
    model = causal("gpt2")
    for change, said in [
        (dict(layer=3), "layer .*3"),
        (dict(head=5), "head .*5"),
        (dict(top_k=0), "top_k"),
        (dict(n_random=1), "n_random"),
    ]:
        with pytest.raises(ArgumentError, match=said):
            head_vocabulary(model, **(dict(layer=1, head=2) | change))
    for words, said in [
        ("cat", "words"),
        (["zebra"], "zebra"),
        ([0] * 65, "65"),
        ([99], r"number in 0\.\."),
    ]:
        with pytest.raises(ArgumentError, match=said):
            token_matrices(model, 1, 2, words)
    with pytest.raises(AttentionUnavailableError):
        head_vocabulary(predicting("albert"), 0, 0)
    only = head_vocabulary(predicting("qwen3"), 0, 0, top_k=3)
    assert list(only.circuits) == ["OV"]
    assert list(head_vocabulary(build("t5"), 0, 0, top_k=3).circuits) == ["QK"]
