"""The files of a checkpoint, checked before any library reads them: kinds, sizes, config.

Imports neither torch nor transformers, as a list of models reads configs, too.
"""

import json
import re
import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mha_viz.checkpoints.config_limits import TABLES, check_limits
from mha_viz.checkpoints.files import list_folder
from mha_viz.core.amounts import of_bytes
from mha_viz.errors import BrokenCheckpointError, UnsafeCheckpointError

MB = 10**6
MAX_CONFIG_BYTES = MB
ADAPTER_CONFIG = "adapter_config.json"
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
    check_limits(config, folder.name)
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
        return json.loads(path.read_text("utf-8"), parse_int=_tensor_int)
    except (OSError, ValueError, RecursionError) as error:
        raise BrokenCheckpointError(
            f"{name} of {folder} is not JSON that can be read: {error}"
        ) from error


def _tensor_int(digits: str) -> int:
    """Parse a whole number of JSON that must fit into a tensor."""
    number = int(digits)
    if abs(number) >= 2**63:
        raise ValueError(f"it has a number of {len(digits)} digits")
    return number


def check_files(folder: Path) -> Stamp:
    """Refuse a folder in which a file that would be opened is no regular one, or is far too large.

    A link counts as what it leads to: the Hub's cache is made of links. Returns a stamp by which
    the files can be recognised as unchanged: name, inode, size and time of each.
    """
    stamp = []
    for path, largest in _opened(folder):
        try:
            status = path.stat()
        except (OSError, ValueError) as error:
            raise BrokenCheckpointError(
                f"{path.name} in {folder.name} cannot be read, or is a link to a file that is not "
                "there: fetch the model again."
            ) from error
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeCheckpointError(
                f"{path.name} in {folder.name} is {_kind(status.st_mode)}: only regular files are "
                "opened. Take it out of the folder."
            )
        if largest is not None and status.st_size > largest:
            raise UnsafeCheckpointError(
                f"{path.name} of {folder.name} is larger than {of_bytes(largest)}, which no real "
                "model needs."
            )
        stamp.append((path.name, status.st_ino, status.st_size, status.st_mtime_ns))
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
