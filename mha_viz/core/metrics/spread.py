"""Metrics of a row's spread: its entropy, its largest weight, the keys that hold its mass."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.metrics.blocks import LEAST, RowBlock, Texts, scaled_entropy
from mha_viz.core.metrics.checks import Allowed, Pattern, TokenFacts, exact
from mha_viz.core.metrics.head_sums import Reduction, Total, row_mean
from mha_viz.core.metrics.reduction import reduced
from mha_viz.errors import ArgumentError

_ROUNDING = torch.finfo(torch.float32).eps  # of a number near 1


@row_mean(lambda block: block.entropies)
def entropy(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the entropy of a head's rows: mean_q -sum_k A ln A.

    A row that sums to less than 1 (weight went to a sink, or was taken away) is scaled to 1 first:
    its entropy is of where the rest of its weight lies. A row of zeros counts as 0.

    Returns (layer, head), nats in [0, ln key]. Source: Clark et al. 2019, section 3.3.

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
    return reduced(normalized_entropy, pattern, TokenFacts(causal=causal, allowed=allowed))


def _rows_and_keys(block: RowBlock) -> tuple[Total, Total, Tensor]:
    """Sum the rows' entropies by how much the rows sum to, that, and the weight on each key."""
    return Total(block.entropies * block.mass), Total(block.mass), exact(block.by_key)


def _information(texts: Texts, rows: Tensor, mass: Tensor, by_key: Tensor) -> Tensor:
    """Compute the entropy of the mean row less the mean entropy of rows."""
    # concavity makes it non-negative; rounding may not, and leaves as much where all rows are alike
    information = scaled_entropy(torch.special.entr(by_key).sum(-1) - rows, mass)
    between = rows / mass.clamp(min=LEAST)  # sums of so many nats are known to so many digits
    return information.masked_fill(information <= 8 * _ROUNDING * (1 + between.abs()), 0.0)


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


_GROUP = 32  # sorted weights that are added up at once


@row_mean(lambda block: block.strongest)
def confidence(pattern: Pattern) -> Float[Tensor, "layer head"]:
    """Average the largest weight in each row: mean_q max_k A.

    Returns (layer, head), probability in [1 / key, 1], less where rows are all zero. Source: Voita
    et al. 2019, who leave out the end-of-sentence token; we keep it.

    >>> confidence(torch.tensor([[[[0.75, 0.25], [0.5, 0.5]]]]))
    tensor([[0.6250]])
    """
    return reduced(confidence, pattern)


def _row_keys(block: RowBlock, share: float = 0.9) -> Float[Tensor, "batch head query"]:
    """Count the keys of `keys_for_mass` for each row."""
    rows = block.pattern.detach()
    # of ten equal weights one is given up, though in floats 0.1 may come out above 1 - 0.9
    light_share = 1 - share + 4 * _ROUNDING
    if rows.device.type == "cpu":
        count = torch.from_numpy(rows.shape[-1] - _count_light(rows.numpy(), light_share))
    else:
        cumulated = rows.sort(-1).values.cumsum(-1)
        count = (cumulated > light_share * cumulated[..., -1:]).sum(-1)
    return torch.add(count, block.mass, alpha=0)  # NaN stays NaN


def _count_light(rows: NDArray[Any], light_share: float) -> NDArray[Any]:
    """Count the lightest keys of each row that hold no more than this share of its mass.

    Sorted weights are added up in groups: first the whole groups that fit, then the weights of the
    first one that does not. Each row's groups are a product of their own: BLAS would divide one of
    all rows among threads, which go on spinning beside those of torch.
    """
    flat = rows.reshape(-1, rows.shape[-1])
    at_row, padding = np.arange(len(flat)), -flat.shape[-1] % _GROUP
    ordered = np.zeros((len(flat), flat.shape[-1] + padding), rows.dtype)
    ordered[:, padding:] = flat
    # Weights are not negative, so their bits are in the same order, and sorted in less time.
    ordered.view(f"i{rows.itemsize}").sort(axis=-1)
    groups = ordered.reshape(len(flat), -1, _GROUP)
    mass = groups @ np.ones(_GROUP, rows.dtype)
    up_to = mass.cumsum(-1)
    limit = light_share * up_to[:, -1:]
    n_whole = (up_to <= limit).sum(-1)
    next_group = np.minimum(n_whole, groups.shape[1] - 1)
    before = np.where(n_whole > 0, up_to[at_row, next_group - 1], 0)[:, None]
    within = before + groups[at_row, next_group].cumsum(-1)
    n_more = np.where(n_whole == next_group, (within <= limit).sum(-1), 0)
    return (_GROUP * n_whole + n_more - padding).reshape(rows.shape[:-1])


@row_mean(_row_keys)
def keys_for_mass(pattern: Pattern, *, share: float = 0.9) -> Float[Tensor, "layer head"]:
    """Average the number of keys that hold `share` of a row's mass, the heaviest first.

    Returns (layer, head), keys in [1, key]; a row of zeros counts as 0. Raises ArgumentError: if
    share is not in (0, 1]. Source: the size of the smallest set with a given mass, as in nucleus
    sampling (Holtzman et al. 2020).

    >>> keys_for_mass(torch.tensor([[[[0.95, 0.05], [0.5, 0.5]]]]))
    tensor([[1.5000]])
    """
    if not 0 < share <= 1:
        raise ArgumentError(f"share must be in (0, 1], got {share}")
    return reduced(keys_for_mass, pattern, share=share)


def strongest_other(
    weights: Float[Tensor, "*batch head query key"],
) -> Int[Tensor, "*batch head query"]:
    """Return for each word the other one with the most weight; -1 for ties and for none.

    >>> strongest_other(torch.tensor([[[[0.9, 0.1, 0.0], [0.0, 0.0, 0.0], [0.3, 0.3, 0.4]]]]))
    tensor([[[ 1, -1, -1]]])
    """
    itself = torch.eye(weights.shape[-1], dtype=torch.bool, device=weights.device)
    off_diagonal = weights.masked_fill(itself, -1.0)
    most, key = off_diagonal.max(-1)
    shared = (off_diagonal == most[..., None]).sum(-1) > 1
    return key.masked_fill(shared | (most <= 0), -1)
