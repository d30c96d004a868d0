"""Name, folder or Hub id -> AttentionModel, with every check that an untrusted checkpoint needs.

Knows checkpoint files and transformers' loaders; must not know text, pictures or screens.
"""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
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

from mha_viz.capture.attention_function import IMPLEMENTATION, register
from mha_viz.capture.catalog import find_model, read_config
from mha_viz.capture.model import AttentionModel
from mha_viz.errors import (
    ArgumentError,
    AttentionUnavailableError,
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
# Buffers and heads that a checkpoint rightly lacks: they play no part in attention.
_HARMLESS = ("position_ids", "pooler", "lm_head", "cls.", "predictions", "attn.bias", "masked_bias")

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
    _check_weight_files(info.path)
    config = _config(info.path)
    network, notes = _network(info.path, config, DTYPES[dtype])
    _check_finite(network, info.name)
    tokenizer = _tokenizer(info.path, config)
    network.eval().requires_grad_(False).to(target)
    size = getattr(config.get_text_config(), "vocab_size", None)
    if isinstance(size, int) and len(tokenizer) > size:
        notes.append(
            f"The tokenizer knows {len(tokenizer):,} tokens but the model only {size:,}: they do "
            "not belong together. Text with an unknown token is refused."
        )
    return AttentionModel(network, tokenizer, name=info.name, notes=tuple(notes))


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


def _check_weight_files(folder: Path) -> None:
    """At least one safetensors file, and every one readable to its end."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickled = [p.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.pkl")
                   for p in folder.glob(pattern)]  # fmt: skip
        if pickled:
            raise UnsafeCheckpointError(
                f"{folder.name} holds its weights in {pickled[0]}, a format that can run code "
                "when it is read. Only safetensors is loaded: convert it with "
                "save_pretrained(..., safe_serialization=True) where you trust it."
            )
        raise BrokenCheckpointError(f"{folder.name} has no *.safetensors file with weights.")
    for file in files:
        try:
            with safe_open(file, framework="pt") as weights:
                weights.keys()
        except (SafetensorError, OSError) as error:
            raise BrokenCheckpointError(
                f"{file.name} in {folder.name} cannot be read as safetensors ({error}): the file "
                "is damaged or incomplete. Fetch it again."
            ) from error


def _config(folder: Path) -> PreTrainedConfig:
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever a hostile config makes the library raise
        message = str(error)
        if "trust_remote_code" in message or "custom code" in message:
            raise UnsafeCheckpointError(
                f"{folder.name} needs code of its own to be run, which is never done. Only "
                "families that transformers itself knows can be loaded."
            ) from error
        raise BrokenCheckpointError(
            f"config.json of {folder.name} is not one that transformers can use: "
            f"{_first_line(message)}"
        ) from error


def _network(
    folder: Path, config: PreTrainedConfig, dtype: torch.dtype
) -> tuple[PreTrainedModel, list[str]]:
    """The network with our attention, or with eager attention where the family has no interface."""
    _check_size(folder, config)
    architecture = (getattr(config, "architectures", None) or [""])[0]
    loader = next((auto for end, auto in _HEADS if architecture.endswith(end)), AutoModel)
    try:
        return _from_pretrained(loader, folder, config, dtype)
    except ValueError as error:
        if loader is AutoModel or "Unrecognized configuration class" not in str(error):
            raise BrokenCheckpointError(f"{folder.name}: {_first_line(str(error))}") from error
        return _from_pretrained(AutoModel, folder, config, dtype)
    except Exception as error:
        raise BrokenCheckpointError(
            f"The weights of {folder.name} do not fit its config: {_first_line(str(error))}"
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
    }
    with _quiet():
        try:
            # A family outside the interface refuses the name before any weight is read.
            network, info = loader.from_pretrained(
                folder, config=copy.deepcopy(config), attn_implementation=IMPLEMENTATION, **options
            )
        except (ValueError, KeyError) as error:
            if "attn_implementation" not in str(error) and "attention" not in str(error).lower():
                raise
            network, info = loader.from_pretrained(
                folder, config=copy.deepcopy(config), attn_implementation="eager", **options
            )
    return network, _loading_notes(info)


def _loading_notes(info: dict[str, Any]) -> list[str]:
    """What the loader's report means for someone who looks at attention."""
    notes = []
    mismatched = [str(key) for key in info.get("mismatched_keys") or ()]
    missing = sorted(
        key for key in info.get("missing_keys") or ()
        if not any(part in key for part in _HARMLESS)
    )  # fmt: skip
    if missing or mismatched:
        names = missing + mismatched
        notes.append(
            f"{len(names)} weight tensor(s) are missing from the checkpoint and were newly "
            f"initialised at random (such as {names[0]}): heads that depend on them mean nothing."
        )
    return notes


def _check_size(folder: Path, config: PreTrainedConfig) -> None:
    """Refuse a config that would take far more memory than its weights explain.

    The network is laid out without storage first; numbers in a config cost nothing until then.
    """
    stored = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    try:
        with torch.device("meta"), _quiet():
            network = AutoModel.from_config(config, trust_remote_code=False)
        n_parameters = sum(p.numel() for p in network.parameters())
    except Exception as error:
        raise BrokenCheckpointError(
            f"config.json of {folder.name} describes no model that can be built: "
            f"{_first_line(str(error))}"
        ) from error
    # The densest storage in use is a byte a weight; weights may be shared or newly initialised.
    if n_parameters > 4 * stored + 50_000_000:
        raise UnsafeCheckpointError(
            f"config.json of {folder.name} describes {n_parameters:,} weights, but its files hold "
            f"only {stored:,} bytes: they do not belong together."
        )


def _check_finite(network: PreTrainedModel, name: str) -> None:
    for key, weight in network.state_dict().items():
        if weight.is_floating_point() and not torch.isfinite(weight).all():
            raise BrokenCheckpointError(
                f"{name} has NaN or infinite numbers in {key}: every picture of it would be "
                "meaningless. The training has diverged, or the file is damaged."
            )


def _tokenizer(folder: Path, config: PreTrainedConfig) -> PreTrainedTokenizerBase:
    try:
        with _quiet():
            tokenizer = AutoTokenizer.from_pretrained(
                folder, config=config, local_files_only=True, trust_remote_code=False
            )
        if not tokenizer("a test", add_special_tokens=False)["input_ids"]:
            raise ValueError("it turns text into nothing (its vocabulary is missing)")
    except Exception as error:  # every broken file raises its own kind here
        raise BrokenCheckpointError(
            f"{folder.name} has no usable tokenizer ({_first_line(str(error))}): expected "
            "tokenizer.json, vocab.txt, vocab.json with merges.txt, or a SentencePiece model "
            "beside config.json."
        ) from error
    return tokenizer


def _first_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return (lines[0] if lines else "no reason given")[:300]


class _quiet:
    """Transformers' warnings and bars kept off the terminal; the notes tell what matters."""

    def __enter__(self) -> None:
        self.logger = logging.getLogger("transformers")
        self.level = self.logger.level
        self.logger.setLevel(logging.ERROR)

    def __exit__(self, *exc: object) -> None:
        self.logger.setLevel(self.level)


__all__ = ["DTYPES", "AttentionUnavailableError", "load"]
