"""Which models there are: shipped, in the machine's Hugging Face cache, or in a folder.

Knows names, folders and config files. Imports neither torch nor transformers, so that a page can
list models before the heavy libraries are loaded.
"""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from mha_viz.capture.config_file import LIMITS as _LIMITS
from mha_viz.capture.config_file import read_config
from mha_viz.errors import (
    ArgumentError,
    LoadError,
    ModelNotFoundError,
    UnsafeCheckpointError,
)

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
NETWORK_TIMEOUT = 0.7  # seconds; without network an id has to fail within one
MAX_DOWNLOAD_BYTES = 8 * 2**30
MAX_NAME = 4096  # the longest path of Linux
_FILES = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")  # no pickle, no code

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
    """Shipped models first, then those in the Hugging Face cache that have safetensors weights."""
    shipped = [
        _info(folder.name, "shipped", folder)
        for folder in sorted(shipped_folder().glob("*/"))
        if (folder / "config.json").is_file()
    ]
    return shipped + [_info(name, "cached", folder) for name, folder in sorted(_cached().items())]


def find_model(name: str, *, download: bool = True) -> ModelInfo:
    """The model of that name: shipped, a local folder, cached, or else fetched from the Hub.

    Args:
        name: "tiny-bert", a path to a folder with config.json, or a Hub id ("owner/name").
        download: whether the network may be asked.

    Raises:
        ArgumentError: the name is empty or is neither a folder nor a possible Hub id.
        ModelNotFoundError: it is nowhere, or the network cannot be reached (within a second).
        BrokenCheckpointError: the folder has no readable config.
    """
    name = name.strip()
    if not name or "\0" in name or len(name) > MAX_NAME:
        raise ArgumentError("A model name must be a shipped name, a folder or a Hub id.")
    folder = shipped_folder() / name
    if HUB_ID.fullmatch(name) and "/" not in name and (folder / "config.json").is_file():
        return _info(name, "shipped", folder)
    path = Path(name)
    # Not a folder, for the system, are also names too long for it and homes of unknown users.
    with suppress(OSError, RuntimeError, ValueError):
        path = path.expanduser()
        if path.is_dir():
            return _info(name, "folder", path)
    if not HUB_ID.fullmatch(name) or ".." in name:
        shown = name if len(name) <= 80 else name[:79] + "…"
        raise ModelNotFoundError(
            f"There is no folder {shown!r}, and a Hub id looks like 'owner/name'. "
            f"Shipped models: {', '.join(_shipped_names())}."
        )
    cached = _cached().get(name)
    if cached is None:
        cached = _download(name, download)
    return _info(name, "cached", cached)


def _first(config: dict[str, Any], keys: tuple[str, ...]) -> int:
    return next((config[key] for key in keys if isinstance(config.get(key), int)), 0)


def _info(name: str, source: Source, folder: Path) -> ModelInfo:
    try:
        config = read_config(folder)
    except LoadError:
        config = {}  # listed all the same: loading it then says what is wrong with it
    return ModelInfo(
        name, source, folder, str(config.get("model_type", "")),
        _first(config, _LIMITS["layers"][0]), _first(config, _LIMITS["heads"][0]),
        sum(file.stat().st_size for file in folder.glob("*.safetensors")),
    )  # fmt: skip


def _shipped_names() -> list[str]:
    return [folder.name for folder in sorted(shipped_folder().glob("*/")) if
            (folder / "config.json").is_file()]  # fmt: skip


def _cached() -> dict[str, Path]:
    """Hub ids in the machine's cache that can be loaded, with the folder of their newest files."""
    from huggingface_hub import constants

    root = Path(os.environ.get("HF_HUB_CACHE", constants.HF_HUB_CACHE))
    found: dict[str, Path] = {}
    for repo in root.glob("models--*"):
        snapshots = [
            folder
            for folder in (repo / "snapshots").glob("*/")
            if (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))
        ]
        if snapshots:
            newest = max(snapshots, key=lambda folder: folder.stat().st_mtime)
            found[repo.name.removeprefix("models--").replace("--", "/")] = newest
    return found


def _download(name: str, allowed: bool) -> Path:
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    advice = (
        f"It is not among the shipped models ({', '.join(_shipped_names())}), not a folder here, "
        "and not in this machine's Hugging Face cache."
    )
    if not allowed or constants.HF_HUB_OFFLINE or not _reachable(constants.ENDPOINT):
        raise ModelNotFoundError(
            f"{name!r} cannot be loaded without network. {advice} Download it on a machine with "
            "network (`hf download " + name + "`), or give the path of a folder with its files."
        )
    try:
        info = HfApi().model_info(name, files_metadata=True, timeout=10)
        files = [f for f in info.siblings or () if f.rfilename.endswith(".safetensors")]
        if not files:
            raise UnsafeCheckpointError(
                f"{name!r} has no safetensors weights; pickled weights can run code and are "
                "never loaded."
            )
        size = sum(file.size or 0 for file in files)
        if size > MAX_DOWNLOAD_BYTES:
            raise UnsafeCheckpointError(
                f"{name!r} has {size / 2**30:.0f} GiB of weights; at most "
                f"{MAX_DOWNLOAD_BYTES >> 30} GiB are fetched. Download it yourself and give the "
                "folder."
            )
        return Path(snapshot_download(name, allow_patterns=list(_FILES)))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelNotFoundError(
            f"{name!r} could not be fetched from the Hub: {reason} {advice}"
        ) from error


def _reachable(endpoint: str) -> bool:
    """Whether the Hub's host answers at all: one connection, given up after NETWORK_TIMEOUT."""
    import threading

    url = urlsplit(endpoint)
    port = url.port or (443 if url.scheme == "https" else 80)
    answered = threading.Event()

    def connect() -> None:
        try:
            with socket.create_connection((url.hostname or "", port), timeout=NETWORK_TIMEOUT):
                answered.set()
        except OSError:
            return

    # In a thread, because resolving a name has no time-out of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(NETWORK_TIMEOUT)
    return answered.is_set()
