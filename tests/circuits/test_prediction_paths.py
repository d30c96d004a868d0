"""A part of a prediction's graph: against the sum over its single paths, cut, and with pins."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

import mha_viz as mv
from mha_viz.circuits.attribution.prediction_graph import prediction_graph
from tests.circuits.induction_network import CLEAN, induction_model

SENTENCE = "The cat saw the dog. The cat saw the"
MASKED = "The cat [MASK] on the mat."


def paths_of(model, edges) -> dict[tuple[str, ...], np.ndarray]:
    """Every path in some edges, from a node to the top, as the vector that it makes of the number.

    GPT-2 with norms before: each edge as a matrix of its own, multiplied along the path.
    """
    network, d = model.network.transformer, model.network.config.n_embd
    ids = torch.tensor([model.tokenizer(CLEAN)["input_ids"]])
    with torch.no_grad():
        states = model.network(input_ids=ids, output_hidden_states=True).hidden_states

    def norm(module, x):
        scale = (x.var(unbiased=False) + module.eps).sqrt()
        return (torch.eye(d, dtype=x.dtype) - 1 / d) * module.weight / scale

    def matrix(edge):
        if edge.kind != "source":
            return torch.eye(d, dtype=torch.float64)
        block = network.h[edge.layer]
        mine = slice(edge.head * d // model.n_heads, (edge.head + 1) * d // model.n_heads)
        W_V = block.attn.c_attn.weight[:, 2 * d :][:, mine]
        W_O = block.attn.c_proj.weight[mine]
        return edge.weight * norm(block.ln_1, states[edge.layer][0, edge.key]) @ W_V @ W_O

    above = {}
    for edge in edges.itertuples():
        above.setdefault(edge.source, []).append((edge, matrix(edge).detach()))
    x = states[0][0].detach()
    found = {}

    def walk(node, vector, way):
        if node not in above:
            found[way] = vector
        for edge, through in above.get(node, ()):
            walk(edge.target, vector @ through, (*way, edge.through or "", edge.target))

    for position in range(len(x)):
        walk(f"L0 in @{position}", x[position], (f"L0 in @{position}",))
    return found


@pytest.mark.parametrize(
    ("share", "pins"),
    [
        (1, ()),
        (0.8, ()),
        (1, ("L1 H0 @4",)),
        (1, ("L0 H1 @*", "L1 mid @4")),
        (0.9, ("L0 in @2", "L1 H1 @4", "L1 H0 @4")),
        (1, ("L1 in @2", "L1 in @1")),
    ],
)
def test_flow_is_the_sum_over_the_single_paths_within_the_graph(share, pins):
    model = induction_model()
    graph = prediction_graph(model, CLEAN, "sat", "on", share=share, pins=pins)
    sat, on = model.tokenizer.convert_tokens_to_ids(["sat", "on"])
    top = prediction_graph(model, CLEAN, "sat", "on", share=1)
    with torch.no_grad():
        ids = torch.tensor([[token.id for token in graph.tokens]])
        last = model.network(input_ids=ids, output_hidden_states=True)
        final = model.network.transformer.ln_f
        W_U = model.network.lm_head.weight
        block = model.network.transformer.h[1]
        x = last.hidden_states[1]
        stream = (x + block.attn(block.ln_1(x))[0])[0, 4]
        scale = (stream.var(unbiased=False) + final.eps).sqrt()
        direction = final.weight * (W_U[sat] - W_U[on]) / scale
        direction = direction - direction.mean()
    number = {
        way: float(vector @ direction)
        for way, vector in paths_of(model, top.edges).items()
        if way[-1] == "out @4"
    }
    assert sum(number.values()) == pytest.approx(top.path_sum)  # MLPs and biases are 0 here
    levels = [[name for name in pins if level(name) == one] for one in set(map(level, pins))]
    pinned = {way for way in number if all(any(passes(way, p) for p in one) for one in levels)}
    drawn = set(
        zip(graph.edges.source, graph.edges.through.fillna(""), graph.edges.target, strict=True)
    )
    kept = {way for way in pinned if steps(way) <= drawn}
    assert graph.path_sum == pytest.approx(sum(number[way] for way in kept), abs=1e-12)
    assert share < 1 or graph.path_sum == pytest.approx(
        sum(number[way] for way in pinned), abs=1e-12
    )
    for edge in graph.edges[graph.edges.kind.isin(["residual", "source"])].itertuples():
        step = (edge.source, edge.through if edge.kind == "source" else "", edge.target)
        through = sum(number[way] for way in kept if step in steps(way))
        assert edge.flow == pytest.approx(through, abs=1e-12)


def level(pin: str) -> str:
    return pin.split(" @")[0].rstrip("012")


def passes(way: tuple[str, ...], pin: str) -> bool:
    name, at = pin.split(" @")
    return any(node.split(" @")[0] == name and at in ("*", node[-1]) for node in way if node)


def steps(way: tuple[str, ...]) -> set[tuple[str, ...]]:
    """The edges of a path, which is nodes with what each edge passes between them."""
    return set(zip(way[0::2], way[1::2], way[2::2], strict=False))


@pytest.mark.parametrize(("name", "text"), [("tiny-gpt2", SENTENCE), ("tiny-bert", MASKED)])
def test_in_a_graph_what_enters_a_node_is_what_leaves_it(name, text):
    model = mv.load(name)
    whole = prediction_graph(model, text, share=1)
    n_edges = len(whole.edges)
    for share in (0.9, 0.5):
        graph = prediction_graph(model, text, share=share)
        edges = graph.edges
        assert len(edges) < n_edges
        n_edges = len(edges)
        into, out = edges.groupby("target").flow.sum(), edges.groupby("source").flow.sum()
        inner = [node for node in into.index if node != f"out @{graph.position}"]
        assert set(inner) <= set(out.index)
        assert np.allclose(into[inner], out[inner], atol=1e-4)
        begun = [node for node in out.index if node not in into.index]
        assert out[begun].sum() == pytest.approx(graph.path_sum, abs=1e-4)
        both = edges.merge(whole.edges, on=["source", "through", "target"], suffixes=("", "_all"))
        assert len(both) == len(edges)
        assert np.allclose(both.contribution, both.contribution_all, atol=1e-4)
        sizes = [counted(one.edges).contribution.abs() for one in (graph, whole)]
        assert sizes[0].sum() >= share * sizes[1].sum()
        kept, fewer = (
            connected(whole.edges, sizes[0].min() * near, f"out @{graph.position}")
            for near in (1 - 1e-5, 1 + 1e-5)
        )
        shared = kept.merge(edges, on=["source", "through", "target"])
        assert len(shared) == len(kept) == len(edges)  # the largest, and no fewer hold the share
        assert counted(fewer).contribution.abs().sum() < share * sizes[1].sum()


def counted(edges: pd.DataFrame) -> pd.DataFrame:
    """All edges but the stream past all sums but the first."""
    return edges[(edges.kind != "residual") | (edges.level == edges.level.min())]


def connected(edges: pd.DataFrame, least: float, top: str) -> pd.DataFrame:
    """Return the edges of some size, and the stream's, on paths from a beginning to the top."""
    is_counted = edges.index.isin(counted(edges).index)
    edges = edges[(edges.contribution.abs() >= least) | ~is_counted]
    up = nx.from_pandas_edgelist(edges, create_using=nx.DiGraph)
    edges = edges[edges.target.isin({top} | nx.ancestors(up, top))]
    up = nx.from_pandas_edgelist(edges, create_using=nx.DiGraph)
    begins = edges.kind.isin(["MLP", "bias"]) | edges.source.str.startswith("L0 in @")
    alive = set(edges.source[begins])
    return edges[edges.source.isin(alive.union(*(nx.descendants(up, node) for node in alive)))]


