"""The MLPs between heads: where a family keeps them, and stand-ins that freeze their outputs."""

from typing import Any

from torch import nn

from mha_viz.engine.model import AttentionModel
from mha_viz.engine.module_proxies import CallRecorder, ModuleProxy
from mha_viz.errors import AttentionUnavailableError
from mha_viz.prediction.replay import repeated

# By which attribute a layer is known, and where in it stands what gives the MLP's output (before a
# norm that takes the residual in, as BERT has it).
_MLPS = {
    "intermediate": "output.dense",
    "ffn_output": "ffn_output",
    "mlp": "mlp",
    "ffn": "ffn",
    "fc2": "fc2",
}


class FrozenMlps:
    """The MLPs of a model, recorded in one run and frozen in others."""

    def __init__(self, model: AttentionModel) -> None:
        self.model = model
        self._paths = _mlp_paths(model)  # of each layer; ALBERT's are all the same one
        self._calls: dict[str, list[tuple[Any, Any]]] = {path: [] for path in self._paths}

    def recorders(self) -> dict[str, nn.Module]:
        """Make stand-ins that record each MLP's output."""
        get = self.model.network.get_submodule
        return {path: CallRecorder(get(path), calls=calls) for path, calls in self._calls.items()}

    def frozen(self, start: int, n_settings: int) -> dict[str, nn.Module]:
        """Make stand-ins that give the recorded outputs, whatever their input.

        `start` is the first layer that is run; each row is repeated `n_settings` times in the
        batch.
        """
        calls = sum(map(len, self._calls.values()))
        if calls != len(self._paths):
            raise _unknown(self.model)
        outputs: dict[str, list[Any]] = {}
        for layer, path in enumerate(self._paths):
            turn = self._paths[:layer].count(path)
            if layer >= start:
                given = repeated(self._calls[path][turn][1], n_settings)
                outputs.setdefault(path, []).append(given)
        get = self.model.network.get_submodule
        return {path: _FrozenOutput(get(path), outputs=iter(one)) for path, one in outputs.items()}


class _FrozenOutput(ModuleProxy):
    """A stand-in that gives one output after the other."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return next(self.outputs)


def _mlp_paths(model: AttentionModel) -> list[str]:
    """Find for every layer the path of the module that gives its MLP's output."""
    modules = dict(model.network.named_modules())
    path_of = {module: path for path, module in modules.items()}
    found = []
    for layer in model.layers():
        path = path_of[layer.module]
        while path and not any(f"{path}.{mark}" in modules for mark in _MLPS):
            path = path.rpartition(".")[0]
        marks = [inner for mark, inner in _MLPS.items() if f"{path}.{mark}" in modules]
        if not path or f"{path}.{marks[0]}" not in modules:
            raise _unknown(model)
        found.append(f"{path}.{marks[0]}")
    return found


def _unknown(model: AttentionModel) -> AttentionUnavailableError:
    return AttentionUnavailableError(
        f"{model.name} keeps the MLPs between its heads in a way that is not known here, so that "
        "a path cannot be cut out of the rest: take a BERT, GPT-2, Llama or one of their relatives."
    )
