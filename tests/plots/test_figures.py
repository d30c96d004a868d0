"""The plotly figures hold exact numbers, neutral labels and little else."""

import base64
import json

import numpy as np

from mha_viz.plots.heatmap import head_heatmap
from mha_viz.web import theme

HOSTILE = [
    "<b>x</b>",
    "<script>alert(1)</script>",
    "$\\alpha$",
    "&lt;",
    "<a href='x'>y</a>",
    "a\x00b",
    "%{z}",
]


def softmax_rows(*shape: int) -> np.ndarray:
    weights = np.exp(np.random.default_rng(1).normal(0, 2, shape))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def test_heatmap_holds_the_weights_exactly() -> None:
    pattern = softmax_rows(5, 7)
    for scale in theme.SCALES:
        figure = head_heatmap(pattern, (list("abcde"), list("abcdefg")), scale=scale)
        data = json.loads(figure.to_json())["data"][0]["z"]
        sent = np.frombuffer(base64.b64decode(data["bdata"]), dtype=data["dtype"])
        assert (sent.reshape(5, 7) == pattern).all()


def test_heatmap_names_masked_cells_and_leaves_their_weight_open() -> None:
    seen = np.tri(4, dtype=bool)
    pattern = np.where(seen, np.eye(4), 0).astype(np.float32)  # visible zeros below the diagonal
    figure = head_heatmap(pattern, (list("abcd"), list("abcd")), visible=seen)
    weights, _, masked, swatch = figure.data
    assert (np.isnan(weights.z) == ~seen).all() and (weights.z[seen] == pattern[seen]).all()
    assert (np.isnan(masked.z) == seen).all()
    assert weights.hoverongaps is False and masked.hoverongaps is False
    grey = theme.missing()
    assert {colour for _, colour in masked.colorscale} == {grey} == {swatch.marker.color}
    assert figure.layout.showlegend and swatch.name == "masked"
    shown = [trace for trace in figure.data if trace.type == "scatter" and trace.showlegend]
    assert shown == [swatch]
    whole = head_heatmap(pattern, (list("abcd"), list("abcd")), visible=np.ones((4, 4), bool))
    assert len(whole.data) == 2 and not whole.layout.showlegend
