"""Likeness of what two heads write on one text, for all pairs of heads.

Each result is symmetric, (layer * head, layer * head): head h of layer l stands at l * heads + h.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics.checks import HeadVectors, check_z
from mha_viz.core.metrics.outputs import rounding
from mha_viz.core.metrics.pairs import products, symmetrized

BLOCK_ROWS = 32  # of each head's kernel at a time: no kernel is held as a whole
LEAST_TOKENS = 4  # of fewer nothing is left that is not the same for all z: see `cka`


def correlation(z: HeadVectors) -> Float[Tensor, "all_heads all_heads"]:
    """Correlate two heads' z, entry by entry: Cov(z_i, z_j) / (sigma_i sigma_j).

    The entries are z's (query, d_head) numbers in a row, less their mean. The k-th coordinate of
    one head's z has nothing to do with another's k-th: this compares them as they stand. `cka`
    does not depend on the coordinates.

    Returns (layer * head, layer * head) in [-1, 1]; NaN (not defined) where a head's z is constant,
    up to `rounding`. Source: Pearson's correlation coefficient.

    >>> correlation(torch.tensor([[[[1.0], [2.0]], [[5.0], [3.0]]]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    deviations = _centred(z, (1, 2)).flatten(1)
    inner = products([deviations])
    return symmetrized(_cosines(inner).clamp(-1.0, 1.0), 1.0, deviations.dtype)


def redundancy(z: HeadVectors, normalize: bool = True) -> Float[Tensor, "all_heads all_heads"]:
    """Compare the directions of two heads' z: ||z_i z_j^T||_F / (||z_i||_F ||z_j||_F).

    From d_head x d_head Gram matrices: ||z_i z_j^T||_F^2 = <z_i^T z_i, z_j^T z_j>, which for a
    head beside itself is 1 only if its z has rank one. So the default divides by
    sqrt(R_ii R_jj): two heads with the same z get 1. Like `correlation` it compares the
    coordinates of z as they stand.

    `normalize=False` gives the textbook's number. Returns (layer * head, layer * head) in [0, 1]: 0
    for z in orthogonal directions; NaN (not defined) where a head's z is all zero. Normalized, the
    diagonal is 1. Source: the redundancy of two heads as textbooks give it; normalized, it is the
    root of the cosine of two second-moment matrices.

    >>> z = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]])
    >>> redundancy(z), redundancy(z, normalize=False).diagonal()
    (tensor([[1.0000, 0.8409],
             [0.8409, 1.0000]]), tensor([0.7071, 1.0000]))
    """
    heads = _scaled(z)
    moments = heads.mT @ heads
    inner = products([moments.flatten(1)])
    if normalize:
        squared = _cosines(inner)
    else:
        size = moments.diagonal(dim1=-2, dim2=-1).sum(-1)
        squared = inner / (size[:, None] * size)
    likeness = squared.clamp(0.0, 1.0).sqrt()
    return symmetrized(likeness, 1.0 if normalize else None, heads.dtype)


def redundancy_textbook(z: HeadVectors) -> Float[Tensor, "all_heads all_heads"]:
    """Compute `redundancy` as textbooks give it, not divided by sqrt(R_ii R_jj).

    Returns (layer * head, layer * head) in [0, 1], as `redundancy`; a head beside itself has 1 only
    if its z has rank one, and no less than 1 / sqrt(d_head).

    Source: as of `redundancy`.

    >>> z = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]])
    >>> redundancy_textbook(z)
    tensor([[0.7071, 0.7071],
            [0.7071, 1.0000]])
    """
    return redundancy(z, normalize=False)


def cka(z: HeadVectors) -> Float[Tensor, "all_heads all_heads"]:
    """Compute linear centred kernel alignment, debiased: <U_i, U_j> / (||U_i|| ||U_j||).

    K = z z^T is (query, query): which tokens a head treats alike. U is K with zeros on its
    diagonal, U-centred, so that each row sums to 0: then <U_i, U_j> / (n (n - 3)) estimates HSIC
    without bias, and two heads that have nothing to do with each other are near 0 however short
    the text is. (`cka_biased` gives 0.67 for independent heads of 32 dimensions over 16 tokens.)
    Turning or scaling a head's z as a whole changes nothing, so heads may be compared that share
    no coordinates.

    Returns (layer * head, layer * head) in [-1, 1]: 1 for the same z up to rotation and scale,
    about 0 for heads that have nothing in common; NaN (not defined) for fewer than 4 queries, and
    where nothing but rounding is left of a head's U, as where z is the same for every query.
    Source: Song et al. 2012 (the estimator); Szekely and Rizzo 2014 (U-centring); Nguyen et al.
    2021 and Murphy et al. 2024 (in CKA).

    >>> z = torch.randn(1, 2, 8, 3, generator=torch.Generator().manual_seed(0))
    >>> z[0, 1] = 5 * z[0, 0].roll(1, dims=-1)
    >>> cka(z)
    tensor([[1.0000, 1.0000],
            [1.0000, 1.0000]])
    """
    heads = _centred(z, (1,))
    if heads.shape[1] < LEAST_TOKENS:
        return heads.new_full((len(heads), len(heads)), torch.nan)
    inner = products(_u_centred(heads))
    lengths, trace = inner.diagonal(), heads.flatten(1).norm(dim=-1).square()
    lengths[lengths.sqrt() <= rounding(z) * trace] = torch.nan
    return symmetrized(_cosines(inner).clamp(-1.0, 1.0), 1.0, heads.dtype)


def cka_biased(z: HeadVectors) -> Float[Tensor, "all_heads all_heads"]:
    """Compute linear centred kernel alignment: <K_i, K_j> / (||K_i|| ||K_j||) of centred z.

    As published first, and in most papers. It is 1 for any two heads if there are two tokens, and
    far above 0 for heads that have nothing in common if there are few tokens for the width of a
    head: `cka` is not.

    Returns (layer * head, layer * head) in [0, 1]: 1 for the same z up to rotation and scale; NaN
    (not defined) where a head's z is the same for every query, up to `rounding`, so for one query.
    Source: Kornblith et al. 2019, equation 1 with a linear kernel.

    >>> z = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 3.0], [3.0, 0.0]]]])
    >>> cka_biased(z)
    tensor([[1., 1.],
            [1., 1.]])
    """
    heads = _centred(z, (1,))
    inner = products((rows @ heads.mT).flatten(1) for rows in heads.split(BLOCK_ROWS, dim=1))
    return symmetrized(_cosines(inner).clamp(0.0, 1.0), 1.0, heads.dtype)


def _u_centred(heads: Tensor) -> Iterator[Tensor]:
    """Yield U of `cka` for heads (head, query, d_head) of mean 0, some rows at a time.

    Without its diagonal, a row of K sums to minus that: what has to be added to row and column is
    then known. U is symmetric: of some rows only what stands in their own columns and to the right
    of them is made, and there counts twice in a sum of products.
    """
    n = heads.shape[1]
    squares = heads.norm(dim=-1, keepdim=True).square()  # K's diagonal
    shift = squares / (n - 2) - squares.sum(1, keepdim=True) / (2 * (n - 1) * (n - 2))
    for begin in range(0, n, BLOCK_ROWS):
        rows = heads[:, begin : begin + BLOCK_ROWS] @ heads[:, begin:].mT
        rows += shift[:, begin : begin + BLOCK_ROWS]
        rows += shift[:, begin:].mT
        rows.diagonal(0, 1, 2).zero_()
        rows[:, :, BLOCK_ROWS:] *= 2**0.5
        yield rows.flatten(1)


def _scaled(z: HeadVectors) -> Tensor:
    """Scale each head's largest entry to 1, (layer * head, query, d_head); zeros stay.

    No likeness depends on a head's scale, but a power of what is very large or very small would
    leave what floats can hold.
    """
    checked, wide = check_z(z)
    heads = checked.detach().to(wide).flatten(0, 1)
    largest = heads.amax((1, 2), keepdim=True).maximum(-heads.amin((1, 2), keepdim=True))
    return heads / torch.where(largest > 0, largest, 1.0)


def _centred(z: HeadVectors, over: tuple[int, ...]) -> Tensor:
    """Subtract the mean over some axes from `_scaled`; NaN for heads that are rounding only."""
    heads = _scaled(z)
    mean, size = heads.mean(over, keepdim=True), heads.flatten(1).norm(dim=-1)
    heads -= mean  # in place: a second tensor of this size takes longer to lay out than to fill
    constant = heads.flatten(1).norm(dim=-1) <= rounding(z) * size
    if constant.any():
        heads[constant] = torch.nan
    return heads


def _cosines(inner: Tensor) -> Tensor:
    """Divide inner products by the norms that their diagonal gives."""
    squares = inner.diagonal()
    return inner / (squares[:, None] * squares).sqrt()
