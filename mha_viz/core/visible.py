"""Which keys a query may see: what tells a masked cell from a weight that happens to be 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool
from torch import Tensor

if TYPE_CHECKING:
    from mha_viz.core.record import AttentionRecord


def visible_keys(record: AttentionRecord, layer: int) -> Bool[Tensor, "query key"]:
    """What the queries of one layer may attend to.

    A causal record hides the future. A query that gives no key any weight in any head sees nothing,
    unless its weights were taken away by leaving tokens out. A key that does have weight is
    visible, whatever the record says of itself.

    Args:
        record: any record.
        layer: counted from 0; negative numbers count from the end.

    >>> import mha_viz as mv
    >>> record = mv.load("tiny-gpt2").trace("The cat sat")
    >>> visible_keys(record, 0)[:3, :3].int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    weighed = record.pattern[layer].amax(0) > 0
    seeing = weighed.any(-1)
    if record.removed is not None:
        seeing |= (record.removed[layer] > 0).any(0)
    allowed = torch.ones_like(weighed)
    if record.causal and not record.is_cross:
        allowed = allowed.tril()
    return weighed | (allowed & seeing[:, None])


def visible_everywhere(record: AttentionRecord) -> Bool[Tensor, "layer query key"]:
    """`visible_keys` of every layer.

    Args:
        record: any record.
    """
    return torch.stack([visible_keys(record, layer) for layer in range(record.n_layers)])
