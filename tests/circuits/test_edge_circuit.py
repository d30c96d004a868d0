"""Circuits of edges: nothing dangles, a written circuit is recovered, faithfulness by size."""

import itertools
import random

import networkx
import pytest
import torch

from mha_viz.circuits.effects.edge_circuit import edge_circuit, edge_faithfulness
from mha_viz.circuits.effects.edge_effects import edge_effects
from mha_viz.circuits.effects.edge_graph import EdgeGraph
from mha_viz.circuits.tasks.make_task import make_task
from mha_viz.circuits.tasks.task import Example, Task
from mha_viz.errors import ArgumentError
from mha_viz.text.encoding import encode_texts
from tests.circuits import induction_network
from tests.circuits.plain_edges import PlainEdges
from tests.circuits.test_path_effect import predicting

GRAPH = EdgeGraph(n_layers=3, n_heads=2)


def induction_task(model) -> Task:
    """Make pairs: after the last token's like comes b, and c with two tokens exchanged."""
    words = "the cat sat on a mat and ran".split()
    number = model.tokenizer.convert_tokens_to_ids
    examples = []
    for first in range(6):
        a, b, o, c, d = (words[(first + i) % 8] for i in range(5))
        texts = f"{d} {a} {b} {o} {c} {a}", f"{d} {o} {b} {a} {c} {a}"
        clean, corrupt = (encode_texts(model.reader, text)[0] for text in texts)
        examples.append(Example(clean, corrupt, len(clean.input_ids) - 1, number(b), number(c)))
    return Task("by hand", model.name, 0, tuple(examples), ())


@pytest.mark.parametrize("method", ["exact", "eap-ig"])
def test_a_circuit_written_by_hand_is_recovered(method):
    model = induction_network.induction_model()
    scores = edge_effects(model, induction_task(model), method)
    circuit = edge_circuit(scores, 3)
    assert set(circuit.edges) == {
        ("embedding", "L0 H0 value"),
        ("L0 H0", "L1 H0 key"),
        ("L1 H0", "logits"),
    }
    assert circuit.nodes == ("embedding", "L0 H0", "L1 H0")
    curve = edge_faithfulness(scores, [3, 11, scores.n_edges], n_random=3)
    assert curve.size_for(0.9) == 3 and float(curve.faithfulness[0]) > 0.95
    assert float(curve.complement[0]) < 0.1 and float(curve.random[0].max()) < 0.1
    costs = circuit.minimality()
    assert len(costs) == 3 and bool((costs.cost > 0.9).all())  # none can be spared


# -- sets of edges ---------------------------------------------------------------------------------


