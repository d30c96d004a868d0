"""Metrics of all heads of one layer together, beside those of each alone.

Outputs are those of the heads, z_i W_O,i; the layer's bias b_O is in none of them.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics.checks import HeadVectors, OutputMatrices, Pattern, check_pattern
from mha_viz.core.metrics.outputs import check_outputs, effective_rank, rank_of_gram, variance
from mha_viz.core.metrics.pairs import products
from mha_viz.core.metrics.spread import mutual_information
from mha_viz.core.threads import in_threads

ROUNDING = 1e-4  # relative: what sums of float32 may be off by
Layers = Float[Tensor, "layer"]


class Coverage(NamedTuple):
    """Directions that the heads of a layer write in; see `coverage`."""

    together: Layers
    apart: Layers
    ratio: Layers


class Capacity(NamedTuple):
    """The information of a layer's heads about the query, in nats; see `capacity`."""

    total: Layers
    best: Layers
    pooled: Layers
    bound: Layers


class VarianceStatement(NamedTuple):
    """Both sides of Var(sum of heads) <= sum of Var(head); see `variance_statement`."""

    of_sum: Layers
    sum_of: Layers

    @property
    def ratio(self) -> Layers:
        """(layer,): above 1 the statement fails; NaN (not defined) where no output changes."""
        return torch.where(self.sum_of > 0, self.of_sum / self.sum_of, torch.nan)


class NormStatement(NamedTuple):
    """Both sides of E||sum of heads||^2 = d_model; see `norm_statement`."""

    mean_square: Layers
    d_model: Layers

    @property
    def ratio(self) -> Layers:
        """(layer,): 1 where the statement holds."""
        return self.mean_square / self.d_model


def coverage(z: HeadVectors, W_O: OutputMatrices) -> Coverage:
    """Compare the effective rank of all the heads' outputs stacked with the sum of the heads' own.

    The stack of a layer is (head * query, d_model). Takes about a second for BERT-base: the
    eigenvalues of a d_model x d_model matrix for every layer.

    Returns, each (layer,): `together`, directions in [1, d_model], 0 where nothing is written;
    `apart`, the sum over heads of `effective_rank`; `ratio`, together / apart: 1 / head if all
    heads write in the same directions, 1 if no two share any and each is as strong as it is wide;
    NaN (not defined) where nothing is written. Source: the effective rank of Roy and Vetterli 2007;
    the comparison is ours.

    >>> z = torch.ones(1, 2, 1, 1)
    >>> coverage(z, [torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]]])]).ratio
    tensor([0.5000])
    """
    z, W_O, wide = check_outputs(z, W_O)

    def rank(layer: tuple[Tensor, Tensor]) -> Tensor:
        # z = Q R with orthonormal Q: the rows of R W_O have the singular values of those of z W_O
        short = torch.linalg.qr(layer[0].double(), mode="r").R
        rows = (short @ layer[1].to(short)).flatten(0, 1)
        return rank_of_gram(products([rows if rows.shape[0] < rows.shape[1] else rows.mT]))

    layers = list(zip(z, W_O, strict=True))
    together = torch.stack(list(in_threads(rank, layers))).to(wide)
    apart = effective_rank(z, W_O).sum(-1)
    return Coverage(together, apart, together / apart)


def pattern_coverage(pattern: Pattern) -> Coverage:
    """Compare the union of the heads' spans with the sum of the heads' own: `coverage` of patterns.

    span(A_i) is what the rows of the head's pattern span: the mixtures of keys that it can hand
    on. The textbook's union of these is taken as their sum, all mixtures that the layer can make.

    Rows sum to 1. Returns, each (layer,): `together`, the effective rank of all the heads' rows
    stacked, in [1, key]; `apart`, the sum over heads of that of each pattern; `ratio`, together /
    apart: 1 / head if all patterns are the same. Source: the effective rank of Roy and Vetterli
    2007; the comparison is ours.

    >>> pattern_coverage(torch.eye(3).expand(1, 2, 3, 3)).ratio
    tensor([0.5000])
    """
    pattern, wide = check_pattern(pattern)
    each = torch.eye(pattern.shape[-1], dtype=wide, device=pattern.device)
    return coverage(pattern.to(wide), [each.expand(pattern.shape[1], -1, -1)] * len(pattern))


