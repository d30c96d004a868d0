"""How alike two heads are in what they did on one text, for all pairs of heads.

Each result is symmetric, (layer * head, layer * head): head h of layer l stands at l * heads + h.
Distances are 0 on the diagonal, likenesses 1. If a row of a pattern sums to less than 1 (to 0, for
a query that may see nothing), the rest counts as weight on one more key, "nowhere": two rows of
zeros are alike, a row of zeros and a full one have nothing in common.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics.checks import HeadVectors, Pattern, check_pattern, check_z
from mha_viz.core.metrics.outputs import rounding
from mha_viz.core.metrics.spread import LEAST

BLOCK = 2**14  # weights of each head that one matrix product takes: no second pattern is held
SMALL_BLOCK = 2**12  # ... and that are mixed with all others': for a core's cache
CLOSE = 1e-5  # squared distances below this are too near to be differences of float32 sums
ROUNDING = 0.01  # a row's sum may miss 1 by so much in half precision


def hellinger(pattern: Pattern) -> Float[Tensor, "all_heads all_heads"]:
    """Hellinger distance of two heads' rows: sqrt(1 - mean_q sum_k sqrt(A_i A_j)).

    Args:
        pattern: (layer, head, query, key), rows summing to 1 or all zero.

    Returns:
        (layer * head, layer * head) in [0, 1]: 0 for the same pattern, 1 for patterns that never
        look at the same key. Heads nearer than 0.003 are compared in float64: as a difference of
        float32 sums, that would be rounding.

    Raises:
        ShapeError, DTypeError: if it is no pattern.

    Source: Hellinger 1909; the root of the mean over queries of the squared distance of rows.

    >>> hellinger(torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]], [[0.64, 0.36]]]]))
    tensor([[0.0000, 1.0000, 0.4472],
            [1.0000, 0.0000, 0.6325],
            [0.4472, 0.6325, 0.0000]])
    """
    pattern, wide = check_pattern(pattern)
    squared = _squared_hellinger(pattern, slice(None), wide)
    close = (squared < CLOSE).triu(1)
    near = close.any(0) | close.any(1)
    if near.any():
        within = near[:, None] & near
        squared[within] = _squared_hellinger(pattern, near, torch.float64).flatten()
    return _finished(squared.clamp(0.0, 1.0).sqrt(), 0.0, wide)


def jensen_shannon(pattern: Pattern) -> Float[Tensor, "all_heads all_heads"]:
    """Jensen-Shannon divergence of two heads' rows, averaged: mean_q JS(A_i(q), A_j(q)).

    JS(a, b) = H((a + b) / 2) - (H(a) + H(b)) / 2.

    Args:
        pattern: (layer, head, query, key), rows summing to 1 or all zero.

    Returns:
        (layer * head, layer * head), nats in [0, ln 2]: 0 for the same pattern, ln 2 for patterns
        that never look at the same key.

    Raises:
        ShapeError, DTypeError: if it is no pattern.

    Source: Lin 1991; between heads, Clark et al. 2019, section 6, who sum it over the tokens.

    >>> jensen_shannon(torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]]]]))
    tensor([[0.0000, 0.6931],
            [0.6931, 0.0000]])
    """
    pattern, wide = check_pattern(pattern)
    mixed = _mixed if pattern.device.type == "cpu" else _mixed_on_device
    # numpy works in one thread: here as many work as torch would use, a block each. They must end
    # with the work: a thread that has used torch and stays makes all of torch's steps slower.
    with ThreadPoolExecutor(torch.get_num_threads() if mixed is _mixed else 1) as pool:
        spans = _spans(pattern, SMALL_BLOCK)
        parts = pool.map(lambda span: mixed(_flat(_rows(pattern, span))), spans)
        sums = sum(parts, start=mixed(_nowhere(pattern)))
    sums = sums.triu() + sums.triu(1).mT
    # sums_ij = sum of s ln s over s = A_i + A_j; factors 2 and masses drop out against its diagonal
    own = sums.diagonal()
    divergence = ((own[:, None] + own) / 4 - sums / 2) / pattern.shape[-2]
    return _finished(divergence.clamp(0.0, float(np.log(2))), 0.0, wide)


def correlation(z: HeadVectors) -> Float[Tensor, "all_heads all_heads"]:
    """Correlation of two heads' z, entry by entry: Cov(z_i, z_j) / (sigma_i sigma_j).

    The entries are z's (query, d_head) numbers in a row, less their mean. The k-th coordinate of
    one head's z has nothing to do with another's k-th: this compares them as they stand. `cka`
    does not depend on the coordinates.

    Args:
        z: (layer, head, query, d_head), pattern times values.

    Returns:
        (layer * head, layer * head) in [-1, 1]; NaN (not defined) where a head's z is constant,
        up to `rounding`.

    Raises:
        ShapeError, DTypeError: if it is no z.

    Source: Pearson's correlation coefficient.

    >>> correlation(torch.tensor([[[[1.0], [2.0]], [[5.0], [3.0]]]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    deviations = _centred(z, (1, 2)).flatten(1)
    return _finished(_cosines(deviations @ deviations.mT).clamp(-1.0, 1.0), 1.0, deviations.dtype)


def redundancy(z: HeadVectors, normalize: bool = True) -> Float[Tensor, "all_heads all_heads"]:
    """How much two heads' z lie in the same directions: ||z_i z_j^T||_F / (||z_i||_F ||z_j||_F).

    From d_head x d_head Gram matrices: ||z_i z_j^T||_F^2 = <z_i^T z_i, z_j^T z_j>, which for a
    head beside itself is 1 only if its z has rank one. So the default divides by
    sqrt(R_ii R_jj): two heads with the same z get 1. Like `correlation` it compares the
    coordinates of z as they stand.

    Args:
        z: (layer, head, query, d_head), pattern times values.
        normalize: divide by sqrt(R_ii R_jj); False gives the textbook's number.

    Returns:
        (layer * head, layer * head) in [0, 1]: 0 for z in orthogonal directions; NaN (not
        defined) where a head's z is all zero. Normalized, the diagonal is 1.

    Raises:
        ShapeError, DTypeError: if it is no z.

    Source: the redundancy of two heads as textbooks give it; normalized, it is the root of the
    cosine of two second-moment matrices.

    >>> z = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]])
    >>> redundancy(z), redundancy(z, normalize=False).diagonal()
    (tensor([[1.0000, 0.8409],
             [0.8409, 1.0000]]), tensor([0.7071, 1.0000]))
    """
    heads = _scaled(z)
    moments = heads.mT @ heads
    products = moments.flatten(1) @ moments.flatten(1).mT
    if normalize:
        squared = _cosines(products)
    else:
        size = moments.diagonal(dim1=-2, dim2=-1).sum(-1)
        squared = products / (size[:, None] * size)
    likeness = squared.clamp(0.0, 1.0).sqrt()
    return _finished(likeness, 1.0 if normalize else None, heads.dtype)


def cka(z: HeadVectors) -> Float[Tensor, "all_heads all_heads"]:
    """Linear centred kernel alignment: <K_i, K_j> / (||K_i|| ||K_j||), K = z z^T, z less its mean.

    K is (query, query): which tokens a head treats alike. Turning or scaling a head's z as a
    whole changes nothing, so heads may be compared that share no coordinates.

    Args:
        z: (layer, head, query, d_head), pattern times values.

    Returns:
        (layer * head, layer * head) in [0, 1]: 1 for the same z up to rotation and scale; NaN
        (not defined) where a head's z is the same for every query, up to `rounding`, so for one
        query.

    Raises:
        ShapeError, DTypeError: if it is no z.

    Source: Kornblith et al. 2019, equation 1 with a linear kernel.

    >>> z = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 3.0], [3.0, 0.0]]]])
    >>> cka(z)
    tensor([[1., 1.],
            [1., 1.]])
    """
    heads = _centred(z, (1,))
    blocks = heads.split(max(1, BLOCK // heads.shape[1]), dim=1)
    products = _products((block @ heads.mT).flatten(1) for block in blocks)
    return _finished(_cosines(products).clamp(0.0, 1.0), 1.0, heads.dtype)


def _squared_hellinger(pattern: Tensor, heads: slice | Tensor, wide: torch.dtype) -> Tensor:
    """Of some heads, (heads, heads)."""
    parts = (_flat(_rows(pattern, span))[heads] for span in _spans(pattern, BLOCK))
    affinity = _products(part.to(wide).sqrt() for part in parts)
    nowhere = _nowhere(pattern)[heads]
    if nowhere.any():
        affinity = affinity + _products([nowhere.to(wide).sqrt()])
    # half the squared distance of the roots: the same as 1 - affinity where rows sum to 1, and
    # still 0 for the same rows where they do so only up to rounding
    own = affinity.diagonal()
    return ((own[:, None] + own) / 2 - affinity) / pattern.shape[-2]


def _scaled(z: HeadVectors) -> Tensor:
    """(layer * head, query, d_head), a head's largest entry 1; zeros stay.

    No likeness depends on a head's scale, but a power of what is very large or very small would
    leave what floats can hold.
    """
    kept, wide = check_z(z)
    heads = kept.detach().to(wide).flatten(0, 1)
    largest = heads.abs().amax((1, 2), keepdim=True)
    return heads / torch.where(largest > 0, largest, 1.0)


def _centred(z: HeadVectors, over: tuple[int, ...]) -> Tensor:
    """`_scaled` less its mean over some axes; NaN for a head of which only rounding is left."""
    heads = _scaled(z)
    centred = heads - heads.mean(over, keepdim=True)
    whole, left = (part.flatten(1).norm(dim=-1) for part in (heads, centred))
    centred[left <= rounding(z) * whole] = torch.nan
    return centred


def _cosines(products: Tensor) -> Tensor:
    """Inner products over the norms that their diagonal gives."""
    own = products.diagonal()
    return products / (own[:, None] * own).sqrt()


def _spans(pattern: Tensor, size: int) -> list[slice]:
    """The queries in parts of about `size` weights of each head."""
    n_query, n_key = pattern.shape[-2:]
    step = max(1, size // n_key)
    return [slice(begin, begin + step) for begin in range(0, n_query, step)]


def _rows(pattern: Tensor, queries: slice) -> Tensor:
    """Those of some queries, (layer, head, queries, key), in a precision to add up in."""
    return pattern.detach()[:, :, queries].to(check_pattern(pattern)[1])


def _flat(rows: Tensor) -> Tensor:
    """All of a head in a row: (layer * head, queries * key)."""
    return rows.flatten(2).flatten(0, 1)


def _nowhere(pattern: Tensor) -> Tensor:
    """1 less each row's sum, (layer * head, query); 0 where that may be rounding."""
    lacking = 1 - pattern.detach().sum(-1, dtype=check_pattern(pattern)[1]).flatten(0, 1)
    return torch.where(lacking > ROUNDING, lacking, 0.0)


def _products(blocks: Iterable[Tensor]) -> Tensor:
    """sum over blocks of block block^T, added up in float64."""
    start = torch.zeros((), dtype=torch.float64)
    return sum(((block @ block.mT).double() for block in blocks), start)


def _mixed(block: Tensor) -> Tensor:
    """sum of s ln s over s = block_i + block_j, for j >= i: float64 (heads, heads)."""
    heads = block.numpy()
    sums = np.zeros((len(heads), len(heads)))
    mixtures, logarithms = np.empty_like(heads), np.empty_like(heads)
    for i, first in enumerate(heads):
        mixture, logarithm = mixtures[i:], logarithms[i:]
        np.add(first + LEAST, heads[i:], out=mixture)
        np.log(mixture, out=logarithm)
        sums[i, i:] = np.vecdot(mixture, logarithm)
    return torch.from_numpy(sums)


def _mixed_on_device(block: Tensor) -> Tensor:
    """As `_mixed`, of torch's own operations."""
    sums = block.new_zeros(len(block), len(block), dtype=torch.float64)
    for i, first in enumerate(block):
        mixture = first + block[i:]
        sums[i, i:] = torch.xlogy(mixture, mixture).sum(-1)
    return sums


def _finished(matrix: Tensor, own: float | None, dtype: torch.dtype) -> Tensor:
    """Symmetric to the last bit, `own` on the diagonal where it is a number."""
    matrix = matrix.triu() + matrix.triu(1).mT
    if own is not None:
        diagonal = matrix.diagonal()
        diagonal.copy_(torch.where(diagonal.isnan(), diagonal, own))
    return matrix.to(dtype)
