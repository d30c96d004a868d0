"""MLPs and output projections frozen at the outputs of one run, whatever they read in others."""

from collections.abc import Collection
from functools import partial
from typing import Any

from torch import nn
from transformers.pytorch_utils import Conv1D

from mha_viz.circuits.attribution.layout import layer_and_mlp_paths
from mha_viz.circuits.effects.patched_run import Patch
from mha_viz.engine.layer_activations import CallRecorder
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError
from mha_viz.prediction.replay import repeated


class FrozenModules:
    """The MLPs and output projections of a model, recorded in one run and frozen in others."""

    def __init__(self, model: AttentionModel) -> None:
        self.model = model
        paths = {module: path for path, module in model.network.named_modules()}
        layers, self._mlps = layer_and_mlp_paths(model)  # ALBERT's are all the same one
        # W_O, and what computes for the MLP alone: the first projection of BERT's stands beside it.
        self._others: list[list[str]] = []
        get = model.network.get_submodule
        for layer, path, mlp in zip(model.layers(), layers, self._mlps, strict=True):
            inside = {*layer.module.modules(), *get(mlp).modules()}
            outside = {*get(path).modules()} - inside | {layer.find_output()}
            linear = [module for module in outside if isinstance(module, nn.Linear | Conv1D)]
            self._others.append([paths[module] for module in linear])
        every = {*self._mlps, *(path for some in self._others for path in some)}
        self._calls: dict[str, list[tuple[Any, Any]]] = {path: [] for path in every}

    def recorders(self) -> dict[str, nn.Module]:
        """Make stand-ins that record each module's output."""
        get = self.model.network.get_submodule
        return {path: CallRecorder(get(path), calls=calls) for path, calls in self._calls.items()}

    def patches(self, start: int, n_settings: int, senders: Collection[int] = ()) -> list[Patch]:
        """Make the patches by which modules give the recorded outputs, whatever their input.

        `start` is the first layer that is run; each row is repeated `n_settings` times in the
        batch. With the senders' layers the output projections of all others are frozen, too.
        """
        if not self.model.attends_in_all_layers:
            raise AttentionUnavailableError(
                f"{self.model.name} has layers without attention, which answer to what passes them,"
                ' so that no path is direct: measure total effects by path_effects(way="total").'
            )
        if sum(len(self._calls[path]) for path in {*self._mlps}) != len(self._mlps):
            raise AttentionUnavailableError(
                f"{self.model.name} keeps the MLPs between its heads in a way that is not known "
                "here, so that a path cannot be cut out of the rest: take a BERT, GPT-2, Llama or "
                "one of their relatives."
            )
        patches = []
        for layer in range(start, len(self._mlps)):
            mlp = self._mlps[layer]
            call, turn = self._mlps[start:layer].count(mlp), self._mlps[:layer].count(mlp)
            frozen = {mlp: n_settings}
            if senders and layer not in senders:
                # One row, which is added to each row of the stream.
                frozen |= dict.fromkeys(self._others[layer], 1)
            for path, times in frozen.items():
                output = repeated(self._calls[path][turn][1], times)
                patches.append(Patch(layer, path, partial(_give, output), call))
        return patches


def _give(output: Any, *_: Any, **__: Any) -> Any:
    return output
