"""Both sides of every statement of textbook.py, in every layer of a model."""

import math
from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from mha_viz.core.metrics.joint_information import (
    N_DRAWS,
    NO_TARGET,
    sampled_information,
    shared_information,
)
from mha_viz.core.metrics.layers import capacity, norm_statement, variance_statement
from mha_viz.core.metrics.outputs import rank_of_gram
from mha_viz.core.metrics.parameters import diversity, subspace_overlap
from mha_viz.core.metrics.spread import mutual_information
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError, NotKeptError
from mha_viz.interventions.robustness import Robustness
from mha_viz.reports.textbook import Sides

HARMED_SHARE = "share of heads beyond it"
MAX_INFORMATION = "ln n, the most that there can be"
# Of which shape they are is checked by the metrics, whose errors are for people.
Pattern = Annotated[Tensor, "layer head query key"]
Weights = Annotated[Tensor, "head d_model d_head"]


def of_model(model: AttentionModel, space: str, part: str) -> dict[str, Sides]:
    """Measure the statements about weights on "W_Q", "W_K", "W_V" or "W_O" of a part of a model.

    Nothing is returned where it is not known where the family keeps its weights.
    """
    try:
        layers = model.head_weights(space, part)
    except (NotKeptError, AttentionUnavailableError):
        return {}
    return of_weights([layer.mT if space == "W_O" else layer for layer in layers])


def of_record(record: AttentionRecord) -> dict[str, Sides]:
    """Measure the statements about outputs and information on a text."""
    of_text = of_pattern(record.pattern)
    if record.z is None or not record.W_O:
        return of_text
    return of_outputs(record.z, record.W_O) | of_text


def of_weights(weights: Sequence[Weights]) -> dict[str, Sides]:
    """Measure the statements about weights: "orthogonal", "direct-sum" and "diversity".

    `weights` are per layer (head, d_model, d_head); W_O is transposed. With one head, overlap and
    diversity are not defined (NaN).

    Source: principal angles, Bjorck and Golub 1973; diversity after Li et al. 2018.

    >>> sides = of_weights([torch.eye(4).reshape(4, 2, 2).transpose(0, 1)])
    >>> float(sides["orthogonal"].left_side), float(sides["direct-sum"].left_side)
    (0.0, 4.0)
    """
    n_heads, d_model, d_head = weights[0].shape
    off_diagonal, rows = ~torch.eye(n_heads, dtype=torch.bool), list[list[float]]()
    for layer in weights:
        between = subspace_overlap([layer]).cpu()[off_diagonal]
        heads = layer.detach().double().cpu()
        together = heads.transpose(0, 1).flatten(1)  # (d_model, head * d_head)
        ranks = _rank(together), sum(map(_rank, heads)), rank_of_gram(together @ together.mT)
        nearest = between.amax() if n_heads > 1 else math.nan
        rows.append([float(x) for x in (between.mean(), nearest, *ranks, diversity(layer))])
    overlap, nearest, dimension, total, effective, diverse = torch.tensor(rows).T
    # |cos| of two random matrices is |N(0, 1 / (d_model * d_head))|; D is a mean over all pairs.
    spread = 1 / math.sqrt(d_model * d_head)
    mean = 1 - math.sqrt(2 / math.pi) * spread
    error = math.sqrt(1 - 2 / math.pi) * spread / math.sqrt(max(math.comb(n_heads, 2), 1))
    chance, width, random, least = (
        torch.full_like(overlap, value)
        for value in (min(d_head / d_model, 1.0), d_model, mean, mean - 1.96 * error)
    )
    near = {"nearest two": nearest, "random subspaces": chance}
    counted = {"sum of the heads’ dimensions": total, "effective rank": effective}
    zero, met = torch.zeros_like(overlap), dimension == total
    return {
        "orthogonal": Sides(overlap, overlap, zero, scale=chance, more=near),
        "direct-sum": Sides(dimension, dimension, width, met=met, more=counted),
        "diversity": _certain(diverse, least, **{"mean of random matrices": random}),
    }


def _rank(matrix: Tensor) -> int:
    """Count directions above the rounding of the float32 that the weights were."""
    short = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT
    rounding = max(matrix.shape) * torch.finfo(torch.float32).eps
    gram = short @ short.mT  # its eigenvalues are the squares of the singular values
    return int(torch.linalg.matrix_rank(gram, rtol=rounding**2, hermitian=True))


