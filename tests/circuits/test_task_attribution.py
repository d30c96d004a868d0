"""Logit attribution over a task: means of single texts, intervals, and conservation."""

import numpy as np
import pytest
import torch
from scipy import stats

import mha_viz as mv
from tests.circuits.test_path_effect import predicting

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
