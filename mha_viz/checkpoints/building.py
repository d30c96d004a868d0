"""Config, tokenizer and size of a network, found by transformers from untrusted files."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
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

from mha_viz.checkpoints.thread_dtype import thread_dtype
from mha_viz.checkpoints.tokenizer_limits import check_built, check_reading
from mha_viz.core.amounts import of_bytes
from mha_viz.core.available_memory import available
from mha_viz.errors import (
    BrokenCheckpointError,
    LoadError,
    OutOfMemoryError,
    UnsafeCheckpointError,
    translating,
)

_HEADS = (  # how a class of the checkpoint's config ends -> the loader for it
    ("ForMaskedLM", AutoModelForMaskedLM),
    ("ForPreTraining", AutoModelForMaskedLM),
    ("ForCausalLM", AutoModelForCausalLM),
    ("LMHeadModel", AutoModelForCausalLM),
    ("ForConditionalGeneration", AutoModelForSeq2SeqLM),
    ("ForSequenceClassification", AutoModelForSequenceClassification),
    ("ForTokenClassification", AutoModelForTokenClassification),
    ("ForQuestionAnswering", AutoModelForQuestionAnswering),
    ("ForQuestionAnsweringSimple", AutoModelForQuestionAnswering),
)
_CLASSIFIERS = tuple(auto for _, auto in _HEADS[-4:])
_BUILDING = threading.Lock()


@contextmanager
def building_lock() -> Iterator[None]:
    """Build networks inside of this, one at a time: see `thread_dtype`.

    The log of transformers is silenced, too: a model's notes say what matters.
    """
    log = logging.getLogger("transformers")
    with _BUILDING, thread_dtype():
        level, bars = log.level, is_progress_bar_enabled()
        log.setLevel(logging.ERROR)
        disable_progress_bar()
        try:
            yield
        finally:
            log.setLevel(level)
            if bars:
                enable_progress_bar()


def load_config(folder: Path) -> PreTrainedConfig:
    """Read config.json as its family does."""

    def refused(error: BaseException) -> LoadError:
        message = str(error)
        if "trust_remote_code" in message or "custom code" in message:
            return UnsafeCheckpointError(
                f"{folder.name} needs code of its own to be run, which is never done. Only "
                "families that transformers itself knows can be loaded."
            )
        return BrokenCheckpointError(
            f"config.json of {folder.name} is not one that transformers can use: "
            f"{first_line(message)}"
        )

    with translating(refused):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        # It would name a file of weights to be read instead of those that were checked.
        config.transformers_weights = None
        config.get_text_config()  # every later step needs it
        return config


def auto_class(architecture: str) -> Any:
    """Return transformers' loader for a class name; AutoModel where no head is known."""
    return next((auto for end, auto in _HEADS if architecture.endswith(end)), AutoModel)


def loader_of(config: PreTrainedConfig) -> Any:
    """Return the loader for the class that a checkpoint's config names first."""
    name = (getattr(config, "architectures", None) or [""])[0]
    named_class = auto_class(name)
    if not any(type(config) in loader._model_mapping for loader in (named_class, AutoModel)):
        return _own_class(name, config) or named_class
    # Encoder-decoders that classify read one text twice; their attention is that of the body.
    is_pair = named_class in _CLASSIFIERS and config.is_encoder_decoder
    return AutoModel if is_pair else named_class


def _own_class(name: str, config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """Return the class of that name, where it is of this config: no loader takes Emu3's part."""
    model_class: Any = getattr(transformers, name, None) if name.isidentifier() else None
    is_model = isinstance(model_class, type) and issubclass(model_class, PreTrainedModel)
    return model_class if is_model and model_class.config_class is type(config) else None


def load_tokenizer(folder: Path, config: PreTrainedConfig) -> PreTrainedTokenizerBase:
    """Build the tokenizer and check that it reads a plain text."""

    def unusable(error: BaseException) -> BrokenCheckpointError:
        if (folder / "preprocessor_config.json").is_file():
            return BrokenCheckpointError(
                f"{folder.name} reads images or sound, and has no usable tokenizer: texts are read "
                "here. The weights of any network: `with mv.capture(network) as taken`, then "
                "taken.record(names of its patches)."
            )
        return BrokenCheckpointError(
            f"{folder.name} has no usable tokenizer ({first_line(str(error))}): expected "
            "tokenizer.json, vocab.txt, vocab.json with merges.txt, or a SentencePiece model "
            "beside config.json."
        )

    with translating(unusable):  # every broken file raises an exception of its own kind here
        tokenizer = AutoTokenizer.from_pretrained(
            folder, config=config, local_files_only=True, trust_remote_code=False
        )
        check_built(folder.name, tokenizer)
        # Where files are missing, transformers makes one that knows special tokens and no other.
        if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
            raise ValueError("its vocabulary is missing")
        if not tokenizer("a test", add_special_tokens=False)["input_ids"]:
            raise ValueError("it turns text into nothing")
        check_reading(folder.name, tokenizer)
        return tokenizer


def first_line(message: str) -> str:
    """Return the first line of another library's message, and the next where it ends with ":"."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if lines and lines[0].endswith(":"):
        lines[0] += " " + " ".join(lines[1:2])
    return (lines[0] if lines else "no reason given")[:300]


_SIZES = (
    "num_hidden_layers num_attention_heads num_key_value_heads hidden_size head_dim "
    "max_position_embeddings"
).split()


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The size of a network, by its config and the precision of its weights alone."""

    n_parameters: int  # numbers in its weights; weights that layers share count once
    weights: int  # bytes of the weights
    n_ctx: int  # tokens of the longest text; 0 where the config does not say
    # bytes that each token of a long text leaves in a record: z, query, key and value of every
    # head, in float32; query heads may share keys and values.
    token: int


def model_size(config: PreTrainedConfig, n_parameters: int, dtype: torch.dtype) -> ModelSize:
    """Return the size of a network of so many parameters, by its config and their precision.

    >>> from transformers import GPT2Config
    >>> model_size(GPT2Config(), 124_439_808, torch.bfloat16)
    ModelSize(n_parameters=124439808, weights=248879616, n_ctx=1024, token=147456)
    """
    n_layers, n_heads, n_kv_heads, d_model, d_head, n_ctx = (
        _size(config.get_text_config(), name) for name in _SIZES
    )
    width = d_head or d_model // max(n_heads, 1)
    token = 4 * n_layers * width * 2 * (n_heads + (n_kv_heads or n_heads))
    return ModelSize(n_parameters, n_parameters * dtype.itemsize, n_ctx, token)


def _size(config: PreTrainedConfig, name: str) -> int:
    """Return a size; the largest of all layers' where they differ (Gemma 4's heads)."""
    try:
        return getattr(config, name, None) or 0
    except RuntimeError:  # "a per-layer attribute"
        return max(getattr(layer, name, None) or 0 for layer in config.per_layer_config)


def check_room(name: str, n_bytes: int, device: torch.device) -> None:
    """Refuse weights that a device cannot hold; OutOfMemoryError says what is needed and free."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available()
    if free is not None and n_bytes > free:
        raise OutOfMemoryError(
            f"{name} needs {of_bytes(n_bytes)} for its weights, and {device} has {of_bytes(free)} "
            "free: choose bfloat16 in place of float32, another device or a smaller model."
        )
