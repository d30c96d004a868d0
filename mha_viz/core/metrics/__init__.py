"""One function per quantity, and one table that names them all: a number for each head."""

from mha_viz.core.metrics.baselines import Baseline, baselines, offset_pattern, uniform_pattern
from mha_viz.core.metrics.content import duplicate_token, separator_token, special_token
from mha_viz.core.metrics.flow import attention_flow, attention_rollout, value_weighted
from mha_viz.core.metrics.focus import confidence, keys_for_mass
from mha_viz.core.metrics.labels import LABELS, EarnedLabel, Label, head_labels
from mha_viz.core.metrics.layers import (
    capacity,
    coverage,
    norm_statement,
    variance_statement,
)
from mha_viz.core.metrics.metric import Metric
from mha_viz.core.metrics.outputs import (
    effective_rank,
    norm_of_mean_output,
    output_norm,
    output_share,
    variance,
)
from mha_viz.core.metrics.pairs import cka, correlation, hellinger, jensen_shannon, redundancy
from mha_viz.core.metrics.parameters import (
    cosine,
    diversity,
    principal_angles,
    product_cosine,
    product_overlap,
    subspace_overlap,
)
from mha_viz.core.metrics.position import (
    distance,
    first_token,
    induction,
    next_token,
    previous_token,
    self_token,
)
from mha_viz.core.metrics.spread import entropy, mutual_information, normalized_entropy, row_entropy
from mha_viz.core.metrics.table import METRICS, RENAMED, head_table

__all__ = [
    "LABELS",
    "METRICS",
    "RENAMED",
    "Baseline",
    "EarnedLabel",
    "Label",
    "Metric",
    "attention_flow",
    "attention_rollout",
    "baselines",
    "capacity",
    "cka",
    "confidence",
    "correlation",
    "cosine",
    "coverage",
    "distance",
    "diversity",
    "duplicate_token",
    "effective_rank",
    "entropy",
    "first_token",
    "head_labels",
    "head_table",
    "hellinger",
    "induction",
    "jensen_shannon",
    "keys_for_mass",
    "mutual_information",
    "next_token",
    "norm_of_mean_output",
    "norm_statement",
    "normalized_entropy",
    "offset_pattern",
    "output_norm",
    "output_share",
    "previous_token",
    "principal_angles",
    "product_cosine",
    "product_overlap",
    "redundancy",
    "row_entropy",
    "self_token",
    "separator_token",
    "special_token",
    "subspace_overlap",
    "uniform_pattern",
    "value_weighted",
    "variance",
    "variance_statement",
]
