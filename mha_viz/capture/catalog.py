"""Which models there are: shipped, in the machine's Hugging Face cache, or in a folder.

Knows names, folders and config files. Imports neither torch nor transformers, so that a page can
list models before the heavy libraries are loaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mha_viz.capture.files import entries, is_file, size
from mha_viz.capture.hub import fetch, online
from mha_viz.capture.hub_cache import HUB_ID, cached_models, repository
from mha_viz.errors import (
    ArgumentError,
    BrokenCheckpointError,
    LoadError,
    ModelNotFoundError,
    UnsafeCheckpointError,
)

MAX_CONFIG_BYTES = 2**20
MAX_NAME = 4096  # the longest path of Linux
# No transformer in existence comes near these; a config that does is broken or hostile.
_LIMITS = {
    "heads": (("num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads",
               "decoder_attention_heads", "num_key_value_heads"), 1024),
    "layers": (("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers",
                "decoder_layers", "num_decoder_layers"), 512),
    "width": (("hidden_size", "n_embd", "d_model", "dim", "intermediate_size", "n_inner", "d_ff",
               "embedding_size", "head_dim", "d_kv"), 262_144),
    "vocabulary": (("vocab_size",), 4_000_000),
    "positions": (("max_position_embeddings", "n_positions", "n_ctx"), 20_000_000),
    "labels": (("num_labels", "_num_labels"), 1_000_000),
}  # fmt: skip

Source = Literal["shipped", "cached", "folder"]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model that can be loaded without network.

    Args:
        name: what `load` takes.
        source: where it comes from.
        path: the folder with its files.
        family: transformers' model_type ("bert", "gpt2" ...), "" where the config cannot be read.
        n_layers, n_heads: from the config; 0 where it does not say.
        n_bytes: size of its weights.
    """

    name: str
    source: Source
    path: Path
    family: str
    n_layers: int
    n_heads: int
    n_bytes: int


def shipped_folder() -> Path:
    """Where the shipped checkpoints lie: inside the package, or beside it in a source tree."""
    inside = Path(__file__).parents[1] / "shipped_models"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "models"


def list_models() -> list[ModelInfo]:
    """Shipped models first, then those in the Hugging Face cache that are whole."""
    shipped = [_info(name, "shipped", shipped_folder() / name) for name in _shipped_names()]
    cached = sorted(cached_models().items())
    return shipped + [_info(name, "cached", folder) for name, folder in cached]


def find_model(name: str, *, download: bool = True) -> ModelInfo:
    """The model of that name: shipped, a local folder, cached, or else fetched from the Hub.

    Args:
        name: "tiny-bert", a path to a folder with config.json, or a Hub id ("owner/name").
        download: whether the network may be asked.

    Raises:
        ArgumentError: the name is empty or is neither a folder nor a possible Hub id.
        ModelNotFoundError: it is nowhere, or the network cannot be reached (within a second) or
            fails.
        UnsafeCheckpointError: the Hub has it without safetensors weights, or far too large.
    """
    name = name.strip()
    if not name or "\0" in name or len(name) > MAX_NAME:
        raise ArgumentError("A model name must be a shipped name, a folder or a Hub id.")
    if name in _shipped_names():
        return _info(name, "shipped", shipped_folder() / name)
    folder = _typed_folder(name)
    if folder is not None:
        return _info(name, "folder", folder)
    if not HUB_ID.fullmatch(name) or ".." in name:
        raise ModelNotFoundError(
            f"There is no folder {_shown(name)}, and a Hub id looks like 'owner/name'. "
            f"Shipped models: {', '.join(_shipped_names())}."
        )
    cached = cached_models().get(name)
    if cached is None:
        if not download or not online():
            raise ModelNotFoundError(_nowhere(name))
        cached = fetch(name)
    return _info(name, "cached", cached)


def _typed_folder(name: str) -> Path | None:
    """The folder of that path, if there is one."""
    try:
        path = Path(name).expanduser()
        return path if path.is_dir() else None
    except PermissionError as error:
        raise ModelNotFoundError(
            f"The folder {_shown(name)} may not be read by the user that this program runs as: "
            "change its permissions, or give another one."
        ) from error
    # No folder, for the system, are also names too long for it and homes of unknown users.
    except (OSError, RuntimeError, ValueError):
        return None


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:79] + "…")


def _nowhere(name: str) -> str:
    there = "not in this machine's Hugging Face cache"
    if entries(repository(name)):
        there = "only in part in this machine's Hugging Face cache"
    return (
        f"{name!r} cannot be loaded without network. It is not among the shipped models "
        f"({', '.join(_shipped_names())}), not a folder here, and {there}. Download it on a "
        f"machine with network (`hf download {name}`), or give the path of a folder with its files."
    )


def read_config(folder: Path) -> dict[str, Any]:
    """config.json, checked to be an object with sane sizes.

    Raises:
        BrokenCheckpointError: missing, not JSON, or without a model type.
        UnsafeCheckpointError: sizes that no real model has.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise BrokenCheckpointError(
            f"{folder.name} has no config.json: expected a folder as save_pretrained writes it "
            "(config.json, model.safetensors and the tokenizer's files)."
        )
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise UnsafeCheckpointError(f"config.json of {folder.name} is larger than 1 MB.")
        config = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BrokenCheckpointError(f"config.json of {folder.name} is not JSON: {error}") from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise BrokenCheckpointError(
            f"config.json of {folder.name} names no model_type, so no family can be chosen."
        )
    for part in _objects(config):
        for what, (keys, most) in _LIMITS.items():
            for key in keys:
                value = part.get(key)
                if value is None or isinstance(value, list):
                    continue
                if not isinstance(value, int) or not 0 <= value <= most:
                    raise UnsafeCheckpointError(
                        f"config.json of {folder.name} claims {key} = {value!r}; a real model has "
                        f"at most {most:,} ({what})."
                    )
    return config


def _objects(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The config and those inside it (of a text or vision part)."""
    rest: list[Any] = [config]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            yield value
            rest += value.values()


def _first(config: dict[str, Any], keys: tuple[str, ...]) -> int:
    return next((config[key] for key in keys if isinstance(config.get(key), int)), 0)


def _info(name: str, source: Source, folder: Path) -> ModelInfo:
    try:
        config = read_config(folder)
    except (LoadError, OSError):
        config = {}  # listed all the same: loading it then says what is wrong with it
    return ModelInfo(
        name, source, folder, str(config.get("model_type", "")),
        _first(config, _LIMITS["layers"][0]), _first(config, _LIMITS["heads"][0]),
        sum(size(file) for file in entries(folder) if file.suffix == ".safetensors"),
    )  # fmt: skip


def _shipped_names() -> list[str]:
    return [folder.name for folder in entries(shipped_folder()) if is_file(folder / "config.json")]
