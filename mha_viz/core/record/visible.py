"""The keys that a query may see: masked cells, apart from weights that happen to be 0."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from mha_viz.core.attention.scoring import Tiles, row_blocks
from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.metrics.baselines import allowed_words
from mha_viz.core.record.attention_record import AttentionRecord


def parts(record: AttentionRecord) -> tuple[Int[Tensor, "query"], Int[Tensor, "key"]]:
    """Return how many tokens each place of either axis was, before words were merged."""
    queries, keys = (
        torch.tensor([token.parts for token in axis]) for axis in (record.tokens, record.key_tokens)
    )
    return queries, keys


def allowed_keys(record: AttentionRecord) -> Bool[Tensor, "layer query key"] | None:
    """Return what each layer's mask lets a query see, of words where they were merged.

    None where that is everything or, in a causal record, all but the future; and where `patterns`
    are computed, which tell it themselves.
    """
    if record.allowed is None or not record.merged:
        return record.allowed
    return allowed_words(record.allowed, *parts(record))


def visible_keys(
    record: AttentionRecord, layer: int, rows: slice = slice(None)
) -> Bool[Tensor, "row key"]:
    """Return the keys that the queries of one layer, or some of them, may attend to.

    That is what the run's mask allowed, where the record carries it; else a causal record hides the
    future. A query that gives no key any weight in any head sees nothing, unless its weights were
    taken away by leaving tokens out. A key that does have weight is visible, whatever the record
    says of itself.

    >>> import mha_viz as mv
    >>> record = mv.load("tiny-gpt2").trace("The cat sat")
    >>> visible_keys(record, 0)[:3, :3].int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    is_visible = record.patterns.visible_keys(layer, rows)
    return _seen_in_weights(record, layer)[rows] if is_visible is None else is_visible


def _seen_in_weights(record: AttentionRecord, layer: int) -> Bool[Tensor, "query key"]:
    """Return which keys are visible by a record's mask and by its weights, which it has."""
    pattern = record.pattern[layer]
    allowed_by_layer = allowed_keys(record)
    allowed = (
        torch.ones_like(pattern[0], dtype=torch.bool)
        if allowed_by_layer is None
        else allowed_by_layer[layer]
    )
    if allowed_by_layer is None and record.causal and not record.is_cross:
        allowed = allowed.tril()
    if allowed.all() and (pattern[0].amax(-1) > 0).all():  # mostly so: the other heads add nothing
        return allowed
    weighed = pattern.amax(0) > 0
    seeing = weighed.any(-1)
    if record.removed is not None:
        seeing |= (record.removed[layer] > 0).any(0)
    return weighed | (allowed & seeing[:, None])


def distinct_masks(
    record: AttentionRecord,
    mask: Callable[[AttentionRecord, int], Bool[Tensor, "query key"]] = visible_keys,
) -> list[tuple[list[int], Bool[Tensor, "query key"]]]:
    """Return each different mask with its layers: most models have one or two of them.

    >>> import mha_viz as mv
    >>> [layers for layers, _ in distinct_masks(mv.load("tiny-gpt2").trace("The cat sat"))]
    [[0, 1, 2, 3]]
    """
    groups: list[tuple[list[int], Tensor]] = []
    for layer in range(record.n_layers):
        check_cancelled()
        is_visible = mask(record, layer)
        same = next(
            (layers for layers, group_mask in groups if torch.equal(group_mask, is_visible)), None
        )
        if same is None:
            groups.append(([layer], is_visible))
        else:
            same.append(layer)
    return groups


def visible_tiles(record: AttentionRecord, side: int) -> Bool[Tensor, "layer row column"]:
    """Return in which cells of `record.tiles(side)` any query sees any key."""
    pictures = []
    for layer in range(record.n_layers):
        tiles = Tiles((1, *record.shape[2:]), side)
        if record.patterns.visible_keys(layer, slice(0, 1)) is None:
            tiles.collect(tiles.reduce(0, visible_keys(record, layer)[None].float()))
        else:
            for rows in row_blocks(record.shape[2], 4 * record.shape[3]):
                is_visible = record.patterns.visible_keys(layer, rows)
                assert is_visible is not None
                tiles.collect(tiles.reduce(rows.start, is_visible[None].float()))
        pictures.append(tiles.pooled[0] > 0)
    return torch.stack(pictures)
