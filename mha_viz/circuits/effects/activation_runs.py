"""Runs of a text in which some activations, cell by cell, are those of another run."""

from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.circuits.attribution.layout import layer_and_mlp_paths, unknown_layout
from mha_viz.circuits.effects.patched_run import patch_cells, run_patched
from mha_viz.engine.layer_activations import CallRecorder
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.prediction.replay import ReplayingPass
from mha_viz.prediction.targets import PredictionTargets

Part = Literal["residual", "attention", "mlp", "heads", "heads_by_position"]
PARTS: tuple[Part, ...] = get_args(Part)


def pooled_axis(part: Part) -> int | None:
    """Return which axis of (layer, head, position) lies whole in each cell of a part, if any."""
    return {"heads": 2, "heads_by_position": None}.get(part, 1)


class ActivationRuns:
    """The run that is patched into, and runs in which some cells are those of the other run.

    An activation is (head, position, width), with one head for what is no head's. `logits` and
    `other_logits` are of both runs, (target, d_vocab). `differs` marks the cells that may have an
    effect: (layer, head, position), where one axis is 1 if a cell has all of it.
    """

    differs: Bool[Tensor, "layer head position"]

    def __init__(
        self, model: AttentionModel, base: PredictionTargets, other: PredictionTargets, part: Part
    ) -> None:
        path_list = {"residual": 0, "mlp": 1}.get(part)
        self._sites = ["z"] * model.n_layers
        if path_list is not None:
            self._sites = layer_and_mlp_paths(model)[path_list]
        self._model = model
        with torch.inference_mode(False), torch.no_grad():
            self._pass = ReplayingPass(model, base)
            self.logits, before = self._recorded(self._pass)
            self.other_logits, self._other = self._recorded(ReplayingPass(model, other))
            self._replays = self._pass.record(lambda _: None)
        changed = [(a != b).any(-1) for a, b in zip(before, self._other, strict=True)]
        differs = torch.stack([layer.cpu() for layer in changed])
        if model.causal:  # nobody reads what comes behind the last place
            differs[..., max(base.positions[0]) + 1 :] = False
        pooled = pooled_axis(part)
        self.differs = differs if pooled is None else differs.any(pooled, keepdim=True)

    def _recorded(self, run: ReplayingPass) -> tuple[Tensor, list[Tensor]]:
        """Run a text; return its logits and each layer's activations."""
        get, sites, probe = self._model.network.get_submodule, self._sites, Probe(("z",))
        calls: dict[str, list[Any]] = {path: [] for path in sites if path != "z"}
        recorders = {
            path: CallRecorder(get(path), calls=outputs) for path, outputs in calls.items()
        }
        logits = run.logits(1, probe, inside=recorders)[0]
        if not calls:
            return logits, [layer[0] for layer in probe.tensors["z"]]
        if sum(map(len, calls.values())) != len(sites):
            raise unknown_layout(self._model, "its layers do not run one after the other")
        outputs = [calls[path][sites[:i].count(path)][1] for i, path in enumerate(sites)]
        first = (output[0] if isinstance(output, tuple) else output for output in outputs)
        n = len(run.targets.rows[0].input_ids)
        return logits, [output.reshape(1, n, -1) for output in first]

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
        start, site = layer if self._replays else 0, self._sites[layer]
        call = self._sites[start:layer].count(site)
        patch = patch_cells(layer, site, self._other[layer][None, None], mask[:, None], call)
        with torch.inference_mode(False), torch.no_grad():
            return run_patched(self._pass, len(mask), [patch], start)
