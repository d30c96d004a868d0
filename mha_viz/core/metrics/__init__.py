"""One function per quantity, and one table that names them all: a number for each head.

Knows patterns as tensors (layer, head, query, key); must not know models, records or screens.
"""

from mha_viz.core.metrics.content import duplicate_token, special_token
from mha_viz.core.metrics.focus import confidence, sparsity
from mha_viz.core.metrics.metric import Metric
from mha_viz.core.metrics.position import (
    distance,
    first_token,
    induction,
    next_token,
    previous_token,
    self_token,
)
from mha_viz.core.metrics.spread import entropy, information, normalized_entropy, row_entropy
from mha_viz.core.metrics.table import METRICS, head_table

__all__ = [
    "METRICS",
    "Metric",
    "confidence",
    "distance",
    "duplicate_token",
    "entropy",
    "first_token",
    "head_table",
    "induction",
    "information",
    "next_token",
    "normalized_entropy",
    "previous_token",
    "row_entropy",
    "self_token",
    "sparsity",
    "special_token",
]
