"""The machine's Hugging Face cache and the complete models in it.

Imports neither torch nor transformers.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from mha_viz.checkpoints.files import is_file, json_object, list_folder, modified_time

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
_REVISION = re.compile(r"[A-Za-z0-9][\w.-]{0,95}")
READ = (".safetensors", ".json", ".txt", ".model", ".jinja")  # no pickle, no code
INDEX = "model.safetensors.index.json"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".pkl")  # how the names of such files end
HOW_TO_CONVERT = (
    "Where you trust it, convert it: load it with transformers' AutoModel.from_pretrained, write "
    "model and tokenizer with save_pretrained into a folder, and give that folder."
)
ADAPTER = {"adapter_config.json", "adapter_model.safetensors"}  # weights for another model
# Owners of models that the Hub once had without one: "bert-base-uncased" is "google-bert/...".
CANONICAL_OWNERS = (
    "albert",
    "almanach",
    "distilbert",
    "FacebookAI",
    "google-bert",
    "google-t5",
    "openai-community",
    "Salesforce",
    "transfo-xl",
    "xlnet",
)
_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
_PART = re.compile(r".*-\d+-of-\d+\.safetensors")
_VOCABULARY = re.compile(r"(tokenizer|tekken)\.json|vocab.*|.*\.(model|spm|tiktoken)")
_NO_VOCABULARY = ("ByT5Tokenizer",)  # reads bytes, and has no file of them


def is_hub_id(name: str) -> bool:
    """Return whether a model of the Hub may have this name.

    >>> is_hub_id("openai-community/gpt2"), is_hub_id("../models/mine")
    (True, False)
    """
    return HUB_ID.fullmatch(name) is not None and ".." not in name


def revision_of(name: str) -> tuple[str, str]:
    """Split a Hub id from the branch, tag or commit behind its @; "" where it names none.

    >>> revision_of("EleutherAI/pythia-70m@step512"), revision_of("openai-community/gpt2")
    (('EleutherAI/pythia-70m', 'step512'), ('openai-community/gpt2', ''))
    """
    name, _, revision = name.partition("@")
    return name, revision


def is_hub_revision(name: str) -> bool:
    """Return whether a model of the Hub may have this name, with a revision or without.

    >>> is_hub_revision("EleutherAI/pythia-70m@step512"), is_hub_revision("owner/name@../main")
    (True, False)
    """
    hub_id, revision = revision_of(name)
    named = _REVISION.fullmatch(revision) is not None and ".." not in revision
    return is_hub_id(hub_id) and (named or hub_id == name)


def name_of_address(name: str) -> str:
    """Return the Hub id, and the revision, of a pasted address of a model; other names as they are.

    >>> name_of_address("https://huggingface.co/openai-community/gpt2/tree/main")
    'openai-community/gpt2'
    """
    try:
        address = urlsplit(name if "://" in name else f"https://{name}")
    except ValueError:  # what looks like an address, and is none
        return name
    parts = [part for part in address.path.split("/") if part]
    if address.hostname not in _HOSTS or not parts:
        return name
    kinds = ("tree", "blob", "resolve", "commit")
    n_parts = next((i for i, part in enumerate(parts) if part in kinds), min(2, len(parts)))
    hub_id, revision = "/".join(parts[:n_parts]), "".join(parts[n_parts + 1 : n_parts + 2])
    return f"{hub_id}@{revision}" if revision and revision != "main" else hub_id


def cache_root() -> Path:
    """Return the folder in which huggingface_hub keeps what it fetches."""
    from huggingface_hub import constants

    return Path(os.environ.get("HF_HUB_CACHE", constants.HF_HUB_CACHE))


def repository(name: str) -> Path:
    """Return the folder of the cache that belongs to a Hub id, and to all its revisions."""
    return cache_root() / ("models--" + revision_of(name)[0].replace("/", "--"))


def part_of(blob: Path) -> Path:
    """Return the file that a large blob is written to until it is complete."""
    return blob.with_suffix(".part")


def cached_models() -> dict[str, Path]:
    """Map each loadable Hub id in the cache to the folder of its newest files."""
    models = {}
    for folder in list_folder(cache_root()):
        name = folder.name.removeprefix("models--").replace("--", "/")
        if folder.name.startswith("models--") and HUB_ID.fullmatch(name):
            complete = list(filter(is_complete, list_folder(folder / "snapshots")))
            if complete:
                models[name] = max(complete, key=modified_time)
    return models


def cached_model(name: str) -> Path | None:
    """Return the folder of a Hub id, or of one revision of it, if it is loadable in the cache.

    A model that the Hub once had without an owner is found by its old name and by its new one.
    """
    return next(filter(None, map(_cached, _names_in_cache(name))), None)


def _names_in_cache(name: str) -> Iterator[str]:
    """Yield the names under which the cache may hold a model."""
    yield name
    owner, _, model = name.rpartition("/")
    if not owner:
        yield from (f"{owner}/{name}" for owner in CANONICAL_OWNERS)
    elif owner in CANONICAL_OWNERS:
        yield model


def _cached(name: str) -> Path | None:
    hub_id, revision = revision_of(name)
    if not revision:
        return cached_models().get(hub_id)
    snapshots = list_folder(repository(name) / "snapshots")
    refers = repository(name) / "refs" / revision
    commit = refers.read_text().strip() if is_file(refers) else revision
    return next(
        (snapshot for snapshot in snapshots if snapshot.name == commit and is_complete(snapshot)),
        None,
    )


def is_complete(folder: Path) -> bool:
    """Return whether config, weights and tokenizer are all there, or an adapter's two files.

    Other programs fetch what they need of a model, and no more: weights without their tokenizer,
    a tokenizer without its network. Where a cache was tidied up, links may lead into nothing.
    """
    listed = [path for path in list_folder(folder) if path.suffix in READ]
    names = {path.name for path in listed if is_file(path)}
    if len(names) < len(listed):
        return False
    is_model = "config.json" in names and _has_weights(folder, names)
    return (is_model and _has_tokenizer(folder, names)) or names >= ADAPTER


def _has_weights(folder: Path, names: set[str]) -> bool:
    if INDEX in names:
        parts = json_object(folder / INDEX).get("weight_map")
        return isinstance(parts, dict) and set(map(str, parts.values())) <= names
    weights = [name for name in names if name.endswith(".safetensors")]
    return any(not _PART.fullmatch(name) for name in weights)


def _has_tokenizer(folder: Path, names: set[str]) -> bool:
    if any(_VOCABULARY.fullmatch(path.name) and is_file(path) for path in list_folder(folder)):
        return True
    return json_object(folder / "tokenizer_config.json").get("tokenizer_class") in _NO_VOCABULARY