def some_edges(seed: int, share: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return GRAPH.exists & (torch.rand(GRAPH.exists.shape, generator=generator) < share)


def on_paths(kept: torch.Tensor) -> set[tuple[int, int]]:
    """The edges on paths from the embedding to the logits, by networkx."""
    graph = networkx.DiGraph()
    graph.add_nodes_from(["sender 0", "logits"])
    for i, j in kept.nonzero().tolist():
        node = int(GRAPH.node_of[j])
        to = "logits" if node == len(GRAPH.senders) else f"sender {node}"
        graph.add_edge(f"sender {i}", f"receiver {j}")
        graph.add_edge(f"receiver {j}", to)
    good = networkx.descendants(graph, "sender 0") | {"sender 0"}
    good &= networkx.ancestors(graph, "logits") | {"logits"}
    places = kept.nonzero().tolist()
    return {(i, j) for i, j in places if f"sender {i}" in good and f"receiver {j}" in good}


@pytest.mark.parametrize(("seed", "share"), [*itertools.product(range(3), [0.03, 0.2, 0.6])])
def test_connected_keeps_the_edges_on_paths(seed, share):
    kept = some_edges(seed, share)
    found = GRAPH.connected(kept)
    assert {(i, j) for i, j in found.nonzero().tolist()} == on_paths(kept)


def test_strongest_are_nested_and_as_many_as_fit():
    generator = torch.Generator().manual_seed(7)
    scores = torch.randn(GRAPH.exists.shape, generator=generator).where(GRAPH.exists, torch.nan)
    n, before = int(GRAPH.exists.sum()), torch.zeros_like(GRAPH.exists)
    order, sizes = scores.abs().nan_to_num(-1.0).flatten().argsort(descending=True), []
    for count in range(n + 1):
        kept = torch.zeros(GRAPH.exists.numel(), dtype=torch.bool)
        kept[order[:count]] = True
        sizes.append(len(on_paths(kept.view_as(GRAPH.exists))))
    for size in (5, 17, 40, n):
        strongest = GRAPH.strongest(scores, size)
        assert int(strongest.sum()) == max(count for count in sizes if count <= size)
        assert bool((strongest | ~before).all())  # none of the smaller set is missing
        before = strongest


@pytest.mark.parametrize(("parallel", "n_of_mlps"), [(False, 4 + 8), (True, 1 + 5)])
def test_edges_are_as_many_as_counted_by_hand(parallel, n_of_mlps):
    graph = EdgeGraph(n_layers=2, n_heads=3, parallel=parallel)
    assert int(graph.exists.sum()) == 9 * 1 + 9 * 5 + 9 + n_of_mlps
    edges = {(graph.senders[i], graph.receivers[j]) for i, j in graph.exists.nonzero().tolist()}
    assert (("L0 H2", "MLP 0") in edges) != parallel and ("MLP 0", "L1 H0 key") in edges
    assert not {("L0 H2", "L0 H1 value"), ("MLP 1", "MLP 1")} & edges


@pytest.mark.parametrize("size", [1, 19, 90])
def test_draw_makes_connected_sets_of_that_size(size):
    drawn = {
        tuple(GRAPH.draw(size, random.Random(seed)).nonzero().flatten().tolist())
        for seed in range(4)
    }
    assert len(drawn) > 1 or size == 1
    for seed in range(4):
        kept = GRAPH.draw(size, random.Random(seed))
        assert int(kept.sum()) == size and bool((GRAPH.exists | ~kept).all())
        assert torch.equal(GRAPH.connected(kept), kept)


# -- the curve -------------------------------------------------------------------------------------


def test_the_curve_ends_at_one_and_its_numbers_are_those_of_runs():
    model = induction_network.induction_model()
    scores = edge_effects(model, induction_task(model), "eap")
    curve = edge_faithfulness(scores, n_random=2, seed=5)
    assert curve.sizes == tuple(sorted(curve.sizes)) and curve.sizes[-1] == scores.n_edges
    assert float(curve.faithfulness[-1]) == pytest.approx(1.0, abs=1e-9)
    assert float(curve.complement[-1]) == pytest.approx(0.0, abs=1e-9)
    runs = scores.held_out
    measured = [row.input_ids for pairs in runs.pairs for row in pairs.runs.targets.rows]
    assert measured == [example.clean.input_ids for example in scores.task.held_out]
    clean, corrupt = runs.clean.mean(), runs.corrupt.mean()
    for i, circuit in enumerate(curve.circuits):
        value = runs.values(circuit.mask[None]).mean()
        share = float((value - corrupt) / (clean - corrupt))
        assert float(curve.faithfulness[i]) == pytest.approx(share, abs=1e-9)
        assert float(curve.low[i]) - 1e-9 <= share <= float(curve.high[i]) + 1e-9
    table = curve.table()
    assert table.edges.tolist() == list(curve.sizes)
    heights = [0.0, *curve.faithfulness.tolist()]
    shares = [0.0, *table.share]
    area = sum(
        (b - a) * (x + y) / 2
        for (a, b), (x, y) in zip(
            itertools.pairwise(shares), itertools.pairwise(heights), strict=True
        )
    )
    assert curve.area == pytest.approx(area) and 0 <= curve.distance < 1


def test_wrong_sizes_and_no_behaviour_are_refused():
    model = induction_network.induction_model()
    task = induction_task(model)
    scores = edge_effects(model, task, "eap")
    for size in (0, scores.n_edges + 1, True):
        with pytest.raises(ArgumentError, match="size"):
            edge_circuit(scores, size)
    with pytest.raises(ArgumentError):
        edge_circuit(scores, 1)
    with pytest.raises(ArgumentError, match="n_random"):
        edge_faithfulness(scores, [3], n_random=0)
    same = tuple(one._replace(corrupt=one.clean) for one in task.examples)
    scores.task = Task("none", model.name, 0, same, ())
    scores.__dict__.pop("held_out", None)
    with pytest.raises(ArgumentError):
        edge_faithfulness(scores, [3])


@pytest.mark.parametrize("recompute", [True, False])
def test_parts_by_position_sum_to_the_scores_and_are_those_of_hooks(recompute):
    model = predicting("gpt2", double=True)
    task = make_task(model, "induction", 4)
    scores = edge_effects(model, task, "eap", recompute=recompute)
    exists = scores.graph.exists
    n = len(task.examples[0].clean.tokens)
    assert scores.by_position.shape == (*exists.shape, n)
    assert torch.allclose(scores.by_position.sum(-1)[exists], scores.estimate[exists])
    # What reads the end of the stream at the answer's place alone changes it there alone.
    place = task.examples[0].position
    others = [i for i in range(n) if i != place]
    assert scores.by_position[:, -1, others].abs().max() == 0
    assert scores.by_position[:, :, others].abs().nan_to_num().max() > 1e-3
    plain, receiver = PlainEdges(model.network), "MLP 1"
    column, expected = scores.receivers.index(receiver), torch.zeros(n, dtype=torch.float64)
    for example in task.to_choose_on:
        both = [plain.noted(one.input_ids)[0]["L0 H3"] for one in example[:2]]

        def of(logits, example=example):
            at = logits[example.position]
            return at[example.right] - at[example.wrong]

        gradient = plain.gradient(example.clean.input_ids, receiver, of)
        expected += ((both[1] - both[0]) * gradient).sum(-1).reshape(-1).detach()
    found = scores.by_position[scores.senders.index("L0 H3"), column]
    assert torch.allclose(found, expected / len(task.to_choose_on), atol=1e-9)
    circuit = edge_circuit(scores, 40)
    table = circuit.by_position()
    assert len(table) == circuit.size * n
    sums = table.groupby(["sender", "receiver"]).score.sum()
    for row in circuit.table().head(7).itertuples():
        assert sums[row.sender, row.receiver] == pytest.approx(row.estimate, abs=1e-9)


def test_pairs_of_several_lengths_have_no_positions(gpt):
    rows = [
        ("A bird saw a", "A girl saw a", "cat", "dog"),
        ("One day a bird saw a", "One day a girl saw a", "dog", "cat"),
    ]
    task = make_task(gpt, rows + [(f"{row[0]} big", f"{row[1]} big", *row[2:]) for row in rows])
    scores = edge_effects(gpt, task, "eap")
    assert scores.by_position.shape[-1] == 1
    with pytest.raises(ArgumentError):
        edge_circuit(scores, 200).by_position()
