"""A model taken apart into what can be sent to another process, and put together there."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mha_viz.checkpoints.building import one_at_a_time
from mha_viz.checkpoints.untrained_copy import built, not_built
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import translating


@dataclass(frozen=True)
class Parts:
    """What a model is made of. A network itself cannot travel: a run leaves its hooks in it.

    Args:
        config: of the network, with the attention that it uses.
        weights: every parameter and buffer by name, on the CPU.
        like: the network's class.
        tokenizer: its own.
        name: of the model.
        n_ctx: the longest text.
    """

    config: PreTrainedConfig
    weights: dict[str, Tensor]
    like: type[PreTrainedModel]
    tokenizer: PreTrainedTokenizerBase
    name: str
    n_ctx: int

    @property
    def n_bytes(self) -> int:
        """How much its weights take."""
        return sum(weight.nbytes for weight in self.weights.values())


def taken_apart(model: AttentionModel) -> Parts:
    """A model's parts.

    Args:
        model: any; it stays as it is.
    """
    network = model.network
    weights = {name: weight.detach().cpu() for name, weight in network.state_dict().items()}
    config = copy.deepcopy(network.config)
    return Parts(config, weights, type(network), model.tokenizer, model.name, model.n_ctx)


def put_together(parts: Parts, device: torch.device | str = "cpu") -> AttentionModel:
    """The model again.

    Args:
        parts: of `taken_apart`.
        device: where it is to run.

    Raises:
        ArgumentError: its config alone does not build such a network.
    """
    dtype = next(weight.dtype for weight in parts.weights.values() if weight.is_floating_point())
    with one_at_a_time(), torch.random.fork_rng(devices=[]):
        network = built(parts.like, parts.config, parts.name, dtype)
    with translating(lambda error: not_built(parts.like, parts.name)):
        network.load_state_dict(parts.weights)
    network.eval().requires_grad_(False).to(device)
    model = AttentionModel(network, parts.tokenizer, name=parts.name)
    model.n_ctx = parts.n_ctx
    return model
