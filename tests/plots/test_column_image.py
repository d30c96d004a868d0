"""Figures for a paper: as wide as a column, vectors, with embedded type and nothing lost."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import plotly.graph_objects as go
import pytest

from mha_viz.core.compare.twins import head_order
from mha_viz.plots.bars import histogram_bars, token_bars
from mha_viz.plots.column_image import column_image
from mha_viz.plots.difference import difference_heatmap, head_changes
from mha_viz.plots.head_values import head_quantiles, importance_map
from mha_viz.plots.similarity_matrix import HeadPairs, similarity_matrix

DICE = np.random.default_rng(7)
HOSTILE = ["$\\frac{", "<script>", "a&b", "السلام", "東京"]
SVG = "{http://www.w3.org/2000/svg}"


def pairs(n_heads: int, layers: int) -> go.Figure:
    table = DICE.random((n_heads * layers,) * 2)
    table = table + table.T
    np.fill_diagonal(table, 0)
    names = [f"L{i // n_heads} H{i % n_heads}" for i in range(len(table))]
    return similarity_matrix(HeadPairs(table, names, head_order(table), n_heads), title="Distance")


FIGURES = {
    "map": importance_map(DICE.random((3, 7)), "Entropy", "nats", selected=(1, 3)),
    "signed": head_changes(DICE.normal(size=(13, 11)), "Entropy", "nats", diverging=True),
    "quantiles": head_quantiles(np.sort(DICE.random((5, 3, 7)), 0), "Entropy", "nats"),
    "bars": token_bars({"L0 H1": DICE.random(5)}, HOSTILE, "weight"),
    "histogram": histogram_bars(np.arange(12.0), DICE.integers(1, 9, 11), "Entropy", "nats"),
    "speech": difference_heatmap(
        (DICE.random((5, 5)), DICE.random((5, 5))), (HOSTILE, HOSTILE), title="<b>$x$"
    ),
    "pairs": pairs(11, 11),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_kind_of_figure_is_a_picture_without_a_script(name: str):
    root = ET.fromstring(column_image(FIGURES[name], file_format="svg", column="double"))
    assert float(root.attrib["width"].removesuffix("pt")) == pytest.approx(72 * 6.75)
    assert len(list(root.iter(f"{SVG}path"))) > 5 and not root.findall(f".//{SVG}script")


def test_pdf_has_its_width_and_embeds_truetype_and_says_what_it_is():
    data = column_image(FIGURES["map"], title="Entropy (all)", caption="tiny-bert\n196 texts")
    box = re.search(rb"/MediaBox \[([^\]]*)\]", data)
    assert box and [float(n) for n in box[1].split()][2] == pytest.approx(72 * 3.25)
    assert b"/FontFile2" in data and b"/Type3" not in data  # TrueType, no shapes of letters
    assert b"/Title (Entropy \\(all\\))" in data and b"/Subject (tiny-bert 196 texts)" in data
