"""Name, folder or Hub id -> AttentionModel, with every check that an untrusted checkpoint needs."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

from mha_viz.checkpoints.adapter import check_adapter, merge
from mha_viz.checkpoints.building import (
    ModelSize,
    building_lock,
    check_room,
    first_line,
    load_config,
    load_tokenizer,
    loader_of,
    model_size,
)
from mha_viz.checkpoints.catalog import ModelInfo, find_model
from mha_viz.checkpoints.checkpoint_files import (
    Stamp,
    check_files,
    check_not_quantised,
    read_config,
    read_json,
)
from mha_viz.checkpoints.device import device_of
from mha_viz.checkpoints.layout import LayoutChecks, count_parameters, wrong_shape
from mha_viz.checkpoints.loaded_checks import (
    check_finite,
    check_names,
    check_stacks,
    language_notes,
    missing_notes,
    tokenizer_notes,
)
from mha_viz.checkpoints.tokenizer_limits import check_written
from mha_viz.checkpoints.weight_files import Shapes, read_headers
from mha_viz.core.names import DTYPES, Device
from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.loaded_network import threads_for
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import (
    ArgumentError,
    BrokenCheckpointError,
    MhaVizError,
    OutOfMemoryError,
    translating,
)

_UNKNOWN = "Unrecognized configuration class"  # of a loader of transformers
Target = torch.device | str | dict[str, int | str | torch.device]  # or a map of devices


def load(
    name: str,
    *,
    device: Device | str = "auto",
    dtype: str | torch.dtype = "float32",
    device_map: str | Mapping[str, int | str | torch.device] | None = None,
    download: bool = True,
) -> AttentionModel:
    """Load a model with our attention inside.

    Args:
        name: a shipped name ("tiny-bert", "tiny-gpt2", "tiny-llama"), a local folder, or a Hub id,
            with a branch, tag or commit of it ("EleutherAI/pythia-70m@step512") or without. Also
            the folder or Hub id of a LoRA adapter, which is merged into its base model.
        device: "auto" takes cuda, then mps, then cpu.
        dtype: "float32", "bfloat16" or "float16", as text or as torch names it, of the weights
            while running; "auto" takes the one that config.json names, else float32. Weights
            stored in this precision are not copied into memory: the file is mapped, and read as
            they are used. Records are float32 always.
        device_map: in place of device, what transformers takes: "auto", or a device for each part
            of the network. It needs the package accelerate, and memory for all weights. Each
            layer is traced where it is; what takes weights apart (`mha_viz.circuits`) needs all of
            them on one device.
        download: whether a Hub id that is not cached may be fetched.

    Returns:
        AttentionModel; its `notes` say what a user should know about it.

    Raises:
        ModelNotFoundError: nowhere to be found, or no network.
        UnsafeCheckpointError: would need pickle or foreign code, or claims absurd sizes.
        BrokenCheckpointError: damaged weights, NaN in them, or no tokenizer.
        AttentionUnavailableError: the family gives no attention weights.
        ArgumentError: an unknown device or dtype; a device_map without accelerate or beside device.
        OutOfMemoryError: weights that the memory of the device, or of the map, cannot hold.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> model.n_layers, model.n_heads, model.d_model
    (4, 8, 256)
    """
    precision = str(dtype).removeprefix("torch.")
    if precision not in DTYPES:
        raise ArgumentError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}.")
    target = device_of(device) if device_map is None else _check_map(device_map, device)
    checked = check(name, download=download)
    if checked.info.source == "shipped":
        return _model(checked, target, precision)
    with translating(partial(_broken, checked.info.name)):
        return _model(checked, target, precision)


@dataclass(frozen=True)
class CheckedModel:
    """A model whose files have been checked, with what their headers say of its weights."""

    info: ModelInfo
    shapes: Shapes
    n_bytes: int  # of the files of weights


def check(name: str, *, download: bool = True) -> CheckedModel:
    """Check a model's files before any library reads them; `load` does this first.

    Raises what `load` raises, but for what only the libraries find.
    """
    info = find_model(name, download=download)
    stamp = check_files(info.path)
    config = read_config(info.path)
    check_not_quantised(config, info.path)
    if (info.path / "generation_config.json").is_file():
        read_json(info.path / "generation_config.json")
    shapes = read_headers(info.path)
    if info.adapter is not None:
        check_adapter(info.adapter)
    if info.source != "shipped":
        _check_tokenizer(info.path, stamp)
    n_bytes = sum(size for name, _, size, _ in stamp if name.endswith(".safetensors"))
    return CheckedModel(info, shapes, n_bytes)


@lru_cache(maxsize=100)
def _check_tokenizer(folder: Path, stamp: Stamp) -> None:
    """Check a tokenizer's files, once as long as they stay the same: the largest take a second."""
    check_written(folder)


def _check_map(
    device_map: str | Mapping[str, int | str | torch.device], device: str
) -> str | dict[str, int | str | torch.device]:
    """Return a map of devices as transformers takes it."""
    if device != "auto":
        raise ArgumentError("Give device or device_map, not both.")
    if find_spec("accelerate") is None:
        raise ArgumentError(
            "device_map needs the package accelerate, which is not installed here: "
            "pip install accelerate, or choose a single device in place of the map."
        )
    return device_map if isinstance(device_map, str) else dict(device_map)


