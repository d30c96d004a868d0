"""Flow into a token: its shares by loops, its paths by following each of them."""

import sys

import numpy as np
import pandas as pd
import pytest
import torch

import mha_viz as mv
from mha_viz.circuits.attribution import flow_graph as flow
from mha_viz.circuits.attribution.flow_graph import flow_graph
from mha_viz.circuits.attribution.part_shares import part_shares
from mha_viz.circuits.attribution.residual_stream import ResidualStream
from mha_viz.circuits.attribution.residual_sums import ResidualSum, residual_sums
from mha_viz.errors import ArgumentError, MhaVizError
from tests.circuits.flow_reference import FAMILIES, share_by_loops, sums
from tests.engine.test_families import LONG, SHORT
from tests.making.every_family import (
    EXACT,
    TOLERANCE,
    build,
    encoded,
    in_both_precisions,
    miss,
)

SHIPPED = ("tiny-bert", "tiny-gpt2", "tiny-llama")
SENTENCE = "The cat sat on the mat because it was warm."


@pytest.mark.parametrize("measure", ["proximity", "norm"])
@pytest.mark.parametrize("name", FAMILIES)
def test_shares_are_their_definition_by_loops(name, measure):
    model = build(name, torch.float64)
    graph = flow_graph(model, LONG, -2, threshold=0, measure=measure)
    names = {"residual": "residual", "MLP": "MLP", "bias": "bias"}
    checked = 0
    edges = graph.edges[graph.edges.kind.isin(["residual", "source", "MLP", "bias"])]
    reference = sums(model, LONG)
    for (layer, query, late), rows in edges.groupby(
        ["layer", "query", edges.source.str.contains("mid|MLP")]
    ):
        places = reference[layer]
        if len(places) == 2:
            expected = share_by_loops(places[int(late)], query, measure)
        else:
            expected = share_by_loops(places[0], query, measure)
        for row in rows.itertuples():
            part = (row.head, row.key) if row.kind == "source" else names[row.kind]
            assert row.contribution == pytest.approx(expected[part], abs=1e-6)
            checked += 1
    assert checked == len(edges) > 500


@pytest.mark.parametrize(("name", "dtype"), in_both_precisions(EXACT))
def test_the_parts_of_every_sum_sum_to_the_stream(name, dtype):
    model = build(name, dtype)
    stream = ResidualStream(model, encoded(model))
    for layer in range(model.n_layers):
        places = residual_sums(stream, layer)
        assert len(places) == (1 if name in ("cohere", "gpt_neox") else 2)
        assert miss(places[-1].total, stream.entering(layer + 1)) <= TOLERANCE[dtype]
        for one in places:
            parts = one.residual + one.bias
            if one.mlp is not None:
                parts = parts + one.mlp
            if one.norms is not None:
                pattern = stream.run.attention("pattern", layer)
                sources = torch.einsum("hqk,hkm->hkqm", pattern, stream.carried(layer)).flatten(
                    0, 1
                )
                parts = parts + one.from_heads(sources, stream.positions).sum(0)
            assert miss(parts, one.total) <= TOLERANCE[dtype]


@pytest.mark.parametrize("name", ["bert", "gpt_neox", "gemma2", "bart", *SHIPPED])
def test_threshold_0_keeps_everything_and_incoming_shares_sum_to_1(name):
    model = mv.load(name) if name in SHIPPED else build(name, torch.float32)
    graph = flow_graph(model, SENTENCE if name in SHIPPED else SHORT, -1, threshold=0)
    assert graph.followed == pytest.approx(1, abs=1e-9) and graph.cut == pytest.approx(0, abs=1e-9)
    into = graph.edges.groupby("target").share.sum()
    contributed = graph.edges[graph.edges.kind == "source"].groupby("target").contribution.sum()
    silent = set(contributed.index[contributed == 0])  # heads of which nothing is in the sum
    assert np.allclose(into.drop(silent), 1, atol=1e-9)
    pairs = graph.edges[graph.edges.kind == "source"]
    record = model.trace(graph.text, keep=("pattern",))
    weights = record.pattern[
        tuple(pairs[c].to_numpy(int) for c in ("layer", "head", "query", "key"))
    ]
    assert np.allclose(pairs.weight, weights, atol=1e-6)
    assert set(pairs[pairs.layer == model.n_layers - 1]["query"]) == {graph.position}
    assert (pairs.key <= pairs["query"]).all() == model.causal
    ends = graph.inputs().flow.sum() + graph.nodes[graph.nodes.kind == "bias"].flow.sum()
    assert ends == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", SHIPPED)
