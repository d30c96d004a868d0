"""mha_viz: a microscope for attention heads.

>>> import mha_viz as mv
>>> record = mv.load("tiny-bert").trace("The cat sat on the mat")
>>> record.pattern.shape[:2]  # layers, heads
torch.Size([4, 8])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mha_viz import errors
from mha_viz.core.record import display
from mha_viz.errors import MhaVizError

if TYPE_CHECKING:
    from mha_viz.checkpoints.catalog import ModelInfo, list_models
    from mha_viz.checkpoints.loading import load, wrap
    from mha_viz.circuits.decompose.logit_attribution import logit_attribution
    from mha_viz.circuits.decompose.score_attribution import score_attribution
    from mha_viz.circuits.decompose.vocabulary import head_tokens, logit_lens
    from mha_viz.circuits.flow.graph import FlowGraph, flow_graph
    from mha_viz.circuits.patching.path_effect import path_effect
    from mha_viz.circuits.patching.path_effects import path_effects
    from mha_viz.circuits.tasks.faithfulness import faithfulness, find_heads
    from mha_viz.circuits.tasks.tasks import make_task
    from mha_viz.circuits.tasks.tested_heads import Faithfulness
    from mha_viz.circuits.weights.composition import composition
    from mha_viz.circuits.weights.ov_circuit import copying_scores, favoured_pairs
    from mha_viz.core.attention.attention import attention
    from mha_viz.core.attention.multi_head import AttentionOutput, MultiHeadAttention
    from mha_viz.core.compare.matching import match_heads
    from mha_viz.core.measure import head_similarity
    from mha_viz.core.metrics import METRICS
    from mha_viz.core.metrics.registering import register_metric
    from mha_viz.core.record.from_weights import record
    from mha_viz.core.record.record import AttentionRecord, Token
    from mha_viz.corpus.query.study import Study
    from mha_viz.corpus.run.run import study
    from mha_viz.engine.intervention import Intervention
    from mha_viz.engine.model import AttentionModel
    from mha_viz.interventions.ablation import ablate
    from mha_viz.interventions.importance import head_importance
    from mha_viz.notebook import show_head
    from mha_viz.prediction.generation import generate
    from mha_viz.prediction.prediction import predict
    from mha_viz.prediction.writing import Writing
    from mha_viz.reports.description import describe, describe_heads
    from mha_viz.reports.difference import describe_difference
    from mha_viz.reports.parameters import diversity, parameter_similarity
    from mha_viz.reports.report import head_report

__version__ = "0.1.0"

# Each name is imported when it is first asked for (PEP 562): torch and transformers take seconds,
# and the page that takes a sentence has to be there before them.
_NAMES = {
    "core.attention.attention": "attention",
    "core.attention.multi_head": "AttentionOutput MultiHeadAttention",
    "core.record.from_weights": "record",
    "core.metrics": "METRICS",
    "core.metrics.registering": "register_metric",
    "core.record.record": "AttentionRecord Token",
    "engine.model": "AttentionModel",
    "checkpoints.catalog": "ModelInfo list_models",
    "checkpoints.loading": "load wrap",
    "notebook": "show_head",
    "reports.report": "head_report",
    "reports.description": "describe describe_heads",
    "reports.difference": "describe_difference",
    "core.measure": "head_similarity",
    "core.compare.matching": "match_heads",
    "reports.parameters": "parameter_similarity diversity",
    "engine.intervention": "Intervention",
    "prediction.prediction": "predict",
    "prediction.generation": "generate",
    "prediction.writing": "Writing",
    "interventions.ablation": "ablate",
    "interventions.importance": "head_importance",
    "corpus.run.run": "study",
    "corpus.query.study": "Study",
    "circuits.flow.graph": "FlowGraph flow_graph",
    "circuits.decompose.logit_attribution": "logit_attribution",
    "circuits.decompose.score_attribution": "score_attribution",
    "circuits.decompose.vocabulary": "head_tokens logit_lens",
    "circuits.weights.composition": "composition",
    "circuits.patching.path_effect": "path_effect",
    "circuits.patching.path_effects": "path_effects",
    "circuits.tasks.tasks": "make_task",
    "circuits.tasks.tested_heads": "Faithfulness",
    "circuits.tasks.faithfulness": "faithfulness find_heads",
    "circuits.weights.ov_circuit": "copying_scores favoured_pairs",
}
_HOME = {name: f"mha_viz.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "METRICS",
    "AttentionModel",
    "AttentionOutput",
    "AttentionRecord",
    "Faithfulness",
    "FlowGraph",
    "Intervention",
    "MhaVizError",
    "ModelInfo",
    "MultiHeadAttention",
    "Study",
    "Token",
    "Writing",
    "__version__",
    "ablate",
    "attention",
    "composition",
    "copying_scores",
    "describe",
    "describe_difference",
    "describe_heads",
    "diversity",
    "errors",
    "faithfulness",
    "favoured_pairs",
    "find_heads",
    "flow_graph",
    "generate",
    "head_importance",
    "head_report",
    "head_similarity",
    "head_tokens",
    "list_models",
    "load",
    "logit_attribution",
    "logit_lens",
    "make_task",
    "match_heads",
    "parameter_similarity",
    "path_effect",
    "path_effects",
    "predict",
    "record",
    "register_metric",
    "score_attribution",
    "show_head",
    "study",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mha_viz' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def _record_bundle(record: Any) -> dict[str, str]:
    from mha_viz.notebook import record_bundle

    return record_bundle(record)


def _head_figure(record: Any, layer: int, head: int) -> Any:
    from mha_viz.notebook import show_head

    return show_head(record, layer, head)


def _explorer(record: Any) -> Any:
    from mha_viz.explorer import Explorer

    return Explorer(record)


display.record_bundle = _record_bundle
display.explorer = _explorer
display.head_plotter = _head_figure


def __dir__() -> list[str]:
    return sorted(__all__)
