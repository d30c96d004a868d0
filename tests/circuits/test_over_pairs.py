"""Means over a task's pairs, of attribution, graphs and paths: against single texts and scipy."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import mha_viz as mv
from mha_viz.circuits.attribution.prediction_graph import prediction_graph
from mha_viz.circuits.effects.over_pairs import task_graph, task_paths
from mha_viz.circuits.effects.path_effects import path_effects
from mha_viz.circuits.tasks.make_task import make_task
from mha_viz.errors import ArgumentError
from tests.circuits.test_path_effect import predicting

extended = partial(pytest.param, marks=pytest.mark.extended)
ROWS = [
    ("the cat sat on", "the dog sat on", "mat", "cat"),
    ("on the mat a dog ran", "on the mat a cat ran", "on", "dog"),
    ("a cat sat on", "a dog sat on", "the", "cat"),
    ("the dog ran on [MASK] mat", "the cat ran on [MASK] mat", "a", "dog"),
    ("the dog sat", "the cat sat", "on", "the"),
]


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama"])
def test_shares_are_means_of_single_texts(name):
    model = predicting(name, double=True)
    found = mv.task_attribution(model, mv.make_task(model, ROWS))
    singles = []
    for clean, _, answer, wrong in ROWS:
        text = clean.partition(" [MASK]")[0] if model.causal else clean
        if not model.causal and "[MASK]" not in clean:
            text = f"{clean} [MASK]"
        singles.append(mv.logit_attribution(model, text, answer, wrong))
    each = torch.stack([one.shares.double() for one in singles])
    np.testing.assert_allclose(found.by_pair, each, atol=1e-9)
    assert found.value == pytest.approx(np.mean([one.value for one in singles]), abs=1e-9)
    assert abs(found.remainder) < 1e-9 and found.components == singles[0].components
    heads = torch.stack([one.heads.double() for one in singles]).mean(0)
    np.testing.assert_allclose(found.heads, heads, atol=1e-6)
    table = found.table()
    reach = stats.t.ppf(0.975, len(ROWS) - 1) * stats.sem(each)
    np.testing.assert_allclose(table["share"] - table["low"], reach, atol=1e-9)
    np.testing.assert_allclose(table["high"] - table["share"], reach, atol=1e-9)


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
    assert found.path_sum + found.final_bias == pytest.approx(found.value, abs=1e-4)
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
        assert len(edges) and edges.flow.sum() + begun == pytest.approx(graph.path_sum, abs=1e-4)
        begun += edges[edges.kind.isin(["MLP", "bias"])].flow.sum()


def test_task_graph_refuses_what_it_cannot_do(gpt, masked):
    task = make_task(gpt, PAIRS)
    with pytest.raises(ArgumentError, match="tiny-gpt2"):
        task_graph(masked, task)
    with pytest.raises(ArgumentError, match="share"):
        task_graph(gpt, task, share=0)
    with pytest.raises(ArgumentError, match="pin"):
        task_graph(gpt, task, pins=["L0"])


LINES = """the cat sat on [MASK] | the cat ran on [MASK] | mat | cat
a cat ran on the [MASK] | a mat ran on the [MASK] | mat | the
the mat sat on a [MASK] | the mat ran on a [MASK] | cat | mat
the cat ran [MASK] | the mat ran [MASK] | on | sat
"""


def own_task(model):
    """Two pairs to choose on, of 5 and of 6 tokens before the answer, and two others."""
    task = make_task(model, LINES)
    assert not task.left_out and len({len(one.clean.tokens) for one in task.to_choose_on}) == 2
    return task


@pytest.mark.parametrize("way", ["direct", "total"])
@pytest.mark.parametrize("name", ["bert", extended("llama")])
def test_task_paths_are_means_over_single_pairs(name, way):
    model = predicting(name, double=True)
    task, lines = own_task(model), LINES.splitlines()[:2]
    found = task_paths(model, task, way=way, n_measured=0)
    found.measure()
    each = []
    for line in lines:
        texts = [one.strip() for one in line.split("|")]
        if model.causal:
            texts[:2] = [one.removesuffix(" [MASK]") for one in texts[:2]]
        one = path_effects(model, *texts[:2], way=way, target=texts[2], against=texts[3])
        assert one.clean != 0
        one.measure()
        each.append(one)
    rounding = 1e-5 if name == "llama" else 1e-7
    for field in ("exact", "estimate", "at_logits", "estimate_at_logits", "clean"):
        values = np.stack([np.asarray(getattr(one, field)) for one in each])
        ours = np.asarray(getattr(found, field))
        assert np.array_equal(np.isnan(ours), np.isnan(values[0]))
        assert np.nanmax(np.abs(ours - values.mean(0))) <= rounding
    for field in ("exact", "at_logits"):
        values = np.stack([getattr(one, field) for one in each])
        low, high = stats.t.interval(0.95, 1, values.mean(0), stats.sem(values))
        start = {"exact": "", "at_logits": "_at_logits"}[field]
        for end, expected in (("low", low), ("high", high)):
            ours = getattr(found, end + start)
            known = np.isfinite(expected) & np.isfinite(ours)
            assert known.sum() > 100 or field == "at_logits"
            assert np.abs(ours - expected)[known].max() <= 100 * rounding


def test_task_paths_refuses_what_it_cannot_do(gpt):
    task = make_task(gpt, "induction", 4)
    with pytest.raises(ArgumentError, match="metric"):
        task_paths(gpt, task, "logits")
    with pytest.raises(ArgumentError, match="way"):
        task_paths(gpt, task, way="around")
    with pytest.raises(ArgumentError, match="tiny-gpt2"):
        task_paths(predicting("gpt2"), task)
    done = []
    found = task_paths(gpt, task, "kl", on_progress=lambda *now: done.append(now))
    assert done[-1] == (2, 2) and np.isnan(found.estimate).all() and found.n_measured == 0
    assert found.at_logits.max() > 0
    assert {"low", "high"} <= set(found.table().columns)
