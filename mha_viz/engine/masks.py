"""The keys that a run let its queries see, read from its masks or, without masks, its weights."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.attention.attention import visible


def visible_to_any_head(bias: Tensor | None) -> Bool[Tensor, "batch query key"] | None:
    """Return the keys that a query sees in any head; None where no mask was added."""
    return None if bias is None else visible(bias).any(1)


def infer_window(
    weights: Float[Tensor, "head query key"], ordinary: Bool[Tensor, "query key"]
) -> Bool[Tensor, "query key"]:
    """Infer from a layer's weights what it let its queries see, where no mask is at hand.

    A sliding window hides every key from some distance on: a weight of exactly 0 there in all rows
    of all heads. Zeros elsewhere say nothing, since a softmax rounds to 0 as well.
    """
    used = (weights != 0).any(0)
    offsets = torch.arange(used.shape[0])[:, None] - torch.arange(used.shape[1])
    reached = offsets[used.cpu()]
    return ordinary & (offsets <= reached.max()) & (offsets >= reached.min())


def none_if_ordinary(
    layers: Sequence[Bool[Tensor, "query key"] | None], ordinary: Bool[Tensor, "query key"]
) -> Bool[Tensor, "layer query key"] | None:
    """Stack the layers' masks as a record holds them: None where all are as ordinary."""
    found = [ordinary if layer is None else layer for layer in layers]
    if all(torch.equal(layer, ordinary) for layer in found):
        return None
    return torch.stack(found)
