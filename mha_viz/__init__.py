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
from mha_viz.core import display
from mha_viz.errors import MhaVizError

if TYPE_CHECKING:
    from mha_viz.checkpoints.catalog import ModelInfo, list_models
    from mha_viz.checkpoints.loading import load
    from mha_viz.checkpoints.wrapping import wrap
    from mha_viz.circuits.composition import composition
    from mha_viz.circuits.faithfulness import faithfulness, find_heads
    from mha_viz.circuits.flow import FlowGraph, flow_graph
    from mha_viz.circuits.logit_attribution import logit_attribution
    from mha_viz.circuits.ov_circuit import copying_scores, favoured_pairs
    from mha_viz.circuits.path_effect import path_effect
    from mha_viz.circuits.path_effects import path_effects
    from mha_viz.circuits.score_attribution import score_attribution
    from mha_viz.circuits.tasks import make_task
    from mha_viz.circuits.tested_heads import Faithfulness
    from mha_viz.circuits.vocabulary import head_tokens, logit_lens
    from mha_viz.core.attention import attention
    from mha_viz.core.from_weights import record
    from mha_viz.core.measure import head_similarity
    from mha_viz.core.metrics import METRICS
    from mha_viz.core.metrics.registering import register_metric
    from mha_viz.core.multi_head import AttentionOutput, MultiHeadAttention
    from mha_viz.core.record import AttentionRecord, Token
    from mha_viz.corpus.run import study
    from mha_viz.corpus.study import Study
    from mha_viz.engine.intervention import Intervention
    from mha_viz.engine.model import AttentionModel
    from mha_viz.interventions.ablation import ablate
    from mha_viz.interventions.importance import head_importance
    from mha_viz.notebook import show_head
    from mha_viz.prediction.generation import generate
    from mha_viz.prediction.prediction import predict
    from mha_viz.prediction.writing import Writing
    from mha_viz.reports.parameters import diversity, parameter_similarity
    from mha_viz.reports.report import head_report

__version__ = "0.1.0"

# Each name is imported when it is first asked for (PEP 562): torch and transformers take seconds,
# and the page that takes a sentence has to be there before them.
_HOME = {
    "attention": "mha_viz.core.attention",
    "AttentionOutput": "mha_viz.core.multi_head",
    "MultiHeadAttention": "mha_viz.core.multi_head",
    "record": "mha_viz.core.from_weights",
    "METRICS": "mha_viz.core.metrics",
    "register_metric": "mha_viz.core.metrics.registering",
    "AttentionRecord": "mha_viz.core.record",
    "Token": "mha_viz.core.record",
    "AttentionModel": "mha_viz.engine.model",
    "ModelInfo": "mha_viz.checkpoints.catalog",
    "list_models": "mha_viz.checkpoints.catalog",
    "load": "mha_viz.checkpoints.loading",
    "wrap": "mha_viz.checkpoints.wrapping",
    "show_head": "mha_viz.notebook",
    "head_report": "mha_viz.reports.report",
    "head_similarity": "mha_viz.core.measure",
    "parameter_similarity": "mha_viz.reports.parameters",
    "diversity": "mha_viz.reports.parameters",
    "Intervention": "mha_viz.engine.intervention",
    "predict": "mha_viz.prediction.prediction",
    "generate": "mha_viz.prediction.generation",
    "Writing": "mha_viz.prediction.writing",
    "ablate": "mha_viz.interventions.ablation",
    "head_importance": "mha_viz.interventions.importance",
    "study": "mha_viz.corpus.run",
    "Study": "mha_viz.corpus.study",
    "FlowGraph": "mha_viz.circuits.flow",
    "flow_graph": "mha_viz.circuits.flow",
    "logit_attribution": "mha_viz.circuits.logit_attribution",
    "score_attribution": "mha_viz.circuits.score_attribution",
    "head_tokens": "mha_viz.circuits.vocabulary",
    "logit_lens": "mha_viz.circuits.vocabulary",
    "composition": "mha_viz.circuits.composition",
    "path_effect": "mha_viz.circuits.path_effect",
    "path_effects": "mha_viz.circuits.path_effects",
    "make_task": "mha_viz.circuits.tasks",
    "Faithfulness": "mha_viz.circuits.tested_heads",
    "faithfulness": "mha_viz.circuits.faithfulness",
    "find_heads": "mha_viz.circuits.faithfulness",
    "copying_scores": "mha_viz.circuits.ov_circuit",
    "favoured_pairs": "mha_viz.circuits.ov_circuit",
}

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
