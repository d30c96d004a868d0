"""Paths over a task's pairs: against single pairs, and intervals of scipy."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

from mha_viz.circuits.effects.over_pairs import task_paths
from mha_viz.circuits.effects.path_effects import path_effects
from mha_viz.circuits.tasks.make_task import make_task
from mha_viz.errors import ArgumentError
from tests.circuits.test_path_effect import predicting

extended = partial(pytest.param, marks=pytest.mark.extended)
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
