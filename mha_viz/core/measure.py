"""Measurements of a record: every metric that has a meaning for it, and the baselines."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics import METRICS, Baseline, baselines, head_table
from mha_viz.core.metrics.rotation import rotated_scores
from mha_viz.core.names import LIKENESS, PAIR_MEASURES
from mha_viz.core.record.record import AttentionRecord
from mha_viz.core.record.visible import allowed_keys, parts, visible_everywhere
from mha_viz.errors import ArgumentError

_ROUNDING = 1e-6  # of a likeness in float32


def measure(record: AttentionRecord) -> dict[str, Tensor]:
    """Compute every metric of a head that has a meaning for this record.

    A record with merged words or removed tokens is measured as it is: its own weights, on its own
    axes. Leaving keys out does not change what is computed from the heads' outputs, which are
    measured where the record has z and W_O.
    """
    return _without_places(
        record,
        head_table(
            record.pattern,
            **_about(record),
            allowed=allowed_keys(record),
            sink=record.sink,
            z=record.z,
            W_O=record.W_O,
        ),
    )


def text_baselines(
    record: AttentionRecord, random: Mapping[str, Tensor] | None = None
) -> dict[str, Baseline]:
    """Score uniform attention, a fixed offset and (where given) random weights on this text.

    Outputs have baselines where the record kept `value`. `random` is what `measure` returns for the
    same text in a model with random weights.
    """
    found = baselines(
        record.pattern,
        **_about(record),
        allowed=record.allowed,
        parts=parts(record) if record.merged else None,
        value=record.value,
        W_O=record.W_O,
        random=random,
    )
    return _without_places(record, found)


def rotation_null(record: AttentionRecord) -> Callable[..., Tensor]:
    """Return a function that scores a metric with the keys of a record rotated."""
    about, seen = _about(record), functools.cache(lambda: visible_everywhere(record))
    return lambda heads, *args: rotated_scores(record.pattern, seen(), heads, *args, **about)


def head_similarity(
    record: AttentionRecord, measure: str = "hellinger", *, normalize: bool = True
) -> Float[Tensor, "head2 head2"]:
    """Compare every two heads of a record; heads in order of layer.

    Args:
        record: any record; measures of what heads write need its z.
        measure: "hellinger" or "jensen_shannon" (distances between patterns: 0 is the same),
            "correlation", "redundancy", "redundancy_textbook", "cka" or "cka_biased" (likeness of
            outputs: 1 is the same).
        normalize: of "redundancy" only: False is the textbook's own, "redundancy_textbook".

    Returns:
        float (layer * head, layer * head); NaN where a measure is not defined.

    Raises:
        ArgumentError: an unknown measure; `normalize` for another one than "redundancy".
        NotKeptError: the record holds no z.

    >>> import mha_viz as mv
    >>> record = mv.load("tiny-bert").trace("The cat sat on the mat")
    >>> mv.head_similarity(record, "cka").shape
    torch.Size([32, 32])
    """
    if measure not in PAIR_MEASURES:
        known = ", ".join(PAIR_MEASURES)
        raise ArgumentError(f"measure must be one of {known}, got {measure!r}.")
    if not normalize:
        if measure != "redundancy":
            raise ArgumentError(f'normalize=False is for "redundancy" only, got {measure!r}.')
        measure = "redundancy_textbook"
    return METRICS[measure].function(record.kept(PAIR_MEASURES[measure]))


def distances(record: AttentionRecord, measure: str) -> Float[Tensor, "head2 head2"]:
    """Return `head_similarity` as a distance (0 = identical); see `as_distances`."""
    return as_distances(head_similarity(record, measure), measure)


def as_distances(
    matrix: Float[Tensor, "head2 head2"], measure: str
) -> Float[Tensor, "head2 head2"]:
    """Turn what `head_similarity` gives into a distance: a likeness s becomes 1 - s, at most 1.

    A head is at no distance from itself. One whose output is the negative of another's
    (correlation -1) is its twin as well; a negative CKA is none at all. A likeness that misses 1 by
    no more than rounding counts as 1: rounding must not order heads.
    """
    if measure not in LIKENESS:
        return matrix
    apart = 1 - (matrix.abs() if measure == "correlation" else matrix.clamp(min=0.0))
    itself = torch.eye(len(apart), dtype=torch.bool, device=apart.device) & ~apart.isnan()
    return apart.masked_fill(itself | (apart < _ROUNDING), 0.0)


def _about(record: AttentionRecord) -> dict[str, Any]:
    special = torch.tensor([token.is_special for token in record.key_tokens])
    ids = torch.tensor([token.id for token in record.key_tokens])
    return {
        # Words merged from several tokens have no id in common with anything.
        "ids": None if record.merged else ids,
        "is_special": special if bool(special.any()) else None,
        "causal": record.causal,
    }


def _without_places(record: AttentionRecord, table: dict[str, Any]) -> dict[str, Any]:
    """Leave out positions where they mean nothing, and a future that no head can see."""
    # A square of queries and keys in cross-attention looks like self-attention and is not.
    places = {"self", "neighbours"} if record.is_cross else set()
    hidden = {"next_token"} if record.causal else set()
    return {
        key: values
        for key, values in table.items()
        if not METRICS[key].needs & places and key not in hidden
    }
