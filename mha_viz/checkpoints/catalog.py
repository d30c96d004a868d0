"""The models that can be loaded: shipped, in the Hugging Face cache, or in a folder.

Imports neither torch nor transformers, so that a page can list models before the heavy libraries
are loaded.
"""

import re
import tomllib
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from mha_viz.checkpoints.checkpoint_files import adapter_base, not_merged, read_config
from mha_viz.checkpoints.config_limits import LIMITS as _LIMITS
from mha_viz.checkpoints.download import download as begin
from mha_viz.checkpoints.files import is_file, list_folder, size
from mha_viz.checkpoints.hub import online
from mha_viz.checkpoints.hub_cache import (
    cached_model,
    cached_models,
    is_hub_revision,
    name_of_address,
    repository,
    revision_of,
)
from mha_viz.errors import ArgumentError, LoadError, ModelNotFoundError

MAX_NAME = 4096  # the longest path of Linux

Source = Literal["shipped", "cached", "folder"]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model that can be loaded without network.

    Args:
        name: what `load` takes.
        source: where it comes from.
        path: the folder with its files; of an adapter, with those of its base model.
        family: transformers' model_type ("bert", "gpt2" ...), "" where the config cannot be read.
        n_layers, n_heads: from the config; 0 where it does not say.
        n_bytes: size of its weights.
        adapter: the folder of a LoRA adapter that is to be merged into it.

    >>> import mha_viz as mv
    >>> model = mv.list_models()[0]
    >>> model.name, model.source, model.n_layers, model.n_heads
    ('tiny-bert', 'shipped', 4, 8)
    """

    name: str
    source: Source
    path: Path
    family: str
    n_layers: int
    n_heads: int
    n_bytes: int
    adapter: Path | None = None


def shipped_folder() -> Path:
    """Return the folder of the shipped checkpoints: in the package, or beside it in the source."""
    inside = Path(__file__).parents[1] / "shipped_models"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "models"


def shipped_language(name: str) -> str:
    """Return the language that the card of a shipped model names ("en"); "" of any other model.

    >>> shipped_language("tiny-bert"), shipped_language("bert-base-uncased")
    ('en', '')
    """
    card = shipped_folder() / name / "README.md"
    if name not in _shipped_names() or not is_file(card):
        return ""
    named = re.search(r"^language: (\S+)$", card.read_text("utf-8"), re.MULTILINE)
    return named[1] if named else ""


def list_models() -> list[ModelInfo]:
    """List the shipped models, then those in the Hugging Face cache that are complete.

    Returns:
        ModelInfo of each, by name.

    >>> import mha_viz as mv
    >>> [model.name for model in mv.list_models()][:3]
    ['tiny-bert', 'tiny-gpt2', 'tiny-llama']
    """
    shipped = [_info(name, "shipped", shipped_folder() / name) for name in _shipped_names()]
    cached = sorted(cached_models().items())
    return shipped + [
        _info(name, "cached", folder) for name, folder in cached if is_file(folder / "config.json")
    ]


def find_model(name: str, *, download: bool = True) -> ModelInfo:
    """Find a model by name: shipped, a local folder, cached, or else fetched from the Hub.

    A LoRA adapter leads to its base model, by the name that the adapter gives.

    `name` is "tiny-bert", a path to a folder with config.json, or a Hub id ("owner/name"), with a
    branch, tag or commit of it ("owner/name@step512") or without; `download` tells whether the
    network may be asked. Raises ArgumentError: the name is empty or is neither a folder nor a
    possible Hub id. ModelNotFoundError: it is nowhere, or the network cannot be reached (within a
    second) or fails. UnsafeCheckpointError: the Hub has it without safetensors weights, or far too
    large. BrokenCheckpointError: an adapter of another kind than LoRA, or one of an adapter.
    """
    model_info = _find(name, download)
    base = adapter_base(model_info.path)
    if not base:
        return model_info
    if model_info.source == "cached" and not is_hub_revision(base):
        raise not_merged(model_info.path, f"its base is no model of the Hub, but {_quoted(base)}")
    # What a file from the Hub names is no folder of this machine, whatever lies there.
    below = _find(base, download, folders=model_info.source != "cached")
    if adapter_base(below.path):
        raise not_merged(model_info.path, f"its base {_quoted(base)} is an adapter, too")
    return replace(below, name=model_info.name, source=model_info.source, adapter=model_info.path)


def _find(name: str, download: bool, folders: bool = True) -> ModelInfo:
    """Find the folder of that name, a model's or an adapter's.

    `folders` says whether a folder that is called so goes before the Hub.
    """
    name = name.strip()
    if not name or "\0" in name or len(name) > MAX_NAME:
        raise ArgumentError("A model name must be a shipped name, a folder or a Hub id.")
    if name in _shipped_names():
        return _info(name, "shipped", shipped_folder() / name)
    folder = _typed_folder(name) if folders else None
    if folder is not None:
        return _info(name, "folder", folder)
    name = name_of_address(name)
    if not is_hub_revision(name):
        raise ModelNotFoundError(
            f"There is no folder {_quoted(name)}, and a Hub id looks like 'owner/name'. "
            f"{_similar(name)}Shipped models: {', '.join(_shipped_names())}."
        )
    cached = cached_model(name)
    if cached is None:
        if not download or not online():
            raise ModelNotFoundError(_nowhere(name))
        cached = begin(name).wait()
    return _info(name, "cached", cached)


def _typed_folder(name: str) -> Path | None:
    """Return the folder of that path, if there is one."""
    try:
        path = Path(name).expanduser()
        return path if path.is_dir() else None
    except PermissionError as error:
        raise ModelNotFoundError(
            f"The folder {_quoted(name)} may not be read by the user that this program runs as: "
            "change its permissions, or give another one."
        ) from error
    # No folder, for the system, are also names too long for it and homes of unknown users.
    except (OSError, RuntimeError, ValueError):
        return None


def _quoted(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:79] + "…")


def _similar(name: str) -> str:
    """Ask whether a known name that is spelled alike is meant; "" where there is none."""
    names = {
        model_name.lower().replace("_", "-"): model_name
        for model_name in (*_shipped_names(), *cached_models())
    }
    close = get_close_matches(name.lower().replace("_", "-"), names, n=1, cutoff=0.8)
    return f"Did you mean {names[close[0]]}? " if close else ""


def _nowhere(name: str) -> str:
    cache_state = "not in this machine's Hugging Face cache"
    if list_folder(repository(name)):
        cache_state = "only in part in this machine's Hugging Face cache"
    arguments = " --revision ".join(filter(None, revision_of(name)))
    return (
        f"{name!r} cannot be loaded without network. {_similar(name)}It is not among the shipped "
        f"models ({', '.join(_shipped_names())}), not a folder here, and {cache_state}. Download "
        f"it on a machine with network (`hf download {arguments}`), or give the path of a folder "
        "with its files."
    )


def _first(config: dict[str, Any], keys: list[str]) -> int:
    return next((config[key] for key in keys if isinstance(config.get(key), int)), 0)


def _info(name: str, source: Source, folder: Path) -> ModelInfo:
    try:
        config = read_config(folder)
    except (LoadError, OSError):
        config = {}  # listed all the same: loading it then says what is wrong with it
    family = str(config.get("model_type", ""))
    layers, heads = (_first(config, _LIMITS[kind][0]) for kind in ("layers", "heads"))
    n_bytes = sum(size(file) for file in list_folder(folder) if file.suffix == ".safetensors")
    return ModelInfo(name, source, folder, family, layers, heads, n_bytes)


def _shipped_names() -> list[str]:
    folders = list_folder(shipped_folder())
    return [folder.name for folder in folders if is_file(folder / "config.json")]


@dataclass(frozen=True, slots=True)
class SuggestedModel:
    """One model of the Hub that is worth a place in the menu."""

    name: str
    about: str
    n_bytes: int


_ENTRIES = tomllib.loads(Path(__file__).with_name("suggested.toml").read_text("utf-8"))
SUGGESTED = tuple(
    SuggestedModel(name, entry["about"], entry["megabytes"] * 10**6)
    for name, entry in _ENTRIES.items()
)


def suggested(present: set[str]) -> list[SuggestedModel]:
    """Return the suggested models not `here`, where the Hub's older ones have no owner."""
    present_names = {name.rpartition("/")[2] for name in present if "/" not in name} | present
    return [
        model
        for model in SUGGESTED
        if not {model.name, model.name.rpartition("/")[2]} & present_names
    ]