def capacity(pattern: Pattern) -> Capacity:
    """Bound the information of the keys that a layer's heads attend to about the query.

    Let a query be drawn uniformly and every head look at one key, drawn from its row. The
    information of all these keys together, I(q; k_1 ... k_H), takes key^H sums; but it lies
    between `best` and `bound`.

    Rows sum to 1. Returns, each (layer,) in nats: `total`, sum_i C_i with C_i the head's
    `mutual_information`; `best`, max_i C_i: all keys carry no less than one of them; `pooled`, the
    information of the heads' mean pattern: of one key if the head is not named, at most the mean of
    C_i, hence at most `best`; `bound`, min(total, ln query): given the query the heads draw
    independently, so they carry no more than one by one, and no more than which query it was.
    Source: data processing, independence and convexity, as in Cover and Thomas 2006, chapter 2.

    >>> pattern = torch.eye(2).expand(1, 3, 2, 2)
    >>> total, best, pooled, bound = capacity(pattern)
    >>> total, bound
    (tensor([2.0794]), tensor([0.6931]))
    """
    pattern, wide = check_pattern(pattern)
    each = mutual_information(pattern)
    # a layer at a time: half precision is never held wider as a whole
    mean = torch.stack([layer.mean(0, keepdim=True, dtype=wide) for layer in pattern])
    total, most = each.sum(-1), each.new_tensor(math.log(pattern.shape[-2]))
    return Capacity(total, each.amax(-1), mutual_information(mean)[:, 0], total.minimum(most))


def variance_statement(z: HeadVectors, W_O: OutputMatrices) -> VarianceStatement:
    """Compute both sides of Var(sum_i head_i) <= sum_i Var(head_i), a statement of textbooks.

    It holds only where the heads' covariances sum to nothing or less. Var is over the queries,
    summed over d_model, as in `variance`; the bias b_O would change neither side.

    Returns both, (layer,) in squared units of the residual stream: `of_sum`, Var of the heads'
    summed output; `sum_of`, the sum of the heads' `variance`. Source: the variance of a sum is the
    sum of all covariances; standard.

    >>> z, W_O = torch.tensor([[[[0.0], [2.0]], [[0.0], [2.0]]]]), [torch.ones(2, 1, 1)]
    >>> variance_statement(z, W_O)
    VarianceStatement(of_sum=tensor([4.]), sum_of=tensor([2.]))
    """
    of_sum = [total.var(0, correction=0).sum() for total in _summed(z, W_O)]
    return VarianceStatement(torch.stack(of_sum), variance(z, W_O).sum(-1))


def norm_statement(z: HeadVectors, W_O: OutputMatrices) -> NormStatement:
    """Compute both sides of E_q ||sum_i head_i(q)||^2 = d_model, a statement of textbooks.

    Without the bias b_O, which is not the heads'. Returns both, (layer,): `mean_square`, at least
    0, squared units of the residual stream; `d_model`, its width. Source: what independent
    coordinates of variance 1 would give.

    >>> norm_statement(torch.ones(1, 2, 1, 1), [torch.ones(2, 1, 3)])
    NormStatement(mean_square=tensor([12.]), d_model=tensor([3.]))
    """
    mean_square = torch.stack([total.square().sum(-1).mean() for total in _summed(z, W_O)])
    widths = torch.tensor([float(weight.shape[-1]) for weight in W_O])
    return NormStatement(mean_square, widths.to(mean_square))


def head_rank(z: HeadVectors, W_O: OutputMatrices) -> Layers:
    """Average `effective_rank` over the layer's heads.

    Returns (layer,), directions, at least 0.

    Source: the effective rank of Roy and Vetterli 2007.

    >>> head_rank(torch.eye(3).reshape(1, 1, 3, 3), [torch.eye(3, 5)[None]])
    tensor([3.0000])
    """
    return effective_rank(z, W_O).mean(-1)


def _summed(z: HeadVectors, W_O: OutputMatrices) -> list[Tensor]:
    """Sum head_i of each layer: (query, d_model)."""
    z, W_O, wide = check_outputs(z, W_O)
    side_by_side = z.to(wide).transpose(1, 2).flatten(2)  # all heads' z in one row
    return [rows @ W.to(rows).flatten(0, 1) for rows, W in zip(side_by_side, W_O, strict=True)]