def size_of(name: str, dtype: str) -> ModelSize:
    """Return the size of a model of this machine that has passed `check`, without loading it."""
    info = find_model(name, download=False)
    with translating(partial(_broken, name)), building_lock():
        config = load_config(info.path)
    n_parameters = sum(map(prod, read_headers(info.path).values()))
    return model_size(config, n_parameters, getattr(torch, precision_of(dtype, config)))


def _model(checked: CheckedModel, target: Target, dtype: str) -> AttentionModel:
    info = checked.info
    folder, name = info.path, info.name
    with building_lock():
        config = load_config(folder)
        tokenizer = load_tokenizer(folder, config)
        dtype = precision_of(dtype, config)

        def check_memory(network: PreTrainedModel) -> None:
            if isinstance(target, torch.device):
                n_bytes = count_parameters(network) * getattr(torch, dtype).itemsize
                check_room(name, n_bytes, target)

        checks = LayoutChecks(folder.name, config, checked.shapes, checked.n_bytes, check_memory)
        placed = {} if isinstance(target, torch.device) else {"device_map": target}
        network, notes = _network(folder, checks, dtype=dtype, **placed)
    check_stacks(network, name)
    if any(weight.is_meta for weight in network.parameters()):
        raise OutOfMemoryError(
            f"{name} does not fit into the memory of the devices of device_map: some weights would "
            "stay on the disk or be moved for every text. Choose bfloat16 or a smaller model."
        )
    if info.adapter is not None:
        notes += merge(network, info.adapter)
    with threads_for(network):
        check_finite(network, name)
    network.eval().requires_grad_(False)
    if isinstance(target, torch.device) and target.type != "cpu":
        network.to(target)
    notes += (*tokenizer_notes(tokenizer, config), *language_notes(network))
    return AttentionModel(network, tokenizer, name=name, notes=tuple(notes))


def precision_of(dtype: str, config: PreTrainedConfig) -> str:
    """Return the precision that "auto" stands for with this config, or the one that is given."""
    named = str(config.get_text_config().dtype).removeprefix("torch.")
    if dtype != "auto":
        return dtype
    return named if named in DTYPES else "float32"


def _broken(name: str, error: BaseException) -> BrokenCheckpointError:
    """Return the error for whatever an untrusted checkpoint makes the libraries raise."""
    return BrokenCheckpointError(
        f"{name} cannot be used: its config does not describe a model that works "
        f"({type(error).__name__}: {first_line(str(error))})."
    )


def _network(
    folder: Path, checks: LayoutChecks, **placed: Any
) -> tuple[PreTrainedModel, list[str]]:
    """Load the network with our attention, or with eager attention where ours is refused."""
    loader = loader_of(checks.config)
    try:
        return _from_pretrained(loader, folder, checks, placed)
    except MhaVizError:
        raise
    except ValueError as error:
        if loader is AutoModel or _UNKNOWN not in str(error):
            raise _unloadable(folder, checks.config, error) from error
    except Exception as error:
        reason = first_line(str(error))
        if not checks.laid_out:
            raise BrokenCheckpointError(
                f"config.json of {folder.name} describes no model that can be built: {reason}"
            ) from error
        raise BrokenCheckpointError(
            f"The weights of {folder.name} do not fit its config: {reason}"
        ) from error
    try:  # the family has no such head
        return _from_pretrained(AutoModel, folder, checks, placed)
    except ValueError as error:
        raise _unloadable(folder, checks.config, error) from error


def _unloadable(folder: Path, config: PreTrainedConfig, error: ValueError) -> BrokenCheckpointError:
    """Return the error for a checkpoint that no loader of transformers takes."""
    if _UNKNOWN not in str(error):
        return BrokenCheckpointError(f"{folder.name}: {first_line(str(error))}")
    name = (getattr(config, "architectures", None) or [config.model_type])[0]
    return BrokenCheckpointError(
        f"{folder.name} is a part of a larger model ({name}), which none of transformers' loaders "
        f"takes: load it by its own class and give it to mv.wrap(network, tokenizer)."
    )


def _from_pretrained(
    loader: Any, folder: Path, checks: LayoutChecks, placed: dict[str, Any]
) -> tuple[PreTrainedModel, list[str]]:
    options = dict(local_files_only=True, trust_remote_code=False, use_safetensors=True, **placed)
    options |= dict(output_loading_info=True)
    options |= dict(ignore_mismatched_sizes=True)  # only then does the library say which ones

    def read(attention: str) -> Any:
        config = copy.deepcopy(checks.config)
        with checks.during():
            return loader.from_pretrained(
                folder, config=config, attn_implementation=attention, **options
            )

    try:
        # A family outside the interface refuses the name before any weight is read.
        network, info = read(IMPLEMENTATION)
    except (ValueError, KeyError) as error:
        # Some say so in words, some look the name up in a table of their own.
        if IMPLEMENTATION not in str(error) and "attention" not in str(error).lower():
            raise
        network, info = read("eager")
    for key, stored, expected in info["mismatched_keys"]:
        raise wrong_shape(folder.name, key, stored, expected)
    missing, unknown = set(info["missing_keys"]), sorted(info["unexpected_keys"])
    check_names(network, folder.name, missing, unknown)
    return network, missing_notes(network, missing)
