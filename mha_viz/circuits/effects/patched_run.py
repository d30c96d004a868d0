"""One run of texts under many settings, in which chosen activations take other values.

Each setting has the same texts and changes of its own. A text patched in one cell, the end of a
path that reads another query, and a circuit whose other heads are replaced are all such runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.engine.layer_activations import ModuleProxy
from mha_viz.engine.probe import Changed, HeadEdits, Probe
from mha_viz.engine.projections import repeat_heads
from mha_viz.engine.run import OnLayer
from mha_viz.prediction.replay import ReplayingPass

Input = Literal["query", "key", "value"]
INPUTS: tuple[Input, ...] = ("query", "key", "value")


@dataclass(frozen=True, eq=False)
class Patch:
    """An activation of one layer that takes other values where a mask says so."""

    layer: int
    site: str  # "z", "query", "key" or "value" of heads; else the path of the module that gives it
    value: Float[Tensor, "#setting #row #head #position width"]
    mask: Bool[Tensor, "setting #row #head #position"]
    call: int = 0  # which of the module's calls, where several layers share it

    def of(self, activation: Tensor) -> Tensor:
        """Replace the masked cells; a module's output may have any axes."""
        shape: tuple[int, ...] = (1, *self.value.shape[-2:])
        if self.site in (*INPUTS, "z"):
            shape = tuple(activation.shape[1:])
        whole = activation.reshape(len(self.mask), -1, *shape)
        mask, value = self.mask[..., None].to(whole.device), self.value.to(whole)
        return torch.where(mask, value, whole).reshape(activation.shape)


def run_patched(
    run: ReplayingPass,
    n_settings: int,
    patches: Sequence[Patch],
    start: int = 0,
    on_layer: OnLayer | None = None,
) -> Float[Tensor, "setting target d_vocab"]:
    """Compute the logits of texts under each setting, with some activations replaced.

    Layers before `start` are replayed as the run has recorded them.
    """

    def patched(site: str, layer: int, tensor: Tensor) -> Tensor:
        for patch in patches:
            if (patch.site, patch.layer) == (site, layer + start):
                tensor = patch.of(tensor)
        return tensor

    def inputs(layer: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        if not any(patch.layer == layer + start and patch.site in INPUTS for patch in patches):
            return tensors
        # Heads that share a key head are given one each, of which only the patched one changes.
        by_head = (repeat_heads(tensor, tensors[0].shape[1]) for tensor in tensors)
        both = zip(INPUTS, by_head, strict=True)
        return tuple(patched(name, layer, tensor) for name, tensor in both)

    def change(layer: int, z: Tensor, pattern: Tensor | None, *_: Any) -> Changed:
        return patched("z", layer, z), pattern

    get = run.model.network.get_submodule
    modules = {
        patch.site: _PatchedOutput(get(patch.site), patch=patch, calls=count())
        for patch in patches
        if patch.site not in (*INPUTS, "z")
    }
    probe = Probe((), on_layer, edits=HeadEdits(change=change, inputs=inputs))
    return run.logits(n_settings, probe, start, modules)


class _PatchedOutput(ModuleProxy):
    """A module of which one call's output is patched, the first of several if it gives more."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = self.original(*args, **kwargs)
        if next(self.calls) != self.patch.call:
            return output
        if isinstance(output, tuple):
            return (self.patch.of(output[0]), *output[1:])
        return self.patch.of(output)
