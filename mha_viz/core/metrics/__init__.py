"""Metrics: one function per quantity, and one table that names them all."""

from mha_viz.core.metrics.baselines import Baseline as Baseline
from mha_viz.core.metrics.baselines import baselines as baselines
from mha_viz.core.metrics.checks import TokenFacts as TokenFacts
from mha_viz.core.metrics.flow import attention_flow as attention_flow
from mha_viz.core.metrics.flow import attention_rollout as attention_rollout
from mha_viz.core.metrics.flow import value_weighted as value_weighted
from mha_viz.core.metrics.labels import LABELS as LABELS
from mha_viz.core.metrics.labels import EarnedLabel as EarnedLabel
from mha_viz.core.metrics.labels import Label as Label
from mha_viz.core.metrics.labels import head_labels as head_labels
from mha_viz.core.metrics.labels import too_short as too_short
from mha_viz.core.metrics.metric import Metric as Metric
from mha_viz.core.metrics.position import induction as induction
from mha_viz.core.metrics.table import METRICS as METRICS
from mha_viz.core.metrics.table import RENAMED as RENAMED
from mha_viz.core.metrics.table import head_table as head_table
