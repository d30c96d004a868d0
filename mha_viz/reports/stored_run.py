"""The precomputed run of a shipped model on the app's first sentence, stored as files.

To make it takes transformers, which takes seconds to import; to read it does not. It lies beside
the model's own files and names them by their hash, so that it is never used for other weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.core.output_file import write_file
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.errors import RecordError
from mha_viz.reports.induction_scores import InductionScores

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel

FOLDER = "first_run"  # in the model's
RECORD, BESIDE = "record.safetensors", "beside.safetensors"
WEIGHTS = "model.safetensors"
SOURCES = ("config.json", WEIGHTS, "tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True)
class ModelFacts:
    """The facts that a page shows of a model; names and meanings are AttentionModel's."""

    name: str
    family: str
    device: str
    parts: tuple[str, ...]
    accepts_pair: bool
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_model: int
    d_head: int
    n_ctx: int
    n_parameters: int
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: AttentionModel) -> ModelFacts:
        """Return the facts of a loaded model."""
        n_parameters = sum(p.numel() for p in model.network.parameters())
        counted = {"device": str(model.device), "n_parameters": n_parameters}
        same = {
            field.name: getattr(model, field.name)
            for field in fields(cls)
            if field.name not in counted
        }
        return cls(**same, **counted)


@dataclass(frozen=True, eq=False)
class StoredRun:
    """The result of one run, and what its report takes of models."""

    model: ModelFacts  # the model, in facts
    record: AttentionRecord  # everything that the run left behind, W_O too
    induction: InductionScores  # what the probe found in the model
    # what heads with random weights score; see `reports.report`
    random_scores: Mapping[str, Tensor]

    def is_of(self, part: str, text: str, pair: str | None) -> bool:
        """Return whether this text, in this part of the model, is the one that was run."""
        ours = self.record
        return (part, text, pair) == (ours.part, ours.text, ours.text_pair)


def write(folder: Path, run: StoredRun) -> None:
    """Store a run beside the files of its model."""
    induction = run.induction
    probe = {name: getattr(induction, name) for name in ("n_seeds", "period", "uniform", "offset")}
    about = {
        "sources": _hash(folder),
        "model": asdict(run.model),
        "induction": probe,
        "W_O": _names_of_W_O(folder, run.record.W_O),
    }
    tensors = {
        **{f"induction.{name}": getattr(induction, name) for name in ("mean", "low", "high")},
        **{f"random.{key}": scores for key, scores in run.random_scores.items()},
    }
    run.record.save(folder / FOLDER / RECORD)
    content = save({k: t.contiguous() for k, t in tensors.items()}, {"about": json.dumps(about)})
    write_file(folder / FOLDER / BESIDE, content)


def read(name: str) -> StoredRun | None:
    """Read the run that a shipped model brings along.

    None where it brings none, where its files are not those that were run, or where the run cannot
    be read: the model itself can always be run instead.
    """
    folder = shipped_folder() / name
    if name not in {path.name for path in shipped_folder().iterdir()}:  # nor is it a path
        return None
    try:
        with safe_open(folder / FOLDER / BESIDE, framework="pt") as file:
            about = json.loads(file.metadata()["about"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}
        if about["sources"] != _hash(folder):
            return None
        named: dict[str, dict[str, Any]] = {"induction": {}, "random": {}}
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            matrices = [file.get_tensor(key).T.float() for key in about["W_O"]]
        for key, tensor in tensors.items():
            prefix, _, name = key.partition(".")
            named[prefix][name] = tensor
        facts: dict[str, Any] = about["model"]
        lists = {"parts": tuple(facts["parts"]), "notes": tuple(facts["notes"])}  # as JSON has them
        record = AttentionRecord.load(folder / FOLDER / RECORD)
        heads = facts["n_heads"]
        return StoredRun(
            ModelFacts(**{**facts, **lists}),
            replace(record, W_O=tuple(m.reshape(heads, -1, m.shape[-1]) for m in matrices)),
            InductionScores(**named["induction"], **about["induction"]),
            named["random"],
        )
    except (SafetensorError, RecordError, OSError, KeyError, TypeError, ValueError):
        return None


def _names_of_W_O(folder: Path, W_O: Sequence[Tensor]) -> list[str]:
    """Name the tensor that holds each layer's W_O in the model's file, transposed.

    The names take 200 bytes; a copy of the weights would take half a megabyte of the wheel.
    """
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        stored = {key: file.get_tensor(key).float() for key in file.keys()}
    return [
        next(key for key, matrix in stored.items() if torch.equal(matrix, layer.flatten(0, 1).T))
        for layer in W_O
    ]


def _hash(folder: Path) -> str:
    """Hash the model's files, names and contents."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update(name.encode())
        digest.update(hashlib.sha256((folder / name).read_bytes()).digest())
    return digest.hexdigest()
