"""The config of a checkpoint, checked before any library reads it.

Imports neither torch nor transformers, as a list of models reads configs, too.
"""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mha_viz.errors import BrokenCheckpointError, UnsafeCheckpointError

MAX_CONFIG_BYTES = 10**6
ADAPTER_CONFIG = "adapter_config.json"
# Kinds of sizes, each with the keys of a config that hold one, and the most that it may be.
TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("limits.toml").read_text("utf-8"))
LIMITS = {kind: (limit["keys"], limit["most"]) for kind, limit in TABLES["config"].items()}


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json and check that it is an object with sane sizes."""
    path = folder / "config.json"
    if not path.is_file():
        raise BrokenCheckpointError(
            f"{folder.name} has no config.json: expected a folder as save_pretrained writes it "
            "(config.json, model.safetensors and the tokenizer's files)."
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
                shown = f"{value!r:.100}"
                raise UnsafeCheckpointError(
                    f"config.json of {name} claims {key} = {shown}; a real model has "
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
