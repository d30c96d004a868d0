"""The public API: each name, and the module that it is imported from."""

from mha_viz import errors as errors
from mha_viz.checkpoints.catalog import ModelInfo as ModelInfo
from mha_viz.checkpoints.catalog import list_models as list_models
from mha_viz.checkpoints.loading import load as load
from mha_viz.checkpoints.wrapping import wrap as wrap
from mha_viz.circuits.attribution.flow_graph import FlowGraph as FlowGraph
from mha_viz.circuits.attribution.flow_graph import flow_graph as flow_graph
from mha_viz.circuits.attribution.head_spaces import head_spaces as head_spaces
from mha_viz.circuits.attribution.head_spaces import spaces_of_heads as spaces_of_heads
from mha_viz.circuits.attribution.logit_attribution import logit_attribution as logit_attribution
from mha_viz.circuits.attribution.prediction_graph import prediction_graph as prediction_graph
from mha_viz.circuits.attribution.query_key_map import query_key_map as query_key_map
from mha_viz.circuits.attribution.score_attribution import score_attribution as score_attribution
from mha_viz.circuits.attribution.signed_graph import PredictionGraph as PredictionGraph
from mha_viz.circuits.attribution.vocabulary import (
    head_tokens as head_tokens,
)
from mha_viz.circuits.attribution.vocabulary import (
    logit_lens as logit_lens,
)
from mha_viz.circuits.composition.head_pairs import composition as composition
from mha_viz.circuits.composition.head_vocabulary import head_vocabulary as head_vocabulary
from mha_viz.circuits.composition.ov_circuit import (
    copying_scores as copying_scores,
)
from mha_viz.circuits.composition.ov_circuit import (
    favoured_pairs as favoured_pairs,
)
from mha_viz.circuits.composition.token_circuits import token_matrices as token_matrices
from mha_viz.circuits.effects.edge_circuit import edge_circuit as edge_circuit
from mha_viz.circuits.effects.edge_circuit import edge_faithfulness as edge_faithfulness
from mha_viz.circuits.effects.edge_effects import edge_effects as edge_effects
from mha_viz.circuits.effects.faithfulness import faithfulness as faithfulness
from mha_viz.circuits.effects.faithfulness import find_heads as find_heads
from mha_viz.circuits.effects.over_pairs import task_attribution as task_attribution
from mha_viz.circuits.effects.over_pairs import task_graph as task_graph
from mha_viz.circuits.effects.over_pairs import task_paths as task_paths
from mha_viz.circuits.effects.patching_map import PatchingMap as PatchingMap
from mha_viz.circuits.effects.patching_map import patching_map as patching_map
from mha_viz.circuits.effects.path_effect import path_effect as path_effect
from mha_viz.circuits.effects.path_effects import path_effects as path_effects
from mha_viz.circuits.effects.tested_heads import Faithfulness as Faithfulness
from mha_viz.circuits.tasks.accuracy import task_accuracy as task_accuracy
from mha_viz.circuits.tasks.make_task import make_task as make_task
from mha_viz.core.attention.dot_product import attention as attention
from mha_viz.core.attention.multi_head import (
    AttentionOutput as AttentionOutput,
)
from mha_viz.core.attention.multi_head import (
    MultiHeadAttention as MultiHeadAttention,
)
from mha_viz.core.compare.matching import match_heads as match_heads
from mha_viz.core.compare.query_key_map import QueryKeyMap as QueryKeyMap
from mha_viz.core.compare.token_spaces import HeadSpaces as HeadSpaces
from mha_viz.core.measure import head_similarity as head_similarity
from mha_viz.core.metrics import METRICS as METRICS
from mha_viz.core.metrics.table import register_metric as register_metric
from mha_viz.core.record.attention_record import AttentionRecord as AttentionRecord
from mha_viz.core.record.attention_record import Token as Token
from mha_viz.corpus.query.study import Study as Study
from mha_viz.corpus.run.head_probe import HeadProbe as HeadProbe
from mha_viz.corpus.run.head_probe import probe_heads as probe_heads
from mha_viz.corpus.run.study_builder import study as study
from mha_viz.corpus.run.study_set import StudySet as StudySet
from mha_viz.corpus.run.study_set import studies as studies
from mha_viz.engine.capture import capture as capture
from mha_viz.engine.intervention import Intervention as Intervention
from mha_viz.engine.model import AttentionModel as AttentionModel
from mha_viz.errors import MhaVizError as MhaVizError
from mha_viz.interventions.ablation import ablate as ablate
from mha_viz.interventions.importance import head_importance as head_importance
from mha_viz.notebook import show_head as show_head
from mha_viz.paper.circuit_report import circuit_report as circuit_report
from mha_viz.prediction.generation import generate as generate
from mha_viz.prediction.predict import predict as predict
from mha_viz.prediction.writing import Writing as Writing
from mha_viz.reports.description import describe as describe
from mha_viz.reports.description import describe_heads as describe_heads
from mha_viz.reports.difference import describe_difference as describe_difference
from mha_viz.reports.parameters import (
    diversity as diversity,
)
from mha_viz.reports.parameters import (
    parameter_similarity as parameter_similarity,
)
from mha_viz.reports.report import head_report as head_report
from mha_viz.text.from_weights import record as record

__version__: str
