"""The machine's Hugging Face cache: which models in it are whole.

Imports neither torch nor transformers.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from mha_viz.checkpoints.files import changed, entries, is_file, json_object

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
READ = (".safetensors", ".json", ".txt", ".model", ".jinja")  # no pickle, no code
INDEX = "model.safetensors.index.json"
_PART = re.compile(r".*-\d+-of-\d+\.safetensors")
_VOCABULARY = re.compile(r"(tokenizer|tekken)\.json|vocab.*|.*\.(model|spm|tiktoken)")
_NO_VOCABULARY = ("ByT5Tokenizer",)  # reads bytes, and has no file of them


def is_hub_id(name: str) -> bool:
    """Whether a model of the Hub may have this name.

    >>> is_hub_id("openai-community/gpt2"), is_hub_id("../models/mine")
    (True, False)
    """
    return HUB_ID.fullmatch(name) is not None and ".." not in name


def cache_root() -> Path:
    """Where huggingface_hub keeps what it fetches."""
    from huggingface_hub import constants

    return Path(os.environ.get("HF_HUB_CACHE", constants.HF_HUB_CACHE))


def repository(name: str) -> Path:
    """The folder of the cache that belongs to a Hub id."""
    return cache_root() / ("models--" + name.replace("/", "--"))


def part_of(blob: Path) -> Path:
    """Where a large file grows until it is whole."""
    return blob.with_suffix(".part")


def cached_models() -> dict[str, Path]:
    """Hub ids in the cache that can be loaded, each with the folder of its newest files."""
    found = {}
    for folder in entries(cache_root()):
        name = folder.name.removeprefix("models--").replace("--", "/")
        if folder.name.startswith("models--") and HUB_ID.fullmatch(name):
            whole = [snapshot for snapshot in entries(folder / "snapshots") if is_whole(snapshot)]
            if whole:
                found[name] = max(whole, key=changed)
    return found


def is_whole(folder: Path) -> bool:
    """Config, weights and tokenizer are all there: no download that was broken off, no lost file.

    Other programs fetch what they need of a model, and no more: weights without their tokenizer,
    a tokenizer without its network. Where a cache was tidied up, links may lead into nothing.
    """
    listed = [path for path in entries(folder) if path.suffix in READ]
    names = {path.name for path in listed if is_file(path)}
    return (
        len(names) == len(listed)
        and "config.json" in names
        and _has_weights(folder, names)
        and _has_tokenizer(folder, names)
    )


def _has_weights(folder: Path, names: set[str]) -> bool:
    if INDEX in names:
        parts = json_object(folder / INDEX).get("weight_map")
        return isinstance(parts, dict) and set(map(str, parts.values())) <= names
    weights = [name for name in names if name.endswith(".safetensors")]
    return any(not _PART.fullmatch(name) for name in weights)


def _has_tokenizer(folder: Path, names: set[str]) -> bool:
    if any(_VOCABULARY.fullmatch(path.name) and is_file(path) for path in entries(folder)):
        return True
    return json_object(folder / "tokenizer_config.json").get("tokenizer_class") in _NO_VOCABULARY
