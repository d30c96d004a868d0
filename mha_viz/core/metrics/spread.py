"""Entropies of a head's rows in nats: how spread out they are, and how much they differ."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given, as_tensor
from mha_viz.core.metrics.checks import Allowed, Pattern, allowed_keys, check_pattern
from mha_viz.errors import ArgumentError

Rows = Given[Float[Array, "layer head query"]]  # what `row_entropy` gives
_ROUNDING = 1e-4  # of a row's sum in float32
LEAST = 1e-30  # added to a weight so that 0 ln 0 comes out as 0; too small to change a sum


def row_entropy(pattern: Pattern) -> Float[Tensor, "layer head query"]:
    """Compute the entropy of each row: -sum_k A ln A.

    A row that sums to less than 1 (weight went to a sink, or was taken away) is scaled to 1 first:
    its entropy is of where the rest of its weight lies.

    Args:
        pattern: (layer, head, query, key).

    Returns:
        (layer, head, query), nats in [0, ln key]; a row of zeros gives 0.

    Raises:
        ShapeError, DTypeError: not a pattern.

    Source: Shannon 1948.

    >>> row_entropy(torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]]))
    tensor([[[0.0000, 0.6931]]])
    """
    pattern, wide = check_pattern(pattern)
    # a layer at a time: only one layer's (head, query, key) is ever held twice
    rows = torch.stack([_entropies(layer.to(wide)) for layer in pattern])
    mass = pattern.sum(-1, dtype=wide)
    # of weights m p that sum to m: -sum m p ln(m p) = m H(p) - m ln m
    scaled = (rows - torch.special.entr(mass)) / mass
    scaled = torch.where(mass == 0, 0.0, scaled.clamp(min=0.0))
    # row by row, without a test whether any is short: a graphics card would have to wait for it
    return torch.where(mass < 1 - _ROUNDING, scaled, rows)


def entropy(pattern: Pattern, *, rows: Rows | None = None) -> Float[Tensor, "layer head"]:
    """Average the entropy of a head's rows: mean_q -sum_k A ln A.

    Args:
        pattern: (layer, head, query, key).
        rows: its `row_entropy`, if it has been computed already.

    Returns:
        (layer, head), nats in [0, ln key].

    Raises:
        ShapeError, DTypeError: not a pattern.

    Source: Clark et al. 2019, section 3.3.

    >>> entropy(torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]]))
    tensor([[0.3466]])
    """
    return _rows(pattern, rows).mean(-1)


def normalized_entropy(
    pattern: Pattern,
    *,
    causal: bool = False,
    allowed: Allowed | None = None,
    rows: Rows | None = None,
) -> Float[Tensor, "layer head"]:
    """Average the entropy of the rows as a share of its maximum: ln(keys the row may see).

    Args:
        pattern: (layer, head, query, key).
        causal: query q may see keys 0 to q only.
        allowed: bool (query, key), or (layer, query, key) where layers differ, True = may attend;
            takes the place of `causal`.
        rows: its `row_entropy`, if it has been computed already.

    Returns:
        (layer, head) in [0, 1]; a row that may see one key or none counts as 0.

    Raises:
        ShapeError, DTypeError: not a pattern, or `allowed` does not fit it.
        ArgumentError: if a row is more spread out than the keys it may see would let it be.

    Source: entropy over its maximum (Shannon's relative entropy, 1948, section 7).

    >>> normalized_entropy(torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]]), causal=True)
    tensor([[0.5000]])
    """
    pattern, _ = check_pattern(pattern)
    rows = _rows(pattern, rows)
    in_sight = allowed_keys(pattern, causal, allowed).sum(-1).to(rows)[:, None]
    most = in_sight.log()
    share = torch.where(most > 0, rows / most, 0.0 * rows)  # NaN stays NaN
    # beyond what rounding in half precision does
    if (share > 1.01).any() or ((most <= 0) & (rows > 0.01)).any():
        raise ArgumentError(
            "the pattern attends to keys that `causal` or `allowed` says it may not see: expected "
            f"at most 1 of the possible entropy in each row, got {share.nan_to_num().max():.3f}"
        )
    return share.clamp(max=1.0).mean(-1)


def mutual_information(
    pattern: Pattern, *, rows: Rows | None = None
) -> Float[Tensor, "layer head"]:
    """Compute what the key attended to tells about the query: H(mean_q A_q) - mean_q H(A_q).

    The mutual information between a query drawn uniformly and the key it attends to: 0 if all
    rows are alike, ln(query) if each query has a key of its own. Rows that do not sum to 1 count
    as much as they sum to: those of zeros not at all.

    Args:
        pattern: (layer, head, query, key).
        rows: its `row_entropy`, if it has been computed already.

    Returns:
        (layer, head), nats in [0, ln min(query, key)]; 0 for a head that attends to nothing.

    Raises:
        ShapeError, DTypeError: not a pattern.

    Source: Shannon 1948; the same form as the Jensen-Shannon divergence of all rows (Lin 1991).

    >>> mutual_information(torch.eye(2).reshape(1, 1, 2, 2))
    tensor([[0.6931]])
    """
    pattern, wide = check_pattern(pattern)
    rows = _rows(pattern, rows)
    mean = pattern.mean(-2, dtype=wide)
    mass = mean.sum(-1)  # of a row, on average
    if (mass < 1 - _ROUNDING).any():
        rows = rows * pattern.sum(-1, dtype=wide) / mass[..., None]
        mean = mean / mass[..., None]
    # concavity makes it non-negative; rounding may not
    found = (torch.special.entr(mean).sum(-1) - rows.mean(-1)).clamp(min=0.0)
    return torch.where(mass == 0, 0.0, found)


def _rows(pattern: Pattern, rows: Rows | None) -> Tensor:
    return row_entropy(pattern) if rows is None else as_tensor("rows", rows)


def _entropies(rows: Tensor) -> Tensor:
    if rows.device.type != "cpu" or rows.requires_grad:
        return torch.special.entr(rows).sum(-1)
    # numpy's logarithm works on many numbers at once, torch's entr on one
    weights = rows.numpy()
    logarithms = weights + LEAST
    np.log(logarithms, out=logarithms)
    return torch.from_numpy(-np.vecdot(weights, logarithms))
