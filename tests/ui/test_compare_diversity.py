"""The Compare page's section about diversity: each layer, chance, and statements of textbooks."""

import base64

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.core.metrics.layers import capacity, coverage, pattern_coverage, variance_statement
from mha_viz.core.metrics.outputs import effective_rank
from mha_viz.core.names import MATRICES
from mha_viz.ui.compare import diversity
from tests.making.comparing import close, near
from tests.ui.compare_app import (
    TEXT,
    compare,
    figures,
    said,
    table,
)


def test_diversity_shows_each_layer(model, record):
    app = compare(
        "diversity",
        "capacity",
        "coverage",
        "head_ranks",
        model=model.name,
        text=TEXT,
        section="diversity",
    )
    shown = table(app, "Layer", "W_Q", "W_O", "independent random matrices")
    for matrix in ("W_Q", "W_K", "W_V", "W_O"):
        expected = [mv.diversity(model, layer, matrix) for layer in range(4)]
        close(shown[matrix], expected)
    total = capacity(record.pattern).total.numpy()
    close(table(app, "all heads, each for itself (Σ C)").iloc[:, 1], total)
    together = coverage(record.z, record.W_O).together.numpy()
    np.testing.assert_allclose(table(app, "heads together")["heads together"], together, rtol=1e-4)
    spans = pattern_coverage(record.pattern).together.numpy()
    shown = table(app, "patterns together")["patterns together"]
    np.testing.assert_allclose(shown, spans, rtol=1e-4)
    ranks = effective_rank(record.z, record.W_O).numpy()
    listed = table(app, "Effective rank of each head")["Effective rank of each head"]
    np.testing.assert_allclose(listed, ranks.ravel(), rtol=1e-4)
    statements = table(app, "Statement", "Left", "Right", "Here")
    found = variance_statement(record.z, record.W_O)
    assert len(statements) == 8
    for layer, row in statements[:4].iterrows():
        assert float(row["Left"]) == pytest.approx(float(found.of_sum[layer]), rel=2e-3)
        assert float(row["Right"]) == pytest.approx(float(found.sum_of[layer]), rel=2e-3)
        assert (row["Here"] == "holds") == (found.of_sum[layer] <= found.sum_of[layer])


def test_chance_is_what_random_matrices_give():
    app = compare("diversity", text=TEXT, section="diversity")
    level = table(app, "independent random matrices")["independent random matrices"][0]
    heads = np.random.default_rng(0).standard_normal((40, 256 * 32))
    heads /= np.linalg.norm(heads, axis=1, keepdims=True)
    cosines = np.abs(heads @ heads.T)[np.triu_indices(40, 1)]
    assert level == pytest.approx(1 - cosines.mean(), abs=5e-4)
    layout, lines = figures(app)[0]["layout"], figures(app)[0]["data"]
    band = layout["shapes"][0]
    assert band["y0"] == near(-band["y1"]) and 0 < band["y1"] < 0.004
    shown = table(app, "Layer", "W_Q", "W_O")
    drawn = np.frombuffer(base64.b64decode(lines[0]["y"]["bdata"]), lines[0]["y"]["dtype"])
    close(drawn, shown["W_Q"] - level)
    inside = sum(int((shown[matrix] - level >= band["y0"]).sum()) for matrix in MATRICES)
    assert f"same shape: {inside} of 16" in said(app)


def test_statements_are_decided_beyond_rounding():
    assert diversity._at_most(1.0000001, 1.0) and not diversity._at_most(1.001, 1.0)
    assert diversity._row("x", 0, 1.0, 2.0, True)[1] == "holds"
    assert diversity._row("x", 0, float("nan"), 2.0, False)[3] == "not defined"
