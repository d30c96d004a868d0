"""The files of a checkpoint, checked before any library reads them: kinds, sizes, config, weights.

Imports neither torch nor transformers, as a list of models reads configs, too.
"""

import json
import re
import stat
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from mha_viz.checkpoints.files import list_folder
from mha_viz.checkpoints.hub_cache import HOW_TO_CONVERT, INDEX, PICKLED
from mha_viz.core.amounts import of_bytes
from mha_viz.errors import BrokenCheckpointError, UnsafeCheckpointError

MB = 10**6
MAX_CONFIG_BYTES = MB
ADAPTER_CONFIG = "adapter_config.json"
MAX_HEADER_BYTES = 16 * 2**20  # of weights; a thousand tensors take 0.1 MB
# Kinds of sizes, each with the keys of a config that hold one, and the most that it may be.
TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("limits.toml").read_text("utf-8"))
LIMITS = {kind: (limit["keys"], limit["most"]) for kind, limit in TABLES["config"].items()}
_LARGEST = [(name, megabytes * MB or None) for name, megabytes in TABLES["files"].items()]
_TEMPLATES = "additional_chat_templates"

Stamp = tuple[tuple[str, int, int, int], ...]


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json and check that it is an object with sane sizes."""
    path = folder / "config.json"
    if not path.is_file():
        raise BrokenCheckpointError(
            f"{folder.name} has no config.json: expected a folder as save_pretrained writes it "
            f"(config.json, model.safetensors and the tokenizer's files).{_instead(folder)}"
        )
    config = read_json(path)
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise BrokenCheckpointError(
            f"config.json of {folder.name} names no model_type, so no family can be chosen."
        )
    for part in _objects(config):
        _check_sizes(part, folder.name)
        _check_kinds(part, folder.name)
    return config


def _instead(folder: Path) -> str:
    """Name what a folder without a config holds in place of a checkpoint, and what to do."""
    names = sorted(path.name for path in list_folder(folder))
    steps = [name for name in names if re.fullmatch(r"checkpoint-\d+", name)]
    if steps:
        last = max(steps, key=lambda name: int(name.rpartition("-")[2]))
        return f" It holds checkpoints of a training: give one of them, such as {folder / last}."
    if any(name.lower().endswith(".gguf") for name in names):
        return (
            " GGUF files are quantised for other programs and not read here: give the model's own "
            "safetensors checkpoint."
        )
    return ""


def check_not_quantised(config: dict[str, Any], folder: Path) -> None:
    """Refuse a checkpoint whose weights a quantisation library packed."""
    quantization = config.get("quantization_config")
    if quantization is None:
        return
    method = quantization.get("quant_method") if isinstance(quantization, dict) else None
    raise BrokenCheckpointError(
        f"{folder.name} is quantised ({method or quantization!s:.40}), which is not supported "
        "here: load it by transformers' AutoModel.from_pretrained and give it to mv.wrap(network, "
        "tokenizer), or give the checkpoint before it was quantised."
    )


def adapter_base(folder: Path) -> str:
    """Return the name of the base model of a LoRA adapter; "" where a folder holds no adapter."""
    if not (folder / ADAPTER_CONFIG).is_file() or any(folder.glob("model*.safetensors")):
        return ""
    config = read_json(folder / ADAPTER_CONFIG)
    kind = config.get("peft_type") if isinstance(config, dict) else None
    if kind != "LORA":
        raise not_merged(folder, f"its kind is {kind!s:.40}, expected LORA")
    base = config.get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise not_merged(folder, f"{ADAPTER_CONFIG} names no base_model_name_or_path")
    revision = config.get("revision")
    return f"{base}@{revision}" if revision and not Path(base).is_dir() else base


def not_merged(folder: Path, why: str) -> BrokenCheckpointError:
    """Return the error for an adapter that is not merged here, with the lines that merge it."""
    return BrokenCheckpointError(
        f"The adapter {folder.name} cannot be merged here: {why}. Where you trust it, merge it by "
        "network = peft.AutoPeftModelForCausalLM.from_pretrained(folder).merge_and_unload(), "
        "then mv.wrap(network, transformers.AutoTokenizer.from_pretrained(base))."
    )


def read_json(path: Path) -> Any:
    """Read a JSON file of a checkpoint whose whole numbers must fit into a tensor."""
    name, folder = path.name, path.parent.name
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise UnsafeCheckpointError(f"{name} of {folder} is larger than 1 MB.")
        return json.loads(path.read_text("utf-8"), parse_int=_whole)
    except (OSError, ValueError, RecursionError) as error:
        raise BrokenCheckpointError(
            f"{name} of {folder} is not JSON that can be read: {error}"
        ) from error


def _check_sizes(part: dict[str, Any], name: str) -> None:
    for what, (keys, most) in LIMITS.items():
        for key in keys:
            value = part.get(key)
            if value is None or isinstance(value, list):
                continue
            if not isinstance(value, int) or not 0 <= value <= most:
                raise UnsafeCheckpointError(
                    f"config.json of {name} claims {key} = {value!r:.100}; a real model has "
                    f"at most {most:,} ({what})."
                )


def _check_kinds(part: dict[str, Any], name: str) -> None:
    """Check the types that every family relies on and transformers does not check."""
    names = part.get("architectures")
    fits = {
        "architectures": names is None
        or (isinstance(names, list) and all(isinstance(one, str) for one in names)),
        "text_config": isinstance(part.get("text_config"), dict | None),
        "is_encoder_decoder": isinstance(part.get("is_encoder_decoder"), bool | None),
    }
    for key in (key for key, is_fit in fits.items() if not is_fit):
        raise BrokenCheckpointError(
            f"config.json of {name} has {key} = {part[key]!s:.60}, which is not what stands there "
            "in any model. Fetch it again."
        )


def _whole(digits: str) -> int:
    """Parse a whole number of JSON that must fit into a tensor."""
    number = int(digits)
    if abs(number) >= 2**63:
        raise ValueError(f"it has a number of {len(digits)} digits")
    return number


def _objects(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the config and the objects inside it (of a text or vision part)."""
    rest: list[Any] = [config]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            yield value
            rest += value.values()