@pytest.mark.extended
def test_pins_of_one_level_are_alternatives_and_add_up():
    model = mv.load("tiny-gpt2")
    whole = prediction_graph(model, SENTENCE, share=1)
    n = whole.position + 1
    edges = whole.edges

    def held(*pins: str) -> float:
        return prediction_graph(model, SENTENCE, share=1, pins=pins).path_sum

    one_by_one = [held(f"L2 in @{i}") for i in range(n)]
    begun_below = edges[(edges.level > 4) & edges.kind.isin(["MLP", "bias"])].contribution.sum()
    assert sum(one_by_one) == pytest.approx(whole.path_sum - begun_below, abs=1e-4)
    assert held("L2 in @1", "L2 in @3") == pytest.approx(one_by_one[1] + one_by_one[3], abs=1e-4)
    assert held("L2 in @*") == pytest.approx(sum(one_by_one), abs=1e-4)
    through = edges[edges.through.fillna("").str.startswith("L3 H4 @")].contribution.sum()
    assert held("L3 H4 @*") == pytest.approx(through, abs=1e-4)
    mlp = edges[edges.through == "L1 MLP @4"].contribution.sum()
    assert held("L1 MLP @4") == pytest.approx(mlp, abs=1e-4)
    assert held("L1 MLP @4", "L0 in @2") == 0  # no path passes both
