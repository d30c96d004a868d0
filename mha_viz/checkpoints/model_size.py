"""The size of a model before it is loaded: parameters, weights, and records of its texts."""

from dataclasses import dataclass

import torch
from transformers import AutoModel, PreTrainedConfig

from mha_viz.checkpoints.building import loader_of
from mha_viz.core.amounts import of_bytes
from mha_viz.core.available_memory import available
from mha_viz.errors import OutOfMemoryError

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


def model_size(config: PreTrainedConfig, dtype: torch.dtype) -> ModelSize:
    """Return the size of the network that a config describes, laid out without storage.

    >>> from transformers import GPT2Config
    >>> model_size(GPT2Config(architectures=["GPT2LMHeadModel"]), torch.bfloat16)
    ModelSize(n_parameters=124439808, weights=248879616, n_ctx=1024, token=147456)
    """
    loader = loader_of(config)
    with torch.device("meta"):
        try:
            network = loader.from_config(config, trust_remote_code=False)
        except ValueError:  # the family has no such head
            network = AutoModel.from_config(config, trust_remote_code=False)
    n_parameters = sum(weight.numel() for weight in network.parameters())
    n_layers, n_heads, n_kv_heads, d_model, d_head, n_ctx = (
        getattr(config.get_text_config(), name, None) or 0 for name in _SIZES
    )
    width = d_head or d_model // max(n_heads, 1)
    token = 4 * n_layers * width * 2 * (n_heads + (n_kv_heads or n_heads))
    return ModelSize(n_parameters, n_parameters * dtype.itemsize, n_ctx, token)


def check_room(name: str, n_bytes: int, device: torch.device) -> None:
    """Refuse weights that the memory of a device cannot hold.

    Raises OutOfMemoryError: with the bytes that are needed, and those that there are.
    """
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available()
    if free is not None and n_bytes > free:
        raise OutOfMemoryError(
            f"{name} needs {of_bytes(n_bytes)} for its weights, and {device} has {of_bytes(free)} "
            "free: choose bfloat16 in place of float32, another device or a smaller model."
        )