def check_files(folder: Path) -> Stamp:
    """Refuse a folder in which a file that would be opened is no regular one, or is far too large.

    A link counts as what it leads to: the Hub's cache is made of links. Returns a stamp by which
    the files can be recognised as unchanged: name, inode, size and time of each.
    """
    stamp = []
    for path, largest in _opened(folder):
        try:
            found = path.stat()
        except (OSError, ValueError) as error:
            raise BrokenCheckpointError(
                f"{path.name} in {folder.name} cannot be read, or is a link to a file that is not "
                "there: fetch the model again."
            ) from error
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeCheckpointError(
                f"{path.name} in {folder.name} is {_kind(found.st_mode)}: only regular files are "
                "opened. Take it out of the folder."
            )
        if largest is not None and found.st_size > largest:
            raise UnsafeCheckpointError(
                f"{path.name} of {folder.name} is larger than {of_bytes(largest)}, which no real "
                "model needs."
            )
        stamp.append((path.name, found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(stamp)


def _opened(folder: Path) -> Iterator[tuple[Path, int | None]]:
    """Yield each file that would be opened, with the largest size that it may have."""
    try:
        paths = sorted(folder.iterdir())
        if folder / _TEMPLATES in paths and (folder / _TEMPLATES).is_dir():
            paths += sorted((folder / _TEMPLATES).iterdir())
    except OSError as error:
        raise BrokenCheckpointError(
            f"The folder {folder.name} cannot be read: {error.strerror or error}."
        ) from error
    for path in paths:
        for pattern, largest in _LARGEST:
            if fnmatch(path.name.lower(), pattern):
                yield path, largest
                break


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a folder",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "no file")


def check_weight_files(folder: Path) -> None:
    """Check that there are safetensors files, all readable and inside of the folder."""
    if (folder / ADAPTER_CONFIG).is_file():
        raise BrokenCheckpointError(
            f"{folder.name} is an adapter for another model: merge it into that model first."
        )
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickled = [path.name for path in sorted(folder.iterdir()) if path.name.endswith(PICKLED)]
        if pickled:
            raise UnsafeCheckpointError(
                f"{folder.name} holds its weights in {pickled[0]}, a format that can run code "
                f"when it is read. Only safetensors is loaded. {HOW_TO_CONVERT}"
            )
        raise BrokenCheckpointError(f"{folder.name} has no *.safetensors file with weights.")
    for file in files:
        check_weight_file(file)
    if (folder / INDEX).is_file():
        _check_index(folder, {file.name for file in files})


def check_weight_file(file: Path) -> None:
    """Check that a file is safetensors and can be read."""
    try:
        _check_header(file)
        with safe_open(file, framework="pt") as weights:
            weights.keys()
    except (SafetensorError, OSError, ValueError) as error:
        raise BrokenCheckpointError(
            f"{file.name} in {file.parent.name} cannot be read as safetensors ({_why(error)}): the "
            "file is damaged or incomplete. Fetch it again."
        ) from error


def _check_header(file: Path) -> None:
    """Check that a file's header is no longer than that of real files."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"its header claims {length:,} bytes")


def _check_index(folder: Path, present: set[str]) -> None:
    """Check that every part that the index names is a file of the folder."""
    path = folder / INDEX
    try:
        parts = set(json.loads(path.read_text("utf-8"))["weight_map"].values())
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise BrokenCheckpointError(
            f"{INDEX} of {folder.name} cannot be read: {_why(error)}"
        ) from error
    for part in map(str, parts - present):
        if Path(part).name != part or part == ".." or "\\" in part:
            raise UnsafeCheckpointError(
                f"{INDEX} of {folder.name} names {part!r}, which lies outside of the folder."
            )
        raise BrokenCheckpointError(f"{folder.name} lacks {part!r}, which its {INDEX} names.")


def _why(error: Exception) -> str:
    """Say what went wrong, without the system's path and all of what a header says."""
    return f"{getattr(error, 'strerror', None) or error!s:.300}"
