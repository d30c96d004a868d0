"""LoRA adapters: their low-rank changes, merged into the weights of the base model.

An adapter is untrusted: it gives two matrices for each changed weight and a few numbers, and no
code runs but ours. An option that is not known here is refused, for it may change the weights.
"""

import math
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from mha_viz.checkpoints.checkpoint_files import (
    ADAPTER_CONFIG,
    check_files,
    not_merged,
    read_json,
)
from mha_viz.checkpoints.weight_files import read_header

_WEIGHTS = "adapter_model.safetensors"
# Options that say how the matrices were made, or what their shapes say as well.
_HARMLESS = frozenset(
    """auto_mapping base_model_name_or_path bias eva_config exclude_modules fan_in_fan_out
    inference_mode init_lora_weights layers_pattern layers_to_transform lora_alpha lora_dropout
    megatron_core modules_to_save peft_type peft_version qalora_group_size r rank_pattern revision
    target_modules task_type use_rslora""".split()
)
_BEGINNINGS = (None, True, False, "gaussian", "orthogonal", "eva")  # that leave the base as it is


def check_adapter(folder: Path) -> None:
    """Check that an adapter's files can be read and that it is LoRA as it is merged here."""
    check_files(folder)
    if not (folder / _WEIGHTS).is_file():
        raise not_merged(folder, f"it has no {_WEIGHTS}, and only safetensors is read")
    read_header(folder / _WEIGHTS)
    config = read_json(folder / ADAPTER_CONFIG)
    foreign = sorted(key for key, value in config.items() if value and key not in _HARMLESS)
    if foreign:
        raise not_merged(folder, f"it uses {', '.join(foreign)!s:.80}")
    if config.get("init_lora_weights") not in _BEGINNINGS:
        raise not_merged(folder, f"it began as {config['init_lora_weights']!s:.40}")
    alpha = config.get("lora_alpha")
    if not isinstance(alpha, int | float) or not math.isfinite(alpha):
        raise not_merged(folder, f"expected a number as lora_alpha, got {alpha!s:.40}")


def merge(network: PreTrainedModel, folder: Path) -> list[str]:
    """Merge a checked adapter into the weights of a network; return notes about it.

    W + B A alpha / r (Hu et al. 2021, arXiv:2106.09685, section 4.1), or alpha / sqrt(r) where it
    is rank-stabilised (Kalajdzievski 2023, arXiv:2312.03732).

    Raises:
        BrokenCheckpointError: tensors of another kind or shape than those of the network.
    """
    config, tensors = read_json(folder / ADAPTER_CONFIG), load_file(folder / _WEIGHTS)
    parameters = dict(network.named_parameters(remove_duplicate=False))
    left_out = []
    for name, tensor in tensors.items():
        path, _, kind = name.removeprefix("base_model.model.").partition(".lora_")
        if kind == "B.weight" and name.replace("lora_B", "lora_A") in tensors:
            continue
        parameter_name = _named(
            parameters, f"{path}.weight" if kind else path, network.base_model_prefix
        )
        if not parameter_name and not kind:  # a classifier, say, that the base has not
            left_out.append(path)
            continue
        other = tensors.get(name.replace("lora_A", "lora_B")) if kind == "A.weight" else None
        if not parameter_name or (kind and other is None):
            raise not_merged(folder, f"nothing is known to take {name!r:.100}")
        owner = network.get_submodule(parameter_name.rpartition(".")[0])
        weight = parameters[parameter_name]
        change = tensor if other is None else _change(tensor, other, config, owner)
        if change is None or change.shape != weight.shape:
            raise not_merged(folder, f"{name!r:.100} does not fit a weight of {[*weight.shape]}")
        change = change.to(weight.device)
        new = change if other is None else weight.float() + change
        # A new parameter: tied weights stay as they are elsewhere, and mapped files too.
        merged = nn.Parameter(new.to(weight.dtype), requires_grad=False)
        setattr(owner, parameter_name.rpartition(".")[2], merged)
    notes = [f"An adapter is merged into {config['base_model_name_or_path']!r:.80}."]
    if left_out:
        notes.append(
            f"The adapter has weights for {', '.join(left_out)!s:.100}, which its base model "
            "does not have: they are left out."
        )
    return notes


def _named(parameters: dict[str, Any], path: str, prefix: str) -> str:
    """Return the name of a parameter in a network with a head or without one; "" if none."""
    tried = (path, f"{prefix}.{path}", path.removeprefix(f"{prefix}."))
    return next((name for name in tried if name in parameters), "")


def _change(a: Tensor, b: Tensor, config: dict[str, Any], owner: nn.Module) -> Tensor | None:
    """Return what is added to a weight, from A (r, in) and B (out, r); None for other shapes."""
    if a.ndim != 2 or b.ndim != 2 or len(a) != b.shape[1] or not len(a):
        return None
    rank = math.sqrt(len(a)) if config.get("use_rslora") else len(a)
    change = (b.float() @ a.float()) * (config["lora_alpha"] / rank)
    return change.T if isinstance(owner, Conv1D) else change
