"""Name, folder or Hub id -> AttentionModel, with every check that an untrusted checkpoint needs."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from mha_viz.checkpoints.building import building_lock, first_line, load_config, load_tokenizer
from mha_viz.checkpoints.catalog import ModelInfo, find_model
from mha_viz.checkpoints.checkpoint_files import check_files
from mha_viz.checkpoints.config_file import read_config, read_json
from mha_viz.checkpoints.device import device_of
from mha_viz.checkpoints.trial import check_on_trial
from mha_viz.checkpoints.weight_files import check_weight_files
from mha_viz.core.names import DTYPES, Device
from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, BrokenCheckpointError, translating

_HEADS = (  # how a class of the checkpoint's config ends -> the loader for it
    ("ForMaskedLM", AutoModelForMaskedLM),
    ("ForPreTraining", AutoModelForMaskedLM),
    ("ForCausalLM", AutoModelForCausalLM),
    ("LMHeadModel", AutoModelForCausalLM),
    ("ForConditionalGeneration", AutoModelForSeq2SeqLM),
)


def load(
    name: str, *, device: Device | str = "auto", dtype: str = "float32", download: bool = True
) -> AttentionModel:
    """Load a model with our attention inside.

    Args:
        name: a shipped name ("tiny-bert", "tiny-gpt2", "tiny-llama"), a local folder, or a Hub id.
        device: "auto" takes cuda, then mps, then cpu.
        dtype: "float32", "bfloat16" or "float16", of the weights while running; records are
            float32 always.
        download: whether a Hub id that is not cached may be fetched.

    Returns:
        AttentionModel; its `notes` say what a user should know about it.

    Raises:
        ModelNotFoundError: nowhere to be found, or no network.
        UnsafeCheckpointError: would need pickle or foreign code, or claims absurd sizes.
        BrokenCheckpointError: damaged weights, NaN in them, or no tokenizer.
        AttentionUnavailableError: the family gives no attention weights.
        ArgumentError: an unknown device or dtype.
    """
    if dtype not in DTYPES:
        raise ArgumentError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}.")
    target = device_of(device)
    info = check(name, download=download)
    if info.source == "shipped":
        return _model(info.path, info.name, target, dtype)
    with translating(partial(_broken, info.name)):
        return _model(info.path, info.name, target, dtype)


def check(name: str, *, download: bool = True) -> ModelInfo:
    """Check a model's files, and build it on trial unless it comes with the package.

    `load` does this first. Files that have passed once pass at once.
    """
    info = find_model(name, download=download)
    stamp = check_files(info.path)
    family = read_config(info.path)["model_type"]
    if (info.path / "generation_config.json").is_file():
        read_json(info.path / "generation_config.json")
    check_weight_files(info.path)
    if info.source != "shipped":
        check_on_trial(info.path, stamp, family)
    return info


def _model(folder: Path, name: str, device: torch.device, dtype: str) -> AttentionModel:
    with building_lock():
        config = load_config(folder)
        network, notes = _network(folder, config, getattr(torch, dtype))
        tokenizer = load_tokenizer(folder, config)
    check_stacks(network, name)
    check_finite(network, name)
    network.eval().requires_grad_(False).to(device)
    notes += tokenizer_notes(tokenizer, config)
    return AttentionModel(network, tokenizer, name=name, notes=tuple(notes))


def tokenizer_notes(
    tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig
) -> tuple[str, ...]:
    """Return a note where a tokenizer has more tokens than its model; none otherwise."""
    size = getattr(config.get_text_config(), "vocab_size", None)
    if not isinstance(size, int) or len(tokenizer) <= size:
        return ()
    return (
        f"The tokenizer knows {len(tokenizer):,} tokens but the model only {size:,}: they do "
        "not belong together. Text with an unknown token is refused.",
    )


def _broken(name: str, error: BaseException) -> BrokenCheckpointError:
    """Return the error for whatever an untrusted checkpoint makes the libraries raise."""
    return BrokenCheckpointError(
        f"{name} cannot be used: its config does not describe a model that works "
        f"({type(error).__name__}: {first_line(str(error))})."
    )


def auto_class(architecture: str) -> Any:
    """Return transformers' loader for a class name; AutoModel where no head is known."""
    return next((auto for end, auto in _HEADS if architecture.endswith(end)), AutoModel)


def _network(
    folder: Path, config: PreTrainedConfig, dtype: torch.dtype
) -> tuple[PreTrainedModel, list[str]]:
    """Load the network with our attention, or with eager attention where ours is refused."""
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
        "ignore_mismatched_sizes": True,  # only then does the library say which ones
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
    """Say what weights missing from the file mean for someone who looks at attention."""
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


def check_stacks(network: PreTrainedModel, name: str) -> None:
    """Check that what its config calls an encoder-decoder has both stacks."""
    body = network.base_model
    if network.config.is_encoder_decoder and body in (body.get_encoder(), body.get_decoder()):
        raise BrokenCheckpointError(
            f"config.json of {name} says that it is an encoder-decoder, but the "
            f"{network.config.model_type} family is one stack: set is_encoder_decoder to false."
        )


def check_finite(network: PreTrainedModel, name: str) -> None:
    """Check that all weights are finite numbers."""
    for key, weight in network.state_dict().items():
        if weight.is_floating_point() and not torch.isfinite(weight).all():
            raise BrokenCheckpointError(
                f"{name} has NaN or infinite numbers in {key}: every picture of it would be "
                "meaningless. The training has diverged, or the file is damaged."
            )


def wrap(network: Any, tokenizer: Any, name: str = "") -> AttentionModel:
    """Make a transformers model in memory ready to trace, measure and change.

    The network is used as it is, not copied: it is put into evaluation mode, and where its family
    allows it takes its attention from our function from now on. A short text is run both ways
    first, and where they do not agree the family's own weights are read instead (see `backend`
    of `AttentionModel`). Call `network.train()` before you train on.

    Args:
        network: a transformers `PreTrainedModel`, built with any attention, on any device. Its
            weights are not shared with a training that goes on meanwhile: trace between two steps.
        tokenizer: the transformers tokenizer that belongs to it.
        name: what captions call it; if not given, where it came from or the name of its class.

    Returns:
        AttentionModel.

    Raises:
        ArgumentError: not a transformers model, or not a tokenizer.
        BrokenCheckpointError: NaN or infinite weights.
        AttentionUnavailableError: its family gives no attention weights.

    >>> import transformers
    >>> import mha_viz as mv
    >>> sizes = transformers.BertConfig(hidden_size=20, num_hidden_layers=2, num_attention_heads=5)
    >>> model = mv.wrap(transformers.BertModel(sizes), mv.load("tiny-bert").tokenizer)
    >>> model.name, model.trace("The cat sat").pattern.shape
    ('BertModel', torch.Size([2, 5, 5, 5]))
    """
    if not isinstance(network, PreTrainedModel):
        adapted = " Call its merge_and_unload() first." if hasattr(network, "peft_config") else ""
        raise ArgumentError(
            "network must be a transformers model (PreTrainedModel), got "
            f"{_kind(network)}.{adapted}"
        )
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ArgumentError(
            "tokenizer must be the transformers tokenizer of this network "
            f"(PreTrainedTokenizerBase), got {_kind(tokenizer)}."
        )
    name = name or network.config.name_or_path or type(network).__name__
    check_stacks(network, name)
    check_finite(network, name)
    return AttentionModel(
        network, tokenizer, name=name, notes=tokenizer_notes(tokenizer, network.config)
    )


def _kind(given: Any) -> str:
    return f"the text {given!r:.40}" if isinstance(given, str) else type(given).__name__
