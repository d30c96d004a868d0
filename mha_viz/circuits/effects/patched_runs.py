"""Runs of a text in which some activations, cell by cell, are those of another run."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.circuits.attribution.layout import layer_and_mlp_paths, unknown_layout
from mha_viz.engine.layer_activations import CallRecorder, ModuleProxy
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Changed, HeadEdits, Probe
from mha_viz.prediction.replay import ReplayingPass
from mha_viz.prediction.targets import PredictionTargets

Part = Literal["residual", "attention", "mlp", "heads", "heads_by_position"]
PARTS: tuple[Part, ...] = get_args(Part)


def pooled_axis(part: Part) -> int | None:
    """Return which axis of (layer, head, position) lies whole in each cell of a part, if any."""
    return {"heads": 2, "heads_by_position": None}.get(part, 1)


class PatchedRuns:
    """The run that is patched into, and runs in which some cells are those of the other run.

    An activation is (head, position, width), with one head for what is no head's. `logits` and
    `other_logits` are of both runs, (target, d_vocab). `differs` marks the cells that may have an
    effect: (layer, head, position), where one axis is 1 if a cell has all of it.
    """

    differs: Bool[Tensor, "layer head position"]

    def __init__(
        self, model: AttentionModel, base: PredictionTargets, other: PredictionTargets, part: Part
    ) -> None:
        whole = {"residual": 0, "mlp": 1}.get(part)
        self._paths = [] if whole is None else layer_and_mlp_paths(model)[whole]
        self._model = model
        with torch.inference_mode(False), torch.no_grad():
            self._pass = ReplayingPass(model, base)
            self.logits, before = self._recorded(self._pass)
            self.other_logits, self._other = self._recorded(ReplayingPass(model, other))
            self._replays = self._pass.record(lambda _: None)
        changed = [(a != b).any(-1) for a, b in zip(before, self._other, strict=True)]
        differs = torch.stack([layer.cpu() for layer in changed])
        if model.causal:  # nobody reads what comes behind the last place
            differs[..., max(base.places[0]) + 1 :] = False
        pooled = pooled_axis(part)
        self.differs = differs if pooled is None else differs.any(pooled, keepdim=True)

    def _recorded(self, run: ReplayingPass) -> tuple[Tensor, list[Tensor]]:
        """Run a text; return its logits and each layer's activations."""
        get, paths = self._model.network.get_submodule, self._paths
        calls: dict[str, list[Any]] = {path: [] for path in paths}
        recorders = {path: CallRecorder(get(path), calls=made) for path, made in calls.items()}
        probe = Probe(("z",))
        logits = run.logits(1, probe, inside=recorders)[0]
        if not paths:
            return logits, [layer[0] for layer in probe.kept["z"]]
        if sum(map(len, calls.values())) != len(paths):
            raise unknown_layout(self._model, "its layers do not run one after the other")
        turns = [paths[:layer].count(path) for layer, path in enumerate(paths)]
        made = [calls[path][turn][1] for path, turn in zip(paths, turns, strict=True)]
        first = (one[0] if isinstance(one, tuple) else one for one in made)
        n = len(run.targets.rows[0].input_ids)
        return logits, [one.reshape(1, n, -1) for one in first]

    def batches(self) -> Iterator[tuple[int, NDArray[np.intp], Bool[Tensor, "cell head position"]]]:
        """Yield a layer, some of its cells by number, and a mask of each of them."""
        for layer, differs in enumerate(self.differs):
            every = differs.flatten().nonzero()[:, 0]
            for cells in every.split(self._pass.n_settings) if len(every) else ():
                each = torch.nn.functional.one_hot(cells, differs.numel()).bool()
                yield layer, cells.numpy(), each.unflatten(1, differs.shape)

    def patched(
        self, layer: int, mask: Bool[Tensor, "setting head position"]
    ) -> Float[Tensor, "setting target d_vocab"]:
        """Compute the logits with the masked cells of a layer patched, a setting each."""
        start = layer if self._replays else 0
        patch = _Patch(mask[..., None], self._other[layer], layer - start)
        with torch.inference_mode(False), torch.no_grad():
            if not self._paths:
                probe = Probe((), edits=HeadEdits(change=patch.z))
                return self._pass.logits(len(mask), probe, start)
            path = self._paths[layer]
            turn = 0 if self._replays else self._paths[:layer].count(path)
            original = self._model.network.get_submodule(path)
            proxy = _PatchedOutput(original, patch=patch, now=(i == turn for i in count()))
            return self._pass.logits(len(mask), Probe(()), start, {path: proxy})


@dataclass(frozen=True)
class _Patch:
    """Cells of one layer that take another run's value."""

    mask: Bool[Tensor, "setting #head #position 1"]
    other: Float[Tensor, "head position width"]
    layer: int

    def z(self, layer: int, z: Tensor, pattern: Tensor | None, *_: Any) -> Changed:
        return (self.of(z) if layer == self.layer else z), pattern

    def of(self, activation: Tensor) -> Tensor:
        """Patch an activation, whatever axes the family has it in."""
        mask, other = self.mask.to(activation.device), self.other.to(activation)
        whole = activation.reshape(len(mask), *other.shape)
        return torch.where(mask, other, whole).reshape(activation.shape)


class _PatchedOutput(ModuleProxy):
    """A module of which one call's output is patched, the first of several if it gives more."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = self.original(*args, **kwargs)
        if not next(self.now):
            return output
        if isinstance(output, tuple):
            return (self.patch.of(output[0]), *output[1:])
        return self.patch.of(output)
