"""Likeness of heads by their weights alone: angles, products and subspaces.

All functions take weights as a sequence over layers of (head, d_model, d_head), so W_Q, W_K and
W_V as they are. W_O is (head, d_head, d_model): hand in its transposes, `[w.mT for w in W_O]`,
whose columns are then the directions that a head writes to. Pairs come back in one order, layer by
layer: head h of layer l is number l * n_heads + h. Weights of another shape or kind are refused
with ShapeError, DTypeError or ArgumentError.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given, as_tensor, check_alike, shape_of
from mha_viz.errors import ArgumentError, ShapeError

Weights = Given[Sequence[Float[Array, "head d_model d_head"]]]  # one for each layer

_ROUNDING = 16.0  # a product is zero below so many units of what its factors' norms allow


def cosine(weights: Weights) -> Float[Tensor, "pair pair"]:
    """Compute the cosine between two heads' weights: <W_i, W_j> / (||W_i|| ||W_j||).

    The matrices are compared entry by entry, so two heads that span the same subspace in another
    basis may have any cosine: see `subspace_overlap`. Independent random weights are close to 0.

    Returns (layer * head, layer * head), a plain number in [-1, 1]; NaN for a head of zeros.
    Source: the Frobenius inner product; between heads, Li et al. 2018, of their values on a text.

    >>> W = torch.tensor([[[1.0], [0.0]], [[1.0], [1.0]]])
    >>> cosine([W])
    tensor([[1.0000, 0.7071],
            [0.7071, 1.0000]])
    """
    (layers,) = _checked(weights=weights)
    scaled = map(_scaled, layers)
    units = [W / torch.linalg.vector_norm(W, dim=(-2, -1), keepdim=True) for W in scaled]
    rows = torch.cat([unit.flatten(1) for unit in units])  # NaN for a head of zeros
    return _symmetric(rows @ rows.mT).clamp(-1.0, 1.0)


def product_cosine(first: Weights, second: Weights) -> Float[Tensor, "pair pair"]:
    """Compute the cosine between the products of two matrices of a head: P = first second^T.

    With W_Q and W_K it compares which pairs of tokens heads match (P = W_Q W_K^T), with W_V and
    W_O^T what they move (P = W_V W_O). Unlike the cosine of one matrix it does not depend on the
    basis of the head's inside. No P is ever laid out: <A_i B_i^T, A_j B_j^T> is
    <A_i^T A_j, B_i^T B_j>, and is taken for two layers at a time.

    `left` is (head, d_model, d_head) per layer, `right` (head, d_other, d_head); d_other is d_model
    but in cross-attention. Returns (layer * head, layer * head), a plain number in [-1, 1]; NaN for
    a head whose product is zero within rounding. Source: the query-key and output-value circuits of
    Elhage et al. 2021.

    >>> W = torch.eye(3)[None]
    >>> product_cosine([W, W], [W, -W])
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    lefts, rights = _checked(left=first, right=second)
    pairs = [_orthonormal_right(a, b) for a, b in zip(lefts, rights, strict=True)]
    return _inner_products([a for a, _ in pairs], [b for _, b in pairs]).clamp(-1.0, 1.0)


def subspace_overlap(weights: Weights) -> Float[Tensor, "pair pair"]:
    """Measure how much of one head's subspace lies in another's: ||U_i^T U_j||_F^2 / min(r_i, r_j).

    U is an orthonormal basis of what a head's d_head columns span in R^d_model: what it reads (W_Q,
    W_K, W_V) or writes (W_O^T); r is its rank, for most heads d_head. The value is the mean squared
    cosine of the principal angles.
    Random subspaces have d_head / d_model on average: compare with that, not with 0.

    Returns (layer * head, layer * head), a share in [0, 1]: 1 is the same subspace, 0 is orthogonal
    ones. A head of lower rank spans less: the divisor is then the smaller rank of the two, and 1
    means that the smaller subspace lies in the larger. NaN for a head of zeros or with NaN. Source:
    principal angles, Bjorck and Golub 1973.

    >>> W = torch.tensor([[[1.0], [0.0]], [[1.0], [1.0]]])
    >>> subspace_overlap([W])
    tensor([[1.0000, 0.5000],
            [0.5000, 1.0000]])
    """
    (layers,) = _checked(weights=weights)
    bases = [_basis(layer) for layer in layers]
    squares = _inner_products(bases, bases)
    ranks = torch.cat([basis.square().sum((-2, -1)).round() for basis in bases])
    smaller = torch.minimum(ranks[:, None], ranks)  # 0 / 0 where a head has no subspace
    return (squares / smaller).clamp(0.0, 1.0)


def product_overlap(first: Weights, second: Weights) -> Float[Tensor, "pair pair"]:
    """Measure the overlap of the subspaces of products of a head's matrices, P = first second^T.

    P takes from one subspace (what its rows span) and gives into another (what its columns span):
    W_Q W_K^T from keys to queries, W_V W_O from tokens to outputs. The value is the product of both
    overlaps, which is the overlap of the spaces of all matrices between those subspaces. Random
    ones have (d_head / d_model)^2 on average.

    Shapes are as for `product_cosine`. Returns (layer * head, layer * head), a share in [0, 1]: 1
    is the same two subspaces, 0 means that one of them is orthogonal to the other head's. NaN for a
    head whose product is zero. Source: principal angles, Bjorck and Golub 1973; that of products is
    ours.

    >>> left, right = torch.tensor([[[1.0], [0.0]], [[1.0], [1.0]]]), torch.ones(2, 3, 1)
    >>> product_overlap([left], [right])
    tensor([[1.0000, 0.5000],
            [0.5000, 1.0000]])
    """
    pairs = list(zip(*_checked(left=first, right=second), strict=True))
    # a product's columns span less than those of its first factor, if the second's rank is lower
    columns = [_orthonormal_right(a, b)[0] for a, b in pairs]
    rows = [_orthonormal_right(b, a)[0] for a, b in pairs]
    return subspace_overlap(columns) * subspace_overlap(rows)


