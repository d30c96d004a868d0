"""Transfer of a model to another process: its parts, and the model built of them again."""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mha_viz.checkpoints.building import building_lock
from mha_viz.checkpoints.untrained_copy import built, not_built
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import translating


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
