"""Which model a study is of: by what its weights and its tokenizer hold, not by its name."""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.metadata import version
from typing import Any

import torch

from mha_viz.engine.model import AttentionModel

_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "pyarrow", "duckdb")


def model_identity(model: AttentionModel) -> dict[str, Any]:
    """Its name, sizes, and a hash of its weights and of its tokens.

    Args:
        model: as it will run.
    """
    tokens = json.dumps(sorted(model.tokenizer.get_vocab().items()))
    return {
        "name": model.name,
        "family": model.family,
        "backend": model.backend,
        "n_layers": model.n_layers,
        "n_heads": model.n_heads,
        "d_model": model.d_model,
        "d_head": model.d_head,
        "n_ctx": model.n_ctx,
        "dtype": str(model.dtype).removeprefix("torch."),
        "weights_sha256": weights_hash(model.network),
        "tokens_sha256": hashlib.sha256(tokens.encode()).hexdigest(),
    }


def weights_hash(network: torch.nn.Module) -> str:
    """SHA-256 over the name, kind, shape and bytes of every parameter and buffer, by name."""
    found = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        found.update(flat.view(torch.uint8).numpy())
    return found.hexdigest()


def versions() -> dict[str, str]:
    """Of this package and of the libraries that a study's numbers pass through."""
    ours = sys.modules[
        "mha_viz"
    ].__version__  # its modules know the package, and import nothing of it
    return {"mha_viz": ours, **{name: version(name) for name in _LIBRARIES}}
