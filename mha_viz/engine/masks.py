"""What a run let its queries see: read from its masks, or from the weights where none were seen."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def visible(bias: Tensor) -> Tensor:
    """Which keys a query may see, by what was added to its scores.

    Args:
        bias: mask and position bias, of any shape: bool (True = may attend), or floats of which
            those near their dtype's lowest forbid.
    """
    return bias if bias.dtype == torch.bool else bias > torch.finfo(bias.dtype).min / 2


def visible_to_any_head(bias: Tensor | None) -> Bool[Tensor, "batch query key"] | None:
    """Which keys a query of a layer may see in one of its heads; None where nothing was added.

    Args:
        bias: (batch, head, query, key), what was added to the layer's scores.
    """
    return None if bias is None else visible(bias).any(1)


def inside_window(
    weights: Float[Tensor, "head query key"], ordinary: Bool[Tensor, "query key"]
) -> Bool[Tensor, "query key"]:
    """What a layer whose mask is not at hand let its queries see, by weights of its own.

    A sliding window hides every key from some distance on: a weight of exactly 0 there in all rows
    of all heads. Zeros elsewhere say nothing, since a softmax rounds to 0 as well.

    Args:
        weights: of one layer, by query and key of one text.
        ordinary: what the queries may see at most.
    """
    used = (weights != 0).any(0)
    offsets = torch.arange(used.shape[0])[:, None] - torch.arange(used.shape[1])
    reached = offsets[used.cpu()]
    return ordinary & (offsets <= reached.max()) & (offsets >= reached.min())


def unless_ordinary(
    layers: Sequence[Bool[Tensor, "query key"] | None], ordinary: Bool[Tensor, "query key"]
) -> Bool[Tensor, "layer query key"] | None:
    """What each layer lets a query see, as a record holds it: None where all are as ordinary.

    Args:
        layers: for each what it lets a query see; None is the ordinary.
        ordinary: every key, or those up to the query's own.
    """
    found = [ordinary if layer is None else layer for layer in layers]
    if all(torch.equal(layer, ordinary) for layer in found):
        return None
    return torch.stack(found)
