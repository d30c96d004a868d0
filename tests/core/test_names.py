"""The lists of names by which callers choose."""

import subprocess
import sys

from mha_viz.core.metrics import METRICS
from mha_viz.core.names import LIKENESS, MATRICES, PAIR_MEASURES, PRODUCTS


def test_measures_between_heads_are_metrics():
    assert PAIR_MEASURES.keys() <= METRICS.keys() and set(LIKENESS) <= PAIR_MEASURES.keys()
    assert {matrix for product in PRODUCTS.values() for matrix in product} <= set(MATRICES)


def test_they_are_there_before_torch():
    code = "import sys, mha_viz.core.names; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
