"""What stands between heads, the MLPs: where a family keeps them, and how one run holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from mha_viz.engine.model import AttentionModel
from mha_viz.engine.stand_ins import Listening, StandIn
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


class HeldMlps:
    """The MLPs of a model; once `listening` has heard one run, `held` gives their outputs again.

    Args:
        model: a model of one stack, through our attention function.

    Raises:
        AttentionUnavailableError: they stand under names that are not known here.
    """

    def __init__(self, model: AttentionModel) -> None:
        self.model = model
        self._paths = _mlp_paths(model)  # of each layer; ALBERT's are all the same one
        self._heard: dict[str, list[tuple[Any, Any]]] = {path: [] for path in self._paths}

    def listening(self) -> dict[str, nn.Module]:
        """Stand-ins that note what each MLP gives in the run that is to be held."""
        get = self.model.network.get_submodule
        return {path: Listening(get(path), heard) for path, heard in self._heard.items()}

    def held(self, start: int, n_settings: int) -> dict[str, nn.Module]:
        """Stand-ins that give what was heard, whatever they are given.

        Args:
            start: the first layer that is run.
            n_settings: how many times each row is repeated in the batch.

        Raises:
            AttentionUnavailableError: the run did not call each layer's MLP once.
        """
        calls = sum(map(len, self._heard.values()))
        if calls != len(self._paths):
            raise _unknown(self.model)
        outputs: dict[str, list[Any]] = {}
        for layer, path in enumerate(self._paths):
            turn = self._paths[:layer].count(path)
            if layer >= start:
                given = repeated(self._heard[path][turn][1], n_settings)
                outputs.setdefault(path, []).append(given)
        get = self.model.network.get_submodule
        return {path: _Held(get(path), given) for path, given in outputs.items()}


class _Held(StandIn):
    """Gives one output after the other, whatever it is called with."""

    def __init__(self, original: nn.Module, outputs: Sequence[Any]) -> None:
        super().__init__(original)
        self.__dict__["left"] = iter(outputs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return next(self.left)


def _mlp_paths(model: AttentionModel) -> list[str]:
    """Of every layer, the path of the module that gives its MLP's output."""
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
