"""Entropies of a head's rows in nats: how spread out they are, and how much they differ."""

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics.blocks import RowBlock, Texts, scaled_entropy
from mha_viz.core.metrics.checks import Allowed, Pattern, exact
from mha_viz.core.metrics.head_sums import Reduction, Total, row_mean
from mha_viz.core.metrics.reduction import reduced
from mha_viz.errors import ArgumentError


@row_mean(lambda block: block.entropies)
def entropy(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the entropy of a head's rows: mean_q -sum_k A ln A.

    A row that sums to less than 1 (weight went to a sink, or was taken away) is scaled to 1 first:
    its entropy is of where the rest of its weight lies. A row of zeros counts as 0.

    Returns (layer, head), nats in [0, ln key].

    Source: Clark et al. 2019, section 3.3.

    >>> entropy(torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]]))
    tensor([[0.3466]])
    """
    return reduced(entropy, pattern)


def _shares(block: RowBlock) -> Float[Tensor, "batch head query"]:
    """Return the rows' entropies as shares of the most they may be."""
    visible, dtype = block.visible, block.pattern.dtype
    # a row that sees one key or none has a share of 0; NaN stays NaN
    most = visible.once(
        ("share", dtype),
        lambda: (of_all := visible.most_entropy(dtype)).masked_fill(of_all <= 0, torch.inf),
    )
    return (block.entropies / most).clamp(max=1.0)


def _beyond(block: RowBlock) -> tuple[Tensor]:
    """Count the rows that are more spread out than rounding in half precision makes them."""
    most = block.visible.most_entropy(block.pattern.dtype)
    return ((block.entropies > torch.where(most > 0, 1.01 * most, 0.01)).sum(-1),)


def _check_beyond(beyond: Tensor) -> None:
    if beyond.any():
        raise ArgumentError(
            "the pattern attends to keys that `causal` or `allowed` says it may not see: expected "
            "at most 1 of the possible entropy in each row, got more in "
            f"{int(beyond.amax())} rows of a head"
        )


@row_mean(_shares, check=(_beyond, _check_beyond))
def normalized_entropy(
    pattern: Pattern, *, causal: bool = False, allowed: Allowed | None = None
) -> Float[Tensor, "layer head"]:
    """Average the entropy of the rows as a share of its maximum: ln(keys the row may see).

    `allowed`, bool (query, key), or (layer, query, key) where layers differ, takes the place of
    `causal`. Returns (layer, head) in [0, 1]; a row that may see one key or none counts as 0.
    Raises ArgumentError: if a row is more spread out than the keys it may see would let it be.

    Source: entropy over its maximum (Shannon's relative entropy, 1948, section 7).

    >>> normalized_entropy(torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]]), causal=True)
    tensor([[0.5000]])
    """
    return reduced(normalized_entropy, pattern, causal=causal, allowed=allowed)


def _rows_and_keys(block: RowBlock) -> tuple[Total, Total, Tensor]:
    """Sum the rows' entropies by how much the rows sum to, that, and the weight on each key."""
    return Total(block.entropies * block.mass), Total(block.mass), exact(block.by_key)


def _information(texts: Texts, rows: Tensor, mass: Tensor, by_key: Tensor) -> Tensor:
    """Compute the entropy of the mean row less the mean entropy of rows."""
    # concavity makes it non-negative; rounding may not
    return scaled_entropy(torch.special.entr(by_key).sum(-1) - rows, mass)


@Reduction(_rows_and_keys, _information)
def mutual_information(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Compute what the key attended to tells about the query: H(mean_q A_q) - mean_q H(A_q).

    The mutual information between a query drawn uniformly and the key it attends to: 0 if all
    rows are alike, ln(query) if each query has a key of its own. Rows that do not sum to 1 count
    as much as they sum to: those of zeros not at all.

    Returns (layer, head), nats in [0, ln min(query, key)]; 0 for a head that attends to nothing.

    Source: Shannon 1948; the same form as the Jensen-Shannon divergence of all rows (Lin 1991).

    >>> mutual_information(torch.eye(2).reshape(1, 1, 2, 2))
    tensor([[0.6931]])
    """
    return reduced(mutual_information, pattern)
