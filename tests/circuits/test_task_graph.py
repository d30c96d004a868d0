"""The graph over a task's pairs: against graphs of single texts, attribution and intervals."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import mha_viz as mv
from mha_viz.circuits.attribution.prediction_graph import prediction_graph
from mha_viz.circuits.effects.over_pairs import task_graph
from mha_viz.circuits.tasks.make_task import make_task
from mha_viz.errors import ArgumentError

PAIRS = [
    ("A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a", "cat", "dog"),
    ("A girl had a dog. A girl had a", "A girl had a cat. A girl had a", "dog", "cat"),
    ("A boy saw a ball. A boy saw a", "A boy saw a cat. A boy saw a", "ball", "cat"),
    ("A man had a cat. A man had a", "A man had a ball. A man had a", "cat", "ball"),
]
LONGER = ("One day a bird saw a cat. A bird saw a", "One day a bird saw a dog. A bird saw a")
ENDS = ["level", "kind", "layer", "head", "query", "key"]


def by_ends(edges: pd.DataFrame, column: str) -> pd.Series:
    return edges.astype({"head": float, "key": float}).fillna(-1).set_index(ENDS)[column]


@pytest.mark.parametrize("pooled", [False, True])
def test_task_graph_is_the_mean_of_the_graphs_of_its_texts(gpt, pooled):
    rows = [*PAIRS[:3], (*LONGER, "cat", "dog")] if pooled else PAIRS
    task = make_task(gpt, rows)
    found = task_graph(gpt, task, share=1)
    each = [prediction_graph(gpt, one[0], one[2], one[3], share=1) for one in rows]
    whole = mv.task_attribution(gpt, task)
    assert found.value == pytest.approx(whole.value, abs=1e-5)
    assert found.held + found.rest == pytest.approx(found.value, abs=1e-4)
    single = [
        by_ends((one.grouped("text") if pooled else one).edges, "contribution") for one in each
    ]
    values = pd.concat(single, axis=1).fillna(0.0)
    mine = by_ends(found.edges, "contribution")
    assert len(mine) == len(values) > 40
    values = values.reindex(mine.index)
    assert np.allclose(mine, values.mean(axis=1), atol=1e-5)
    low, high = stats.t.interval(0.95, 3, values.mean(axis=1), stats.sem(values, axis=1))
    assert np.allclose(by_ends(found.edges, "low"), low, atol=1e-4)
    assert np.allclose(by_ends(found.edges, "high"), high, atol=1e-4)
    assert np.allclose(found.edges.flow, found.edges.contribution, atol=1e-5)  # nothing is cut
    assert (len(found.tokens) == 1) == pooled
    if not pooled:
        assert [one.text for one in found.tokens[:2]] == [each[0].tokens[0].text, "bird …"]


@pytest.mark.parametrize("pooled", [False, True])
def test_flow_of_a_part_of_the_task_graph_enters_each_level_as_it_leaves_it(gpt, pooled):
    rows = [*PAIRS[:3], (*LONGER, "cat", "dog")] if pooled else PAIRS
    graph, begun = task_graph(gpt, make_task(gpt, rows), share=0.5), 0.0
    for level in range(2 * gpt.n_layers, 0, -1):
        edges = graph.edges[graph.edges.level == level]
        assert len(edges) and edges.flow.sum() + begun == pytest.approx(graph.held, abs=1e-4)
        begun += edges[edges.kind.isin(["MLP", "bias"])].flow.sum()


def test_task_graph_refuses_what_it_cannot_do(gpt, masked):
    task = make_task(gpt, PAIRS)
    with pytest.raises(ArgumentError, match="tiny-gpt2"):
        task_graph(masked, task)
    with pytest.raises(ArgumentError, match="share"):
        task_graph(gpt, task, share=0)
    with pytest.raises(ArgumentError, match="pin"):
        task_graph(gpt, task, pins=["L0"])
