"""Metrics: one function per quantity, and one table that names them all."""

from mha_viz.core.metrics.baselines import Baseline, baselines
from mha_viz.core.metrics.flow import attention_flow, attention_rollout, value_weighted
from mha_viz.core.metrics.labels import LABELS, EarnedLabel, Label, head_labels, too_short
from mha_viz.core.metrics.metric import Metric
from mha_viz.core.metrics.position import induction
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
    "head_labels",
    "head_table",
    "induction",
    "too_short",
    "value_weighted",
]
