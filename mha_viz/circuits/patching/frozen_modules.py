"""Modules between heads that give what they gave in the clean run, whatever they are given."""

from typing import Any

from torch import nn
from transformers.pytorch_utils import Conv1D

from mha_viz.circuits.decompose.layout import layer_path, mlp_of
from mha_viz.engine.layer_activations import CallRecorder, ModuleProxy
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError
from mha_viz.prediction.replay import repeated


class FrozenModules:
    """The MLPs and output projections of a model, recorded in one run and frozen in others."""

    def __init__(self, model: AttentionModel) -> None:
        self.model = model
        paths = {module: path for path, module in model.network.named_modules()}
        self._mlps: list[str] = []  # of each layer; ALBERT's are all the same one
        # W_O, and what computes for the MLP alone: the first projection of BERT's stands beside it.
        self._others: list[list[str]] = []
        for layer in model.layers():
            whole, attention = layer_path(model, paths[layer.module]), set(layer.module.modules())
            mlp = mlp_of(model, whole, attention)
            around = set(model.network.get_submodule(whole).modules()) - attention
            others = {*(around - {*mlp.modules()}), layer.find_output()}
            self._mlps.append(paths[mlp])
            self._others.append(
                [paths[one] for one in others if isinstance(one, nn.Linear | Conv1D)]
            )
        every = {*self._mlps, *(path for some in self._others for path in some)}
        self._calls: dict[str, list[tuple[Any, Any]]] = {path: [] for path in every}

    def recorders(self) -> dict[str, nn.Module]:
        """Make stand-ins that record each module's output."""
        get = self.model.network.get_submodule
        return {path: CallRecorder(get(path), calls=calls) for path, calls in self._calls.items()}

    def frozen(
        self, start: int, n_settings: int, sender: int | None = None
    ) -> dict[str, nn.Module]:
        """Make stand-ins that give the recorded outputs, whatever their input.

        `start` is the first layer that is run; each row is repeated `n_settings` times in the
        batch. With a sender's layer the output projections of all others are frozen, too.
        """
        if sum(len(self._calls[path]) for path in {*self._mlps}) != len(self._mlps):
            raise AttentionUnavailableError(
                f"{self.model.name} keeps the MLPs between its heads in a way that is not known "
                "here, so that a path cannot be cut out of the rest: take a BERT, GPT-2, Llama or "
                "one of their relatives."
            )
        outputs: dict[str, list[Any]] = {}
        for layer in range(start, len(self._mlps)):
            path = self._mlps[layer]
            turn = self._mlps[:layer].count(path)
            given = self._calls[path][turn][1]
            outputs.setdefault(path, []).append(repeated(given, n_settings))
            for path in self._others[layer] if sender is not None else ():
                # One row, which is added to each row of the stream; None: what it makes itself.
                given = None if layer == sender else repeated(self._calls[path][turn][1], 1)
                outputs.setdefault(path, []).append(given)
        get = self.model.network.get_submodule
        return {path: _Frozen(get(path), outputs=iter(one)) for path, one in outputs.items()}


class _Frozen(ModuleProxy):
    """A module that gives one of its `outputs` after the other; where it is None, its own."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the next output."""
        output = next(self.outputs)
        return self.original(*args, **kwargs) if output is None else output
