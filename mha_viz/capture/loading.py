"""Name, folder or Hub id -> AttentionModel, with every check that an untrusted checkpoint needs.

Knows checkpoint files and transformers' loaders; must not know text, pictures or screens.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils.logging import (
    disable_progress_bar,
    enable_progress_bar,
    is_progress_bar_enabled,
)

from mha_viz.capture.attention_function import IMPLEMENTATION, register
from mha_viz.capture.budget import check_size, first_line
from mha_viz.capture.catalog import find_model, read_config
from mha_viz.capture.model import AttentionModel
from mha_viz.capture.weight_files import check_weight_files
from mha_viz.errors import (
    ArgumentError,
    BrokenCheckpointError,
    UnsafeCheckpointError,
)

Device = Literal["auto", "cpu", "cuda", "mps"]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_HEADS = (  # how a class of the checkpoint's config ends -> the loader for it
    ("ForMaskedLM", AutoModelForMaskedLM),
    ("ForPreTraining", AutoModelForMaskedLM),
    ("ForCausalLM", AutoModelForCausalLM),
    ("LMHeadModel", AutoModelForCausalLM),
    ("ForConditionalGeneration", AutoModelForSeq2SeqLM),
)
_BUILDING = threading.Lock()

register()


def load(
    name: str, *, device: Device | str = "auto", dtype: str = "float32", download: bool = True
) -> AttentionModel:
    """Load a model with our attention inside.

    Args:
        name: a shipped name ("tiny-bert", "tiny-gpt2"), a local folder, or a Hub id.
        device: "auto" takes cuda, then mps, then cpu.
        dtype: "float32", "bfloat16" or "float16", of the weights while running; records are
            float32 always.
        download: whether a Hub id that is not cached may be fetched.

    Returns:
        AttentionModel; its `notes` say what the user should be told.

    Raises:
        ModelNotFoundError: nowhere to be found, or no network.
        UnsafeCheckpointError: would need pickle or foreign code, or claims absurd sizes.
        BrokenCheckpointError: damaged weights, NaN in them, or no tokenizer.
        AttentionUnavailableError: the family gives no attention weights.
        ArgumentError: an unknown device or dtype.
    """
    if dtype not in DTYPES:
        raise ArgumentError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}.")
    target = _device(device)
    info = find_model(name, download=download)
    read_config(info.path)
    check_weight_files(info.path)
    with one_at_a_time():
        config = _config(info.path)
        network, notes = _network(info.path, config, DTYPES[dtype])
        tokenizer = _tokenizer(info.path, config)
    _check_finite(network, info.name)
    network.eval().requires_grad_(False).to(target)
    size = getattr(config.get_text_config(), "vocab_size", None)
    if isinstance(size, int) and len(tokenizer) > size:
        notes.append(
            f"The tokenizer knows {len(tokenizer):,} tokens but the model only {size:,}: they do "
            "not belong together. Text with an unknown token is refused."
        )
    return AttentionModel(network, tokenizer, name=info.name, notes=tuple(notes))


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Networks are built in here: transformers sets torch's default dtype and its log level then.

    Quietly, too: what it would tell about is told by a model's notes.
    """
    with _BUILDING, _quiet():
        yield


def auto_class(architecture: str) -> Any:
    """Transformers' loader for a class of that name; the plain network where no head is known."""
    return next((auto for end, auto in _HEADS if architecture.endswith(end)), AutoModel)


def _device(device: str) -> torch.device:
    present = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if device == "auto":
        return torch.device(next(name for name, there in present.items() if there))
    if device.split(":")[0] not in present:
        raise ArgumentError(f"device must be auto, cpu, cuda or mps, got {device!r}.")
    if not present[device.split(":")[0]]:
        raise ArgumentError(f"This machine has no {device}: choose auto or cpu.")
    return torch.device(device)


def _config(folder: Path) -> PreTrainedConfig:
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        # It would name a file of weights to be read instead of those that were checked.
        config.transformers_weights = None
        return config
    except Exception as error:  # whatever a hostile config makes the library raise
        message = str(error)
        if "trust_remote_code" in message or "custom code" in message:
            raise UnsafeCheckpointError(
                f"{folder.name} needs code of its own to be run, which is never done. Only "
                "families that transformers itself knows can be loaded."
            ) from error
        raise BrokenCheckpointError(
            f"config.json of {folder.name} is not one that transformers can use: "
            f"{first_line(message)}"
        ) from error


