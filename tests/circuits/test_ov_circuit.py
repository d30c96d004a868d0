"""OV circuits against explicit matrices from token to token."""

import pytest
import torch
import transformers as tf
from torch import Tensor

import mha_viz as mv
from mha_viz.circuits.composition import ov_circuit as module
from mha_viz.circuits.composition.ov_circuit import copying_scores, favoured_pairs
from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from tests.circuits.networks import NETWORKS, build, causal, in_order, matrix
from tests.making.checkpoints import spread, tokenizer
from tests.making.families import FAMILIES

FINAL = {
    "gpt2": "transformer.ln_f",
    "opt": "model.decoder.final_layer_norm",
    "llama": "model.norm",
    "phi": "model.final_layernorm",
    "gemma2": "model.norm",
}


def explicit(model: AttentionModel, name: str, layer: int, head: int) -> Tensor:
    """(d_vocab, d_vocab): what looking at a source adds to a destination's logit, less the mean."""
    network = model.network
    body = network if name == "gpt2" else network.base_model
    weights = model.attention_weights(layer)
    key_head = head * model.n_kv_heads // model.n_heads
    before = in_order(NETWORKS[name].reading(body, layer), model.d_model)
    after = in_order(NETWORKS[name].writing(body, layer), model.d_model)
    final = matrix(network.get_submodule(FINAL[name]))
    W_OV = before @ weights.W_V[key_head] @ weights.W_O[head] @ after @ final
    E, U = network.get_input_embeddings().weight, network.get_output_embeddings().weight
    return (E @ W_OV @ (U - U.mean(0)).T).detach()


@pytest.mark.parametrize("name", FINAL)
def test_eigenvalues_are_those_of_the_explicit_matrix(name: str) -> None:
    model = causal(name)
    found = copying_scores(model)
    for layer in range(model.n_layers):
        for head in range(model.n_heads):
            expected = torch.linalg.eigvals(explicit(model, name, layer, head))
            expected = expected[expected.abs().argsort(descending=True)]
            n = min(len(expected), model.d_head)
            ours = found.eigenvalues[layer, head]
            torch.testing.assert_close(ours[:n].abs(), expected[:n].abs(), rtol=1e-8, atol=1e-10)
            assert float(ours[n:].abs().sum()) < 1e-8
            score = expected.real.sum() / expected.abs().sum()
            assert float(found.score[layer, head]) == pytest.approx(float(score), abs=1e-8)
            if model.d_head <= len(expected):
                share = (expected[: model.d_head].real > 0).double().mean()
                assert float(found.positive_share[layer, head]) == pytest.approx(float(share))


@pytest.mark.parametrize("name", FINAL)
def test_all_pairs_are_ranked_as_in_the_explicit_matrix(name: str) -> None:
    model = causal(name)
    whole = explicit(model, name, 1, 2)
    assert float(whole.mean(1).abs().max()) < 1e-10  # what raises all logits alike is left out
    found = favoured_pairs(model, 1, 2, top=11)
    assert found.exact and found.n_sources == found.d_vocab == len(whole) == 13
    values, places = (whole / whole.square().mean().sqrt()).flatten().topk(11)
    assert found.pairs.strength.tolist() == pytest.approx(values.tolist(), rel=1e-9)
    ids = list(zip(found.pairs.source_id, found.pairs.destination_id, strict=True))
    assert ids == [divmod(int(place), 13) for place in places]
    assert found.pairs.n_as_strong.tolist() == list(range(1, 12))
    assert not found.pairs.n_as_strong_error.any() and found.copied_error == 0
    among = (whole > whole.diagonal()[:, None]).sum(1) < 10
    assert found.copied == pytest.approx(float(among.double().mean()))
    words = tokenizer(pairs=False).convert_ids_to_tokens([ids[0][0]])
    assert found.pairs.source[0] == words[0]


