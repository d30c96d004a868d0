"""A prediction as a graph: against autograd, against single paths, and by its conservation laws."""

import itertools
import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

import mha_viz as mv
from mha_viz.circuits.flow import prediction
from mha_viz.circuits.flow.prediction import prediction_graph
from mha_viz.circuits.flow.signed_graph import PredictionGraph
from mha_viz.errors import ArgumentError, AttentionUnavailableError, RecordError
from tests.circuits.frozen_reference import FAMILIES, FrozenNetwork
from tests.circuits.induction_network import CLEAN, induction_model
from tests.making.every_family import PREDICTING, TOLERANCE, build, in_both_precisions, text_for

SENTENCE = "The cat saw the dog. The cat saw the"
MASKED = "The cat [MASK] on the mat."


@pytest.mark.parametrize("name", FAMILIES)
def test_contributions_are_those_of_autograd_on_a_frozen_eager_network(name):
    model, text = build(name, torch.float64, predicts=True), text_for(name)
    exact = 1e-6 if name == "llama" else 1e-9  # its norms compute in float32
    graph = prediction_graph(model, text, "mat", "street", share=1)
    numbers = [model.tokenizer.convert_tokens_to_ids(word) for word in ("mat", "street")]
    own = FrozenNetwork(name, model, [token.id for token in graph.tokens])
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
    assert graph.held + graph.rest == pytest.approx(graph.value, abs=size)
    assert graph.step == (2 if name in ("gpt_neox", "cohere") else 1)
    begun = 0.0
    for _, rows in sorted(graph.edges.groupby("level"), reverse=True):
        assert rows.contribution.sum() + begun == pytest.approx(graph.held, abs=size)
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
    assert best.contribution > 0.8 * graph.held
    small = prediction_graph(model, CLEAN, "sat", "on", share=0.6)
    assert "L1 H0 @4" in set(small.edges.through) and len(small.edges) < 20


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
    assert sum(number.values()) == pytest.approx(top.held)  # MLPs and biases are 0 here
    levels = [[name for name in pins if level(name) == one] for one in set(map(level, pins))]
    pinned = {way for way in number if all(any(passes(way, p) for p in one) for one in levels)}
    drawn = set(
        zip(graph.edges.source, graph.edges.through.fillna(""), graph.edges.target, strict=True)
    )
    kept = {way for way in pinned if steps(way) <= drawn}
    assert graph.held == pytest.approx(sum(number[way] for way in kept), abs=1e-12)
    assert share < 1 or graph.held == pytest.approx(sum(number[way] for way in pinned), abs=1e-12)
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
        assert out[begun].sum() == pytest.approx(graph.held, abs=1e-4)
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
        return prediction_graph(model, SENTENCE, share=1, pins=pins).held

    one_by_one = [held(f"L2 in @{i}") for i in range(n)]
    begun_below = edges[(edges.level > 4) & edges.kind.isin(["MLP", "bias"])].contribution.sum()
    assert sum(one_by_one) == pytest.approx(whole.held - begun_below, abs=1e-4)
    assert held("L2 in @1", "L2 in @3") == pytest.approx(one_by_one[1] + one_by_one[3], abs=1e-4)
    assert held("L2 in @*") == pytest.approx(sum(one_by_one), abs=1e-4)
    through = edges[edges.through.fillna("").str.startswith("L3 H4 @")].contribution.sum()
    assert held("L3 H4 @*") == pytest.approx(through, abs=1e-4)
    mlp = edges[edges.through == "L1 MLP @4"].contribution.sum()
    assert held("L1 MLP @4") == pytest.approx(mlp, abs=1e-4)
    assert held("L1 MLP @4", "L0 in @2") == 0  # no path passes both


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
    assert folded.held == pytest.approx(graph.held)
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
