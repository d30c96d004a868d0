"""A prediction as a graph: against autograd, by its conservation laws, folded, and as a file."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
import torch

import mha_viz as mv
from mha_viz.circuits.attribution import prediction_graph as prediction
from mha_viz.circuits.attribution.prediction_graph import prediction_graph
from mha_viz.circuits.attribution.signed_graph import PredictionGraph
from mha_viz.errors import ArgumentError, AttentionUnavailableError, RecordError
from tests.circuits.frozen_reference import FrozenNetwork
from tests.circuits.induction_network import CLEAN, induction_model
from tests.making.every_family import PREDICTING, TOLERANCE, build, in_both_precisions, text_for

SENTENCE = "The cat saw the dog. The cat saw the"


@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_neox", "bert"])
def test_contributions_are_those_of_autograd_on_a_frozen_eager_network(name):
    model, text = build(name, torch.float64, predicts=True), text_for(name)
    exact = 1e-6 if name == "llama" else 1e-9  # its norms compute in float32
    graph = prediction_graph(model, text, "mat", "street", share=1)
    numbers = [model.tokenizer.convert_tokens_to_ids(word) for word in ("mat", "street")]
    own = FrozenNetwork(model, [token.id for token in graph.tokens])
    found = own.contributions(graph.position, *numbers)
    assert graph.value == pytest.approx(
        float(
            own.logits.detach()[graph.position, numbers[0]]
            - own.logits.detach()[graph.position, numbers[1]]
        )
    )
    edges = graph.edges
    n = graph.position + 1 if model.causal else len(graph.tokens)
    for layer in range(model.n_layers):
        mine = edges[edges.layer == layer]
        sources = torch.zeros_like(found["sources"][layer])
        rows = mine[mine.kind == "source"]
        index = tuple(torch.tensor(rows[c].to_numpy(int)) for c in ("head", "query", "key"))
        sources[index] = torch.tensor(rows.contribution.to_numpy())
        assert torch.allclose(sources, found["sources"][layer], atol=exact)
        written = mine[mine.kind == "MLP"].groupby("query").contribution.sum()
        expected = found["mlp"][layer][:n].numpy()
        assert np.allclose(written.reindex(range(n), fill_value=0.0), expected, atol=exact)
        into = edges[edges.source.str.startswith(f"L{layer} in @")]
        at = into.key.fillna(into["query"]).astype(int)
        through = into.groupby(at).contribution.sum().reindex(range(n), fill_value=0.0)
        assert np.allclose(through, found["stream"][layer][:n].numpy(), atol=exact)


@pytest.mark.parametrize(("name", "dtype"), in_both_precisions(PREDICTING))
def test_at_every_sum_the_edges_and_what_began_above_are_the_logit_difference(name, dtype):
    model = build(name, dtype, predicts=True)
    graph = prediction_graph(model, text_for(name), "mat", "street", share=1)
    size = TOLERANCE[dtype] * max(1.0, graph.edges.contribution.abs().max())
    assert graph.path_sum + graph.final_bias == pytest.approx(graph.value, abs=size)
    assert graph.step == (2 if name in ("gpt_neox", "cohere") else 1)
    begun = 0.0
    for _, rows in sorted(graph.edges.groupby("level"), reverse=True):
        assert rows.contribution.sum() + begun == pytest.approx(graph.path_sum, abs=size)
        begun += rows.contribution[rows.kind.isin(["MLP", "bias"])].sum()
    assert np.allclose(graph.edges.flow, graph.edges.contribution, atol=size)


def test_the_induction_circuit_written_by_hand_is_its_strongest_path():
    model = induction_model()
    graph = prediction_graph(model, CLEAN, "sat", "on", share=1)
    sat, on = model.tokenizer.convert_tokens_to_ids(["sat", "on"])
    edges = graph.edges[graph.edges.kind == "source"]
    best = edges.loc[edges.contribution.idxmax()]
    assert (best.through, best.source, best.target) == ("L1 H0 @4", "L1 in @2", "L1 mid @4")
    # L1 H0 writes 3 times what it reads of a token into that token's part of the stream.
    with torch.no_grad():
        states = model.network(
            input_ids=torch.tensor([[token.id for token in graph.tokens]]),
            output_hidden_states=True,
        ).hidden_states
        network = model.network.transformer
        read = network.h[1].ln_1(states[1])[0, 2]
        last = network.h[1].ln_1(states[1])  # the MLPs write nothing
        last = network.h[1].attn(last)[0] + states[1]
        scale = (last[0, 4].var(unbiased=False) + network.ln_f.eps).sqrt()
    expected = best.weight * 3 * float((read[sat] - read[on]) / scale)
    assert best.weight > 0.99 and best.contribution == pytest.approx(expected, rel=1e-9)
    assert best.contribution > 0.8 * graph.path_sum
    small = prediction_graph(model, CLEAN, "sat", "on", share=0.6)
    assert "L1 H0 @4" in set(small.edges.through) and len(small.edges) < 20


@pytest.fixture(scope="module")
def unfolded() -> PredictionGraph:
    return prediction_graph(mv.load("tiny-gpt2"), "An unbelievable thing happened", share=0.97)


@pytest.mark.parametrize("columns", ["tokens", "words", "text"])
def test_a_folded_graph_has_the_same_sums(unfolded, columns):
    graph = unfolded
    labels = {(0, 0): "some", (0, 3): "some", (1, 5): "other", (2, 2): "some"}
    folded = graph.grouped(columns, labels)
    for one, other in itertools.pairwise([graph, folded]):
        sums = [each.edges.groupby(["level", "kind"]).flow.sum() for each in (one, other)]
        assert np.allclose(sums[0], sums[1], atol=1e-12)
    assert folded.path_sum == pytest.approx(graph.path_sum)
    assert len(folded.edges) < len(graph.edges)
    ends = ["level", "kind", "layer", "head", "query", "key"]
    assert not folded.edges[ends].duplicated().any()
    some = graph.edges[(graph.edges.layer == 0) & graph.edges["head"].isin([0, 3])]
    merged = folded.edges[folded.edges.through.fillna("").str.startswith("L0 some @")]
    assert merged.flow.sum() == pytest.approx(some.flow.sum()) and len(some)
    if columns == "words":
        assert [token.text for token in folded.tokens] == "An unbelievable thing happened".split()
    if columns == "text":
        assert set(folded.edges["query"]) == {0} and folded.position == 0
    with pytest.raises(ArgumentError, match="columns"):
        graph.grouped("letters")


def test_a_file_opens_as_the_same_graph(tmp_path):
    graph = prediction_graph(mv.load("tiny-gpt2"), SENTENCE, "dog", "cat", pins=["L3 H1 @9"])
    for one in (graph, graph.grouped("words", {(3, 1): "folded"})):
        one.save(tmp_path / "graph.json")
        again = PredictionGraph.load(tmp_path / "graph.json")
        assert again.to_bytes() == one.to_bytes()
        pd.testing.assert_frame_equal(again.edges, one.edges)
        pd.testing.assert_frame_equal(again.nodes, one.nodes)
    content = json.loads(graph.to_bytes())
    assert (content["kind"], content["version"]) == ("mha_viz prediction graph", 1)
    assert {row["node"] for row in content["nodes"]} >= {row["target"] for row in content["edges"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (dict(version=2), "version is 2"),
        (dict(kind="mha_viz circuit"), "kind"),
        (dict(value=1e300), "finite"),
        (dict(token=7), "texts"),
        (dict(text="x" * 1_000_001), "texts"),
        (dict(position=99), "position"),
        (dict(n_heads=1), "edge"),
        (dict(names=[[0, 99, "x"]]), "names"),
        (dict(sha256="0" * 64), "changed"),
    ],
)
def test_a_damaged_file_is_refused_in_a_sentence(unfolded, change, said):
    content = json.loads(unfolded.to_bytes())
    if "sha256" not in change:
        del content["sha256"]  # as files of before have none
    content |= change
    with pytest.raises(RecordError, match=said):
        PredictionGraph.from_bytes(json.dumps(content).encode())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (dict(share=0), "share"),
        (dict(share=float("nan")), "share"),
        (dict(pins=["L1"]), "'L1'"),
        (dict(pins=["L9 H0 @0"]), "L9 H0 @0"),
        (dict(pins=["L1 H8 @0"]), "L1 H8"),
        (dict(pins=["L1 in @4"]), "L1 in @4"),
    ],
)
def test_bad_input_is_one_sentence(given, said):
    with pytest.raises(ArgumentError, match=said):
        prediction_graph(mv.load("tiny-gpt2"), "Once upon a", **given)


def test_what_is_too_large_or_predicts_nothing_is_refused(monkeypatch):
    with pytest.raises(AttentionUnavailableError):
        prediction_graph(build("bert"), "the cat")
    model = build("gpt_neox", predicts=True)
    with pytest.raises(ArgumentError, match="mid"):
        prediction_graph(model, text_for("gpt_neox"), pins=["L0 mid @1"])
    monkeypatch.setattr(prediction, "MAX_WEIGHTS", 4 * 8 * 5**2)
    with pytest.raises(ArgumentError, match="at most 5 tokens"):
        prediction_graph(mv.load("tiny-gpt2"), SENTENCE)