def test_sources_drawn_at_random_say_how_far_they_may_be_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = mv.load("tiny-gpt2")
    exact = favoured_pairs(model, 1, 2, top=600)
    monkeypatch.setattr(module, "CELLS", 601 * exact.d_vocab)
    sampled = favoured_pairs(model, 1, 2, top=50, seed=3)
    assert exact.exact and not sampled.exact and sampled.n_sources == 601
    assert abs(sampled.copied - exact.copied) < 4 * sampled.copied_error
    assert 0 < sampled.copied_error < 0.02
    known = {
        (a, b): strength
        for a, b, strength in zip(
            exact.pairs.source_id, exact.pairs.destination_id, exact.pairs.strength, strict=True
        )
    }
    for row in sampled.pairs.head(10).itertuples():
        assert row.strength == pytest.approx(known[row.source_id, row.destination_id], rel=1e-4)
    last = sampled.pairs.iloc[-1]
    as_strong = (exact.pairs.strength >= last.strength * (1 - 1e-5)).sum()
    assert as_strong < len(exact.pairs)
    assert abs(as_strong - last.n_as_strong) < 4 * last.n_as_strong_error


def test_the_error_of_a_count_is_the_spread_of_what_other_sources_give() -> None:
    rng = torch.Generator().manual_seed(11)
    d_vocab, n = 61, 17
    strong = torch.randint(1, 14, (d_vocab,), generator=rng) // 4 * 5  # pairs of each source
    counts, errors = [], []
    for _ in range(1000):
        drawn = torch.randperm(d_vocab, generator=rng)[:n]
        sources = drawn.repeat_interleave(strong[drawn]).tolist()
        counts.append(len(sources) * d_vocab / n)
        errors.append(module._errors(sources, n, d_vocab)[-1])
    spread = float(torch.tensor(counts).std())
    assert sum(counts) / 1000 == pytest.approx(int(strong.sum()), abs=4 * spread / 1000**0.5)
    assert (sum(e**2 for e in errors) / 1000) ** 0.5 == pytest.approx(spread, rel=0.1)
    assert not any(module._errors([3, 3, 5], d_vocab, d_vocab))  # all were looked at


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_head_that_writes_what_it_reads_copies(sign: float) -> None:
    model = causal("gpt2")
    network, d = model.network.transformer, model.d_model
    with torch.no_grad():
        network.ln_f.weight.fill_(1.0)
        network.h[1].ln_1.weight.fill_(1.0)
        attention = network.h[1].attn
        attention.c_proj.weight.copy_(sign * attention.c_attn.weight[:, 2 * d :].T)
    found = copying_scores(model)
    assert found.score[1].tolist() == pytest.approx([sign] * model.n_heads)
    assert found.positive_share[1].tolist() == [sign > 0] * model.n_heads
    assert (sign * found.zscore[1] > 1.5).all()
    assert found.table().score.is_monotonic_decreasing
    first = found.table().iloc[0]
    assert sign < 0 or first.layer == 1


def _post_norm() -> AttentionModel:
    config = FAMILIES["opt"][0].to_dict() | {"do_layer_norm_before": False}
    network = tf.AutoModelForCausalLM.from_config(
        tf.OPTConfig(**config), attn_implementation=IMPLEMENTATION
    )
    return AttentionModel(spread(network), tokenizer(pairs=False), name="opt")


def test_heads_and_numbers_that_are_none_are_refused() -> None:
    model = causal("gpt2")
    for arguments, said in [
        ((3, 0), "layer .*3"),
        ((0, -1), "head .*-1"),
        ((0, 0, 0), "top .*0"),
    ]:
        with pytest.raises(ArgumentError, match=said):
            favoured_pairs(model, *arguments)
    for model in (mv.load("tiny-bert"), build("llama"), _post_norm()):
        with pytest.raises(AttentionUnavailableError):
            copying_scores(model)
        with pytest.raises(AttentionUnavailableError):
            favoured_pairs(model, 0, 0)
