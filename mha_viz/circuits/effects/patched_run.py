"""One run of texts under many settings, in which heads and modules give other values.

Every effect is measured by such a run. Each setting has the same texts and changes of its own: a
cell that another run gave, a path's end that reads another query, a sum of edges that are kept, or
heads that do not act.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.engine.layer_activations import ModuleProxy
from mha_viz.engine.probe import Changed, HeadEdits, Probe
from mha_viz.engine.projections import repeat_heads
from mha_viz.prediction.replay import ReplayingPass

Input = Literal["query", "key", "value"]
INPUTS: tuple[Input, ...] = ("query", "key", "value")


@dataclass(frozen=True, eq=False)
class Patch:
    """A change of what one site of a layer gives.

    Args:
        layer: its number.
        site: "z" of all heads; their "inputs"; or the path of a module.
        change: of "z" from z to z, (setting * row, head, position, width). Of "inputs" from query,
            key and value to the same, or to z, for which no attention is computed then. Of a module
            from the module and its arguments to its output.
        call: which of the module's calls in this run, where several layers share it.
    """

    layer: int
    site: str
    change: Callable[..., Any]
    call: int = 0


def run_patched(
    run: ReplayingPass,
    n_settings: int,
    patches: Sequence[Patch],
    start: int = 0,
    probe: Probe | None = None,
) -> Float[Tensor, "setting target d_vocab"]:
    """Compute the logits of texts under each setting, with some sites patched.

    Layers before `start` are replayed as the run has recorded them. `probe` keeps what else is
    wanted; gradients flow to what the patches give.
    """
    probe, modules = probe or Probe(()), defaultdict[str, dict[int, Callable[..., Any]]](dict)
    probe.edits = head_edits(patches, start)
    for patch in patches:
        if patch.site not in ("z", "inputs"):
            modules[patch.site][patch.call] = patch.change
    get = run.model.network.get_submodule
    inside = {
        path: _Patched(get(path), changes=changes, calls=count())
        for path, changes in modules.items()
    }
    return run.logits(n_settings, probe, start, inside)


def head_edits(patches: Sequence[Patch], start: int = 0) -> HeadEdits:
    """Gather the patches of heads for a run whose first layer is `start`."""
    changes = defaultdict[tuple[str, int], list[Callable[..., Any]]](list)
    for patch in patches:
        changes[patch.site, patch.layer - start].append(patch.change)

    def inputs(layer: int, *tensors: Tensor) -> tuple[Tensor, ...] | Tensor:
        for change in changes["inputs", layer]:
            tensors = change(*tensors)
        return tensors

    def of_z(layer: int, z: Tensor, pattern: Tensor | None, *_: Any) -> Changed:
        for change in changes["z", layer]:
            z = change(z)
        return z, pattern

    return HeadEdits(change=of_z, inputs=inputs)


def patch_cells(
    layer: int,
    site: str,
    value: Float[Tensor, "#setting #row #head #position width"],
    mask: Bool[Tensor, "setting #row #head #position"],
    call: int = 0,
) -> Patch:
    """Make the patch by which masked cells of an activation take other values.

    `site` is "z", one of `INPUTS`, or the path of a module whose output it is, or the first of
    several. Heads that share a key head get one each; only those of masked heads change.
    """

    def patched(activation: Tensor, *shape: int) -> Tensor:
        by_setting = activation.reshape(len(mask), -1, *shape)
        cells = torch.where(mask[..., None].to(by_setting.device), value.to(by_setting), by_setting)
        return cells.reshape(activation.shape)

    def patched_inputs(*tensors: Tensor) -> tuple[Tensor, ...]:
        by_head = [repeat_heads(tensor, tensors[0].shape[1]) for tensor in tensors]
        changed = by_head[INPUTS.index(site)]
        by_head[INPUTS.index(site)] = patched(changed, *changed.shape[1:])
        return tuple(by_head)

    def patched_output(module: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        output, shape = module(*args, **kwargs), (1, *value.shape[-2:])
        if isinstance(output, tuple):
            return (patched(output[0], *shape), *output[1:])
        return patched(output, *shape)

    if site in INPUTS:
        return Patch(layer, "inputs", patched_inputs)
    if site == "z":
        return Patch(layer, site, lambda z: patched(z, *z.shape[1:]))
    return Patch(layer, site, patched_output, call)


class _Patched(ModuleProxy):
    """A module some of whose calls are changed, by their number."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        change = self.changes.get(next(self.calls))
        if change is None:
            return self.original(*args, **kwargs)
        return change(self.original, *args, **kwargs)