def of_outputs(
    z: Annotated[Tensor, "layer head query d_head"],
    W_O: Sequence[Annotated[Tensor, "head d_head d_model"]],
) -> dict[str, Sides]:
    """Measure the statements about outputs, without the bias b_O: "norm" and "variance".

    The variance of one token is not defined (NaN).

    >>> sides = of_outputs(torch.ones(1, 2, 1, 1), [torch.ones(2, 1, 3)])
    >>> float(sides["norm"].left_side), float(sides["variance"].left_side)
    (12.0, nan)
    """
    norm, variance = norm_statement(z, W_O), variance_statement(z, W_O)
    of_sum, sum_of = variance.of_sum, variance.sum_of
    if z.shape[-2] < 2:  # one token does not vary
        of_sum, sum_of = torch.full_like(of_sum, torch.nan), torch.full_like(sum_of, torch.nan)
    return {"norm": _certain(norm.mean_square, norm.d_model), "variance": _certain(of_sum, sum_of)}


def of_pattern(pattern: Pattern, n_draws: int = N_DRAWS) -> dict[str, Sides]:
    """Measure statements on information: "best-head", "capacity", "given-query", "redundancy".

    A query is drawn uniformly, and each head draws one key from that query's row. What all keys
    together tell about the query takes key^H sums; certain are only bounds: no less than the best
    pair of heads, no more than the sum of all heads or ln(query). Random draws give an interval.
    Given the query the draws are independent: what heads share then, I(k_1; ...; k_H | q), is 0.

    Returns:
        Their sides, nats. A layer in which some query looks at nothing is not defined (NaN); pairs
        are not defined for texts too long to go through them.

    Raises:
        ShapeError, DTypeError: if it is no pattern. ArgumentError: fewer than 2 draws.

    Source: Cover and Thomas 2006, chapter 2. As the keys are independent given the query, the sum
    of all parts less their total correlation is exactly the whole.

    >>> sides = of_pattern(torch.eye(4).expand(1, 2, 4, 4))
    >>> numbers = [(float(side.left_side), float(side.right_side)) for side in sides.values()]
    >>> [(round(first, 2), round(second, 2)) for first, second in numbers]
    [(1.39, 1.39), (1.39, 2.77), (1.39, 2.77), (1.39, 1.39)]
    """
    each, bounds = mutual_information(pattern), capacity(pattern)
    shared = shared_information(pattern)
    upper = torch.ones_like(shared[0]).triu(1).bool()
    total, best = bounds.total, bounds.best
    low, high = best, bounds.bound
    if pattern.shape[1] > 1:
        # two heads tell exactly the sum of what either tells, less what they share
        pairs = (each[:, :, None] + each[:, None, :] - shared)[:, upper].amax(-1)
        low = torch.where(pairs.isnan(), best, pairs).maximum(best).minimum(high)
    if pattern.shape[1] <= 2 and not bool(shared.isnan().any()):
        high = low
    drawn = sampled_information(pattern, n_draws)
    sampled = drawn[0].clamp(low, high), drawn[1].clamp(low, high)  # to what is certain
    without_target = (pattern.sum(-1) < 1 - NO_TARGET).flatten(1).any(-1)
    low, high, total = (torch.where(without_target, torch.nan, side) for side in (low, high, total))
    less = total - shared[:, upper].sum(-1)
    parts = {"sum of all heads": total}
    most = torch.full_like(total, math.log(pattern.shape[-2]))
    return {
        "best-head": Sides(low, high, best, sampled, more={"heads’ mean pattern": bounds.pooled}),
        "capacity": Sides(low, high, total, sampled, more={MAX_INFORMATION: most}),
        "given-query": Sides(low, high, total, sampled),
        "redundancy": Sides(low, high, less, sampled, more=parts),
    }


def of_loss(tested: Robustness, n_layers: int) -> dict[str, Sides]:
    """Measure the statement about failure: the loss when one head of a layer is off.

    "failure" is the largest rise over the heads of a layer that were off, nats per token, beside
    the tolerance; NaN for a layer without such a head.
    """
    mean, rows = tested.change.mean(1), list[tuple[float, float]]()
    for layer in range(n_layers):
        rise = mean[tested.heads[:, 0] == layer]
        share = (rise > tested.tolerance).double().mean()
        rows.append((float(rise.amax()), float(share)) if len(rise) else (math.nan, math.nan))
    largest, harmed = torch.tensor(rows, dtype=mean.dtype).T
    tolerance = torch.full_like(largest, tested.tolerance)
    return {"failure": _certain(largest, tolerance, **{HARMED_SHARE: harmed})}


def _certain(first: Tensor, second: Tensor, **more: Tensor) -> Sides:
    return Sides(first, first, second, more=more)
