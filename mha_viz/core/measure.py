"""Measurements of a record: every metric that has a meaning for it, and the baselines."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.scoring import over_blocks
from mha_viz.core.metrics import METRICS, Baseline, baselines, head_table
from mha_viz.core.metrics.checks import TokenFacts
from mha_viz.core.metrics.outputs import outputs_of, reduce_outputs
from mha_viz.core.metrics.pairs import AllRows
from mha_viz.core.metrics.reduction import texts_of
from mha_viz.core.metrics.rotation import RotatedScores
from mha_viz.core.metrics.row_sums import TextSums
from mha_viz.core.metrics.table import UNSEEN, output_metrics
from mha_viz.core.names import LIKENESS, PAIR_MEASURES
from mha_viz.core.record.attention_record import AttentionRecord, Token
from mha_viz.core.record.patterns import STORED_BYTES, ComputedPatterns, Patterns, StoredPatterns
from mha_viz.core.record.visible import allowed_keys, distinct_masks, parts
from mha_viz.errors import ArgumentError

_ROUNDING = 1e-6  # of a likeness in float32
_AT_ONCE = 2**22  # weights of all heads that are compared at a time


def measure(record: AttentionRecord) -> dict[str, Tensor]:
    """Compute every metric of a head that has a meaning for this record.

    A record with merged words or removed tokens is measured as it is: its own weights, on its own
    axes. Leaving keys out does not change what is computed from the heads' outputs, which are
    measured where the record has z and W_O.
    """
    if record.patterns.visible_keys(0, slice(0, 1)) is not None:
        table = _measured_by_rows(record)
    else:
        facts = replace(_record_facts(record), allowed=allowed_keys(record))
        table = head_table(record.pattern, facts, sink=record.sink, z=record.z, W_O=record.W_O)
    return _without_places(record, table)


def _measured_by_rows(record: AttentionRecord) -> dict[str, Tensor]:
    """Return what `head_table` does, of weights that are computed block by block."""
    patterns, z, W_O = record.patterns, record.z, record.W_O
    of_weights = record_sums(record)
    table = None
    if isinstance(patterns, ComputedPatterns):
        table = patterns.measured.get(of_weights.about)
    if table is None:
        for layer in range(record.n_layers):
            sinks = None if record.sink is None else record.sink[layer]
            sums = of_weights.layer(partial(patterns.visible_keys, layer), sinks)
            for part in patterns.each_block(layer, sums.reduce):
                sums.collect(part)
        table = of_weights.finish()
        if isinstance(patterns, ComputedPatterns):
            patterns.measured[of_weights.about] = table
    if z is not None and len(W_O):
        outputs = outputs_of(z.to(W_O[0].device), W_O)  # where the model is
        written = reduce_outputs(outputs, output_metrics(of_weights.needs))
        table = table | {key: values.to(z.device) for key, values in written.items()}
    return {key: table[key] for key in METRICS if key in table}


def record_sums(record: AttentionRecord) -> TextSums:
    """Return `text_sums` of a record's text."""
    n, has_sinks = record.shape[2], record.sink is not None
    return text_sums(record.key_tokens, n, record.causal, record.merged, has_sinks)


def text_sums(
    keys: Sequence[Token],
    n_queries: int,
    causal: bool,
    merged: bool = False,
    has_sinks: bool = False,
) -> TextSums:
    """Return the sums that the metrics of a text's weights are made of, with nothing in them yet.

    `keys` are the tokens of the key axis; `causal` and `merged` are as in a record; `has_sinks`:
    heads have learned a sink.
    """
    like = torch.zeros(()).expand(1, 1, n_queries, len(keys))  # takes no memory
    return TextSums(texts_of(_token_facts(keys, causal, merged), like), has_sinks)


def text_baselines(
    record: AttentionRecord, random: Mapping[str, Tensor] | None = None
) -> dict[str, Baseline]:
    """Score uniform attention, a fixed offset and (where given) random weights on this text.

    Outputs have baselines where the record kept `value`. `random` is what `measure` returns for the
    same text in a model with random weights.
    """
    allowed, layers = _masks(record)
    shape = torch.zeros(()).expand(record.shape)  # it alone counts, and takes no memory
    table = baselines(
        shape,
        replace(_record_facts(record), allowed=allowed),
        layers=layers,
        parts=parts(record) if record.merged else None,
        value=record.value,
        W_O=record.W_O,
        random=random,
    )
    return _without_places(record, table)