def diversity(weights: Given[Float[Array, "head d_model d_head"]]) -> Float[Tensor, ""]:
    """Measure how different a layer's heads are: the mean over i != j of 1 - |cos theta_ij|.

    `weights` are those of one layer. Returns a share in [0, 1]: 0 if all heads are multiples of
    one, 1 if all are orthogonal, as random ones nearly are. NaN (not defined) for a layer of one
    head, or with a head of zeros. Source: the disagreement of Li et al. 2018, there of values on a
    text and by the cosine itself; here by its size, since a head and its negative read the same
    direction.

    >>> diversity(torch.eye(3)[:, :, None])
    tensor(1.)
    """
    angles = cosine([weights])
    off = ~torch.eye(len(angles), dtype=torch.bool, device=angles.device)
    return (1 - angles[off].abs()).mean()  # the mean of no pairs is NaN


def _checked(**named: Weights) -> list[list[Tensor]]:
    """Return each as a list of wide tensors (head, d_model, d_head) with equal heads and width.

    In the precision to add up in: float32, or float64 if they are that.
    """
    heads_and_width, checked = set(), []
    for name, weights in named.items():
        if not len(weights):
            raise ArgumentError(f"{name} must hold at least one layer, got none")
        layers = [as_tensor(f"{name}[{i}]", layer) for i, layer in enumerate(weights)]
        check_alike({f"{name}[{i}]": layer for i, layer in enumerate(layers)})
        shapes = {shape_of(layer) for layer in layers}
        shape = shape_of(layers[0])
        if len(shapes) > 1 or len(shape) != 3 or 0 in shape:
            raise ShapeError(
                f"{name} must be (head, d_model, d_head) in each layer, of one shape and none "
                f"empty, got {', '.join(map(str, sorted(shapes)))}"
            )
        heads_and_width.add((len(layers), shape[0], shape[2]))
        wide = [torch.promote_types(layer.dtype, torch.float32) for layer in layers]
        checked.append([w.detach().to(kind) for w, kind in zip(layers, wide, strict=True)])
    if len(heads_and_width) > 1:
        got = " and ".join(f"{name} {len(w)} x {shape_of(w[0])}" for name, w in named.items())
        raise ShapeError(f"layers, heads and d_head must be the same, got {got}")
    return checked


def _scaled(weights: Tensor) -> Tensor:
    """Scale the largest entry to 1, so that no square underflows; zeros stay."""
    largest = weights.abs().amax((-2, -1), keepdim=True)
    return weights / largest.where(largest > 0, 1.0)


def _orthonormal_right(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Factor first second^T, scaled to norm 1, so that the second factor is orthonormal.

    The first factor then has the product's norm, which is so found without cancellation.
    """
    first, (second, triangle) = _scaled(first), torch.linalg.qr(_scaled(second))
    product = first @ triangle.mT
    norm, *most = (
        torch.linalg.vector_norm(W, dim=(-2, -1), keepdim=True) for W in (product, first, triangle)
    )
    defined = norm > _ROUNDING * torch.finfo(norm.dtype).eps * most[0] * most[1]
    return product / norm.where(defined, torch.nan), second


def _basis(weights: Tensor) -> Tensor:
    """Return orthonormal columns that span what those of (..., d_model, d_head) span.

    As many as the smaller side, whatever the rank: those beyond it are zero. The rank is the number
    of singular values above max(d_model, d_head) * eps times the largest. A head with NaN has none.
    """
    unknown = weights.isnan().any(-1).any(-1)
    weights = weights.masked_fill(unknown[..., None, None], 0.0)  # the decomposition refuses NaN
    U, sizes, _ = torch.linalg.svd(_scaled(weights), full_matrices=False)
    rounding = max(weights.shape[-2:]) * torch.finfo(weights.dtype).eps
    return U * (sizes > rounding * sizes[..., :1])[..., None, :]


def _inner_products(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Compute <A_i B_i^T, A_j B_j^T> = <A_i^T A_j, B_i^T B_j> of all heads of all layers.

    Two layers at a time, whose largest matrix is (head * d_head, head * d_head).
    """
    n_layers, (n_heads, _, width) = len(first), first[0].shape
    same = second is first
    a = [layer.transpose(0, 1).flatten(1) for layer in first]  # (d_model, head * d_head)
    b = a if same else [layer.transpose(0, 1).flatten(1) for layer in second]
    total = first[0].new_empty(n_layers, n_heads, n_layers, n_heads)
    for i in range(n_layers):
        for j in range(i + 1):
            inside = a[i].mT @ a[j]
            inside *= inside.clone() if same else b[i].mT @ b[j]
            block = inside.view(n_heads, width, n_heads, width).sum((1, 3))
            total[i, :, j], total[j, :, i] = block, block.mT
    return _symmetric(total.flatten(2).flatten(0, 1))


def _symmetric(matrix: Tensor) -> Tensor:
    """Copy the lower half to the upper, so that (i, j) and (j, i) agree to the last digit."""
    return matrix.tril() + matrix.tril(-1).mT