def test_flow_is_the_sum_over_paths_of_the_product_of_shares(name):
    import networkx

    graph = flow_graph(mv.load(name), SENTENCE, -3, 0.03)
    drawn = graph.networkx()
    assert len(drawn) == len(graph.nodes) and drawn.number_of_edges() == len(graph.edges)
    assert networkx.is_directed_acyclic_graph(drawn)
    top = graph.nodes.node[0]
    ways: dict[str, float] = {top: 1.0}
    for node in reversed(list(networkx.topological_sort(drawn))):
        if node != top:
            ways[node] = sum(
                ways[a] * drawn.edges[node, a]["share"] for a in drawn.successors(node)
            )
    assert (graph.edges[graph.edges.kind != "head"].contribution >= 0.03).all()
    # a head's part below the threshold flows into the head and no further
    rows = graph.nodes[graph.nodes.kind != "head"]
    assert np.allclose(rows.flow, [ways[node] for node in rows.node], atol=1e-9)
    some = graph.nodes.iloc[3]
    assert drawn.nodes[some.node]["flow"] == some.flow and "head" not in drawn.nodes[top]


def test_parts_that_cancel_are_shared_by_norm():
    model = build("gpt2", torch.float32)
    stream = ResidualStream(model, encoded(model))
    ones = torch.ones_like(stream.entering(0))
    one = ResidualSum(1, ones, 100 * ones, 0 * ones, -99 * ones)
    shares, by_norm = part_shares(stream, one, [2, 3], "proximity")
    assert by_norm == 2 and shares.residual[4] == 0
    assert shares.residual[2:4].tolist() == pytest.approx([100 / 199] * 2)
    assert shares.mlp[2:4].tolist() == pytest.approx([99 / 199] * 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (dict(position=99), r"-11\.\.10.*99"),
        (dict(position=True), "got True"),
        (dict(position=0, threshold=1.5), "threshold .*1.5"),
        (dict(position=0, threshold="much"), "threshold"),
        (dict(position=0, measure="gradient"), "gradient"),
    ],
)
def test_bad_input_is_one_sentence(arguments, said):
    with pytest.raises(ArgumentError, match=said):
        flow_graph(mv.load("tiny-gpt2"), SENTENCE, **arguments)


def test_what_is_too_large_is_refused_with_what_to_do(monkeypatch):
    model = mv.load("tiny-gpt2")
    monkeypatch.setattr(flow, "MAX_WORK", 100_000)
    with pytest.raises(ArgumentError, match=r"at most 3 tokens"):
        flow_graph(model, SENTENCE, -1)
    assert flow_graph(model, SENTENCE, 2).position == 2
    monkeypatch.setattr(flow, "MAX_PARTS", 20)
    with pytest.raises(ArgumentError, match="threshold"):
        flow_graph(model, SENTENCE, 2, 0)


def test_networkx_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MhaVizError, match="networkx"):
        flow_graph(mv.load("tiny-gpt2"), "The cat", -1).networkx()


@pytest.mark.extended
@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("threshold", [0.01, 0.05, 0.3])
def test_a_threshold_keeps_the_paths_of_larger_shares(name, threshold):
    model = mv.load(name)
    whole, cut = (flow_graph(model, SENTENCE, 4, value) for value in (0, threshold))
    strong = whole.edges[whole.edges.contribution >= threshold]
    reached, expected = {cut.nodes.node[0]}, []
    straight = strong[strong.kind != "head"]  # a head's edge counts by what comes through it
    for row in sorted_from_the_top(straight):
        above = row.target if row.kind != "source" else row.target.replace(f"H{row.head}", "mid")
        above = f"L{row.layer + 1} in" if row.kind == "MLP input" else above.split(" @")[0]
        if row.kind == "MLP input" and row.layer + 1 == model.n_layers:
            above = "out"
        if f"{above} @{row.query}" in reached:
            expected.append((row.source, row.target))
            reached.add(row.source)
    kept = cut.edges[cut.edges.kind != "head"]
    assert set(zip(kept.source, kept.target, strict=True)) == set(expected)
    assert cut.followed + cut.cut == pytest.approx(1, abs=1e-9) and cut.followed < whole.followed


def sorted_from_the_top(edges: pd.DataFrame):
    """Rows so that what is below comes later: the MLP's sum of a layer before attention's."""
    late = edges.source.str.contains("mid|MLP")
    order = edges.assign(late=late).sort_values(["layer", "late"], ascending=False)
    return order.drop(columns="late").itertuples()


def test_a_causal_models_token_knows_nothing_of_what_follows():
    model = mv.load("tiny-gpt2")
    early, late = (flow_graph(model, f"The cat sat on the {end}", 3) for end in ("mat.", "table"))
    assert early.nodes.position.max() == 3
    assert early.edges.source.tolist() == late.edges.source.tolist()
    assert np.allclose(early.edges.flow, late.edges.flow, atol=1e-5)


def test_part_shares_are_those_computed_by_hand():
    model = build("gpt2", torch.float32)
    stream = ResidualStream(model, encoded(model))
    zero = torch.zeros_like(stream.entering(0))
    residual, mlp = zero.clone(), zero.clone()
    residual[:, 0], mlp[:, 1] = 3.0, 1.0  # proximities 4 - 1 and 4 - 3
    one = ResidualSum(1, residual + mlp, residual, zero, mlp)
    shares, _ = part_shares(stream, one, [5], "proximity")
    assert shares.residual[5] == 0.75 and shares.mlp[5] == 0.25 and shares.bias[5] == 0