def _masks(record: AttentionRecord) -> tuple[Tensor | None, list[int] | None]:
    """Return the different masks of a record's tokens, and which of them each layer has.

    None of both where they are what `causal` says; None of the latter where each has its own.
    """
    if record.patterns.visible_keys(0, slice(0, 1)) is None:
        return record.allowed if record.merged else allowed_keys(record), None

    def of_tokens(record: AttentionRecord, layer: int) -> Tensor:
        is_visible = record.patterns.seen_by_tokens(layer)
        assert is_visible is not None
        return is_visible

    different = distinct_masks(record, of_tokens)
    first = different[0][1]
    ordinary = torch.ones_like(first).tril() if record.causal else torch.ones_like(first)
    if len(different) == 1 and torch.equal(first, ordinary):
        return None, None
    of_layer = {layer: i for i, (layers, _) in enumerate(different) for layer in layers}
    masks = torch.stack([mask for _, mask in different])
    return masks, [of_layer[layer] for layer in range(record.n_layers)]


def rotation_null(record: AttentionRecord) -> RotatedScores:
    """Return what scores a metric with the keys of a record rotated."""
    return RotatedScores(all_rows(record.patterns), distinct_masks(record), _record_facts(record))


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

    Source: Hellinger 1909; Clark et al. 2019 (Jensen-Shannon); Kornblith et al. 2019 (CKA).

    >>> import mha_viz as mv
    >>> record = mv.load("tiny-bert").trace("The cat sat on the mat")
    >>> mv.head_similarity(record, "cka").shape
    torch.Size([32, 32])
    """
    if measure not in PAIR_MEASURES:
        raise ArgumentError(f"measure must be one of {', '.join(PAIR_MEASURES)}, got {measure!r}.")
    if not normalize:
        if measure != "redundancy":
            raise ArgumentError(f'normalize=False is for "redundancy" only, got {measure!r}.')
        measure = "redundancy_textbook"
    made_of = PAIR_MEASURES[measure]
    of = all_rows(record.patterns) if made_of == "pattern" else record.require(made_of)
    return METRICS[measure].function(of)


def all_rows(patterns: Patterns) -> AllRows:
    """Return the rows of all heads, computed some queries at a time where they are many."""
    if isinstance(patterns, StoredPatterns) or patterns.n_bytes <= STORED_BYTES:
        return AllRows.of(patterns.all())
    n_layers, n_heads, n_query, n_key = patterns.shape

    def rows(queries: slice, heads: Tensor | None) -> Tensor:
        chosen = torch.arange(n_layers * n_heads) if heads is None else heads
        starts = torch.searchsorted(chosen, n_heads * torch.arange(n_layers + 1)).tolist()
        weights_of_heads = torch.zeros(len(chosen), len(range(n_query)[queries]), n_key)

        def fill(layers: slice) -> None:
            layer = layers.start
            first, end = starts[layer : layer + 2]
            if first < end:
                some = None if heads is None else (chosen[first:end] % n_heads).tolist()
                weights = patterns.rows(layer, queries, some)
                weights_of_heads[first:end, :, : weights.shape[-1]] = weights

        each = [slice(layer, layer + 1) for layer in range(n_layers)]
        deque(over_blocks(fill, each, weights_of_heads.device), maxlen=0)
        return weights_of_heads

    return AllRows(n_query, max(1, _AT_ONCE // (n_layers * n_heads * n_key)), rows)


def distances(record: AttentionRecord, measure: str) -> Float[Tensor, "head2 head2"]:
    """Return `head_similarity` as a distance (0 = identical); see `as_distances`."""
    return as_distances(head_similarity(record, measure), measure)


def as_distances(
    matrix: Float[Tensor, "head2 head2"], measure: str
) -> Float[Tensor, "head2 head2"]:
    """Turn what `head_similarity` gives into a distance: a likeness s becomes 1 - s.

    A head is at no distance from itself. One whose output is the negative of another's
    (correlation -1) is its twin as well; a negative CKA is farther than none. A likeness that
    misses 1 by no more than rounding counts as 1: rounding must not order heads.
    """
    if measure not in LIKENESS:
        return matrix
    apart = 1 - (matrix.abs() if measure == "correlation" else matrix)
    itself = torch.eye(len(apart), dtype=torch.bool, device=apart.device) & ~apart.isnan()
    return apart.masked_fill(itself | (apart < _ROUNDING), 0.0)


def _record_facts(record: AttentionRecord) -> TokenFacts:
    return _token_facts(record.key_tokens, record.causal, record.merged)


def _token_facts(tokens: Sequence[Token], causal: bool, merged: bool) -> TokenFacts:
    special = torch.tensor([token.is_special for token in tokens])
    # Words merged from several tokens have no id in common with anything.
    ids = None if merged else torch.tensor([token.id for token in tokens])
    return TokenFacts(ids, special if special.any() else None, causal)


def _without_places(record: AttentionRecord, table: dict[str, Any]) -> dict[str, Any]:
    """Leave out positions where they mean nothing, and a future that no head can see."""
    # A square of queries and keys in cross-attention looks like self-attention and is not.
    undefined = {"self", "neighbours"} if record.is_cross else set()
    hidden = UNSEEN if record.causal else frozenset()
    return {
        key: values
        for key, values in table.items()
        if not METRICS[key].needs & undefined and key not in hidden
    }