def _network(
    folder: Path, config: PreTrainedConfig, dtype: torch.dtype
) -> tuple[PreTrainedModel, list[str]]:
    """The network with our attention, or with eager attention where the family has no interface."""
    stored = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    check_size(folder.name, config, stored)
    loader = auto_class((getattr(config, "architectures", None) or [""])[0])
    try:
        return _from_pretrained(loader, folder, config, dtype)
    except BrokenCheckpointError:
        raise
    except ValueError as error:
        if loader is AutoModel or "Unrecognized configuration class" not in str(error):
            raise BrokenCheckpointError(f"{folder.name}: {first_line(str(error))}") from error
        return _from_pretrained(AutoModel, folder, config, dtype)
    except Exception as error:
        raise BrokenCheckpointError(
            f"The weights of {folder.name} do not fit its config: {first_line(str(error))}"
        ) from error


def _from_pretrained(
    loader: Any, folder: Path, config: PreTrainedConfig, dtype: torch.dtype
) -> tuple[PreTrainedModel, list[str]]:
    options = {
        "local_files_only": True,
        "trust_remote_code": False,
        "use_safetensors": True,
        "dtype": dtype,
        "output_loading_info": True,
        "ignore_mismatched_sizes": True,  # it says which ones only so
    }
    try:
        # A family outside the interface refuses the name before any weight is read.
        network, info = loader.from_pretrained(
            folder, config=copy.deepcopy(config), attn_implementation=IMPLEMENTATION, **options
        )
    except (ValueError, KeyError) as error:
        # Some say so in words, some look the name up in a table of their own.
        if IMPLEMENTATION not in str(error) and "attention" not in str(error).lower():
            raise
        network, info = loader.from_pretrained(
            folder, config=copy.deepcopy(config), attn_implementation="eager", **options
        )
    for key, stored, expected in info["mismatched_keys"]:
        raise BrokenCheckpointError(
            f"The weights of {folder.name} do not fit its config: {key} has shape {tuple(stored)} "
            f"in the file and {tuple(expected)} by the config."
        )
    return network, _loading_notes(network, set(info["missing_keys"]))


def _loading_notes(network: PreTrainedModel, missing: set[str]) -> list[str]:
    """What it means for someone who looks at attention that the file lacked these."""
    parameters = {name for name, _ in network.named_parameters()}  # buffers are computed anew
    new = sorted(name for name in missing & parameters if "pooler" not in name.split("."))
    prefix = "" if network.base_model is network else f"{network.base_model_prefix}."
    body = [name for name in new if name.startswith(prefix)]
    head = [name for name in new if not name.startswith(prefix)]
    notes = []
    if body:
        notes.append(
            f"{len(body)} weight tensor(s) are missing from the checkpoint and were newly "
            f"initialised at random (such as {body[0]}): heads that depend on them mean nothing."
        )
    if head:
        notes.append(
            f"The checkpoint has no weights for the layer that predicts tokens ({head[0]}): "
            "its predictions mean nothing. Attention does not depend on them."
        )
    return notes


def _check_finite(network: PreTrainedModel, name: str) -> None:
    for key, weight in network.state_dict().items():
        if weight.is_floating_point() and not torch.isfinite(weight).all():
            raise BrokenCheckpointError(
                f"{name} has NaN or infinite numbers in {key}: every picture of it would be "
                "meaningless. The training has diverged, or the file is damaged."
            )


def _tokenizer(folder: Path, config: PreTrainedConfig) -> PreTrainedTokenizerBase:
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, config=config, local_files_only=True, trust_remote_code=False
        )
        # Where files are missing, transformers makes one that knows special tokens and no other.
        if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
            raise ValueError("its vocabulary is missing")
        if not tokenizer("a test", add_special_tokens=False)["input_ids"]:
            raise ValueError("it turns text into nothing")
    except Exception as error:  # every broken file raises its own kind here
        raise BrokenCheckpointError(
            f"{folder.name} has no usable tokenizer ({first_line(str(error))}): expected "
            "tokenizer.json, vocab.txt, vocab.json with merges.txt, or a SentencePiece model "
            "beside config.json."
        ) from error
    return tokenizer


class _quiet:
    """Transformers' warnings and bars kept off the terminal; the notes tell what matters."""

    def __enter__(self) -> None:
        self.logger = logging.getLogger("transformers")
        self.level, self.bars = self.logger.level, is_progress_bar_enabled()
        self.logger.setLevel(logging.ERROR)
        disable_progress_bar()

    def __exit__(self, *exc: object) -> None:
        self.logger.setLevel(self.level)
        if self.bars:
            enable_progress_bar()


__all__ = ["DTYPES", "load"]
