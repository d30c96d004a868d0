"""Networks built of a model's config again: untrained copies, and copies in another process."""

import copy
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mha_viz.checkpoints.building import auto_class, building_lock
from mha_viz.checkpoints.layout import budget
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, translating


def untrained_copy(model: AttentionModel, seed: int = 0) -> AttentionModel:
    """Build a model of the same architecture with new random weights, as before its training.

    What a head of it scores, it scores by architecture and chance alone (positions, the mask, the
    token embeddings' inner products); what a trained head scores beyond that was learned.

    `seed` is that of the weights, 0 or more; torch's own random numbers go on as if nothing had
    been drawn. The copy is on the same device, in the same dtype, with the same tokenizer; the
    model stays as it is. Raises UnsafeCheckpointError, BrokenCheckpointError: the config no longer
    fits the model. ArgumentError: a negative seed, or a network that its config alone does not
    build. Source: random weights as a control, Zhang and Bowman 2018. Each family's own
    initialisation is taken, as training would have begun with.

    >>> import mha_viz as mv
    >>> untrained_copy(mv.load("tiny-gpt2")).name
    'tiny-gpt2 (random weights)'
    """
    if seed < 0:
        raise ArgumentError(f"seed must be 0 or more, got {seed}.")
    network = model.network
    config = copy.deepcopy(network.config)  # building writes to it
    stored = sum(weight.nbytes for weight in network.parameters())
    with building_lock(), torch.random.fork_rng(devices=[]), budget(model.name, config, stored):
        torch.default_generator.manual_seed(seed)  # not manual_seed, which seeds the GPUs, too
        untrained = built(type(network), config, model.name, model.dtype)
    shapes = [
        {name: w.shape for name, w in module.named_parameters()} for module in (network, untrained)
    ]
    if shapes[0] != shapes[1]:
        raise not_built(type(network), model.name)
    untrained.eval().requires_grad_(False).to(model.device)
    note = f"The weights are random (seed {seed}): what this model shows was not learned."
    name = f"{model.name} (random weights)"
    return AttentionModel(untrained, model.tokenizer, name=name, notes=(note,))


def built(
    like: type[PreTrainedModel], config: PreTrainedConfig, name: str, dtype: torch.dtype
) -> PreTrainedModel:
    """Build a network by its config alone, with new weights, within `building_lock`."""
    options = dict(attn_implementation=config._attn_implementation, trust_remote_code=False)
    network = auto_class(like.__name__).from_config(config, dtype=dtype, **options)
    if type(network) is not like:
        raise not_built(like, name)
    return cast(PreTrainedModel, network)


def not_built(like: type[PreTrainedModel], name: str) -> ArgumentError:
    """Return the error for a network that its config does not describe."""
    return ArgumentError(f"{name} is a {like.__name__}, which its config alone does not build.")


@dataclass(frozen=True)
class ModelParts:
    """The parts of a model. A network itself cannot be sent: a run leaves its hooks in it."""

    config: PreTrainedConfig
    weights: dict[str, Tensor]
    like: type[PreTrainedModel]
    tokenizer: PreTrainedTokenizerBase
    name: str
    n_ctx: int

    @property
    def n_bytes(self) -> int:
        """The size of its weights."""
        return sum(weight.nbytes for weight in self.weights.values())


def disassemble(model: AttentionModel) -> ModelParts:
    """Take a model apart; the model stays as it is."""
    network = model.network
    weights = {name: weight.detach().cpu() for name, weight in network.state_dict().items()}
    config = copy.deepcopy(network.config)
    return ModelParts(config, weights, type(network), model.tokenizer, model.name, model.n_ctx)


def assemble(parts: ModelParts, device: torch.device | str = "cpu") -> AttentionModel:
    """Build the model again on a device."""
    dtype = next(weight.dtype for weight in parts.weights.values() if weight.is_floating_point())
    with building_lock(), torch.random.fork_rng(devices=[]):
        network = built(parts.like, parts.config, parts.name, dtype)
    with translating(lambda error: not_built(parts.like, parts.name)):
        network.load_state_dict(parts.weights)
    network.eval().requires_grad_(False).to(device)
    model = AttentionModel(network, parts.tokenizer, name=parts.name)
    model.n_ctx = parts.n_ctx
    return model
