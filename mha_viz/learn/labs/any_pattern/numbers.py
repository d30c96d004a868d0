"""Lab 7: which patterns a head of width d_k can make, found by fitting one."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.dot_product import scores, softmax
from mha_viz.core.metrics import METRICS
from mha_viz.core.stored_runs import StoredRun
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.learn.labs.any_pattern.patterns import (
    onto_span,
    pattern_of,
    preset,
    real_tokens,
)
from mha_viz.learn.training import descend

STEPS = 1500
RESTARTS = 3  # from random numbers; one more from the singular vectors
FLOOR = 1e-4  # stands in for a weight of 0, which no finite score gives
_RATE = 0.15  # of Adam, falling along a half cosine to a hundredth


def centred_log(target: Float[Tensor, "query key"]) -> Float[Tensor, "query key"]:
    """Return ln of the weights minus row means: the scores of least norm that give these weights.

    Softmax forgets what is added to a whole row, so a head of width d_k gives a pattern without
    zeros exactly if, and only if, this matrix has rank d_k or less. That is never above n - 1.

    >>> centred_log(torch.full((4, 4), 0.25)).abs().max()
    tensor(0.)
    """
    logs = target.clamp(min=FLOOR).log()
    return logs - logs.mean(-1, keepdim=True)


def exact_width(target: Float[Tensor, "query key"]) -> int | None:
    """Return the least d_k that gives this pattern exactly; None for one with zeros.

    >>> exact_width(torch.full((4, 4), 0.25)), exact_width(torch.eye(4))
    (1, None)
    """
    if bool((target <= 0).any()):
        return None
    return max(1, int(torch.linalg.matrix_rank(centred_log(target.double()), rtol=1e-5)))


class Singular(NamedTuple):
    """The best scores of each rank, measured in scores (Eckart and Young 1936).

    Args:
        left_over: (width,), root of the sum of squares that rank d_k must leave of the centred
            logarithms: no head of that width comes nearer to them, in scores.
        query, key: (width, query, n), heads that come that near; columns from d_k on are 0.
    """

    left_over: Tensor
    query: Tensor
    key: Tensor


def singular(target: Float[Tensor, "query key"]) -> Singular:
    """Cut the centred logarithms of a pattern to every rank 1..n.

    The least squared error in scores is not the least error in weights: where softmax is nearly
    0, even large errors in a score change nothing. So this is a head to begin with, and no bound
    on what a trained one can do.

    Source: Eckart and Young 1936.

    >>> singular(torch.full((4, 4), 0.25)).left_over.max() < 1e-5
    tensor(True)
    """
    U, sizes, V = torch.linalg.svd(centred_log(target))
    tail = (sizes.square().flip(0).cumsum(0).flip(0) - sizes.square()).clamp(min=0)
    root = sizes.clamp(min=0).sqrt()
    cut = _columns(len(target))
    return Singular(tail.sqrt(), U * root * cut, V.mT * root * cut)


@dataclass(frozen=True)
class Fit:
    """Heads of every width 1..n, fitted to one pattern.

    Args:
        target: (query, key). pattern: (width, query, key), of the best head of each width.
        query, key: (width, token, n): its W_Q and W_K; columns from d_k on are 0.
        kl, jensen_shannon: (width,), mean over rows, nats. largest: largest |difference| of a
            weight.
        singular_kl: (width,), KL of the head made of singular vectors, not trained.
        off: (width,), distance of the centred scores from the pattern's centred logarithms, never
            below `singular(target).left_over`.
    """

    target: Tensor
    pattern: Tensor
    query: Tensor
    key: Tensor
    kl: Tensor
    jensen_shannon: Tensor
    largest: Tensor
    singular_kl: Tensor
    off: Tensor


def fit(
    target: Float[Tensor, "query key"],
    seed: int = 0,
    steps: int = STEPS,
    on_step: Callable[[int], None] | None = None,
    tokens: Float[Tensor, "token d_model"] | None = None,
) -> Fit:
    """Train W_Q and W_K of heads of all widths at once, from several starts; keep the best of each.

    One-hot tokens, so that W_Q and W_K hold a query and a key for each of them: nothing but d_k
    limits the pattern. With tokens X, queries are X W_Q and keys X W_K: they are held where such
    matrices can lie. What is made small is the mean of KL(target || pattern) over rows.

    Args:
        target: rows that sum to 1, 4 to 12 of them.
        seed: of the random starts.
        steps: of Adam.
        on_step: called with the number of steps done, now and then.
        tokens: X, a row for each token; None for one-hot vectors.

    Raises:
        ShapeError: no square pattern, or X of another length. ArgumentError: rows that do not sum
            to 1.

    Source: the question is that of Bhojanapalli et al. 2020 (low-rank bottleneck).

    >>> found = fit(torch.eye(4), steps=50)
    >>> found.pattern.shape, bool(found.kl[3] < 0.1)
    (torch.Size([4, 4, 4]), True)
    """
    n_tokens = len(target if tokens is None else tokens)
    if target.shape != (n_tokens, n_tokens):
        raise ShapeError(f"{n_tokens} tokens need a square pattern, got {tuple(target.shape)}.")
    if not ((target >= 0).all() and (target.sum(-1) - 1).abs().max() < 1e-4):
        raise ArgumentError("every row of a pattern must be weights that sum to 1.")
    n, random = len(target), torch.Generator().manual_seed(seed)
    start, cut = singular(target), _columns(n)
    query, key = (  # (start, width, token, n), the last start from singular vectors
        torch.cat([torch.randn(RESTARTS, n, n, n, generator=random), part[None]])
        for part in (start.query, start.key)
    )
    onto = None if tokens is None else onto_span(tokens)
    least, best = torch.full(query.shape[:2], math.inf), [query.clone(), key.clone()]
    moving = [query.requires_grad_(), key.requires_grad_()]

    def loss() -> Tensor:
        losses = _divergence(target, *(_reached(part, cut, onto) for part in moving))
        better = losses.detach() < least
        least[better] = losses.detach()[better]
        for part, moved in zip(best, moving, strict=True):
            part[better] = moved.detach()[better]
        return losses.sum()

    adam = torch.optim.Adam(moving, lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps, _RATE / 100)
    for done in descend(adam, loss, steps + 1, schedule):
        if on_step is not None and done % 20 == 1:
            on_step(done - 1)
    winner, widths = least.argmin(0), torch.arange(n)
    query, key = (_reached(part, cut, onto)[winner, widths] for part in best)
    return _measured(target, query, key)


def _reached(part: Tensor, cut: Tensor, onto: Tensor | None) -> Tensor:
    """Return queries or keys cut to each width, and to what X times a matrix can be."""
    return part * cut if onto is None else onto @ (part * cut)


def _columns(n: int) -> Float[Tensor, "width 1 n"]:
    """Return a mask of the columns that a head of width 1..n has."""
    return torch.ones(n, n).tril()[:, None]


def _divergence(
    target: Float[Tensor, "query key"],
    query: Float[Tensor, "*head query width"],
    key: Float[Tensor, "*head key width"],
) -> Float[Tensor, "*head"]:
    """Return the mean over rows of KL(target || softmax(scores)), nats; never infinite."""
    raw = scores(query, key, scale=1.0)
    logs = raw - raw.logsumexp(-1, keepdim=True)
    return (torch.special.xlogy(target, target) - target * logs).sum(-1).mean(-1)


def _measured(target: Tensor, query: Tensor, key: Tensor) -> Fit:
    start, raw = singular(target), scores(query, key, scale=1.0)  # the scale is in W_Q already
    pattern = softmax(raw)
    both = torch.cat([target[None], pattern])[None]  # heads of one layer, the target first
    off = raw - raw.mean(-1, keepdim=True) - centred_log(target)
    return Fit(
        target=target,
        pattern=pattern,
        query=query,
        key=key,
        kl=_divergence(target, query, key).clamp(min=0),
        jensen_shannon=METRICS["jensen_shannon"].function(both)[0, 1:],
        largest=(pattern - target).abs().amax((1, 2)),
        singular_kl=_divergence(target, start.query, start.key).clamp(min=0),
        off=off.flatten(1).norm(dim=1),
    )


class Distances(NamedTuple):
    """Distances of one pattern from another, and of what both make of the same values.

    Args:
        pattern: Frobenius norm of A - made, (query, key).
        output: of A X - made X, (query, d_model), with W_V W_O = I.
        bound: of `output`: `pattern` times the largest singular value of X.
    """

    pattern: float
    output: float
    bound: float


def distances(
    target: Float[Tensor, "query key"],
    pattern: Float[Tensor, "query key"],
    tokens: Float[Tensor, "key d_model"],
) -> Distances:
    """Compare two patterns as patterns, and by their outputs.

    A pattern and an output have no distance: their shapes are (query, key) and (query, d_model).

    >>> distances(torch.eye(2), torch.eye(2).flip(0), torch.ones(2, 3))  # two equal tokens
    Distances(pattern=2.0, output=0.0, bound=4.8990)
    """
    apart = target - pattern
    size, of_output = float(apart.norm()), float((apart @ tokens).norm())
    return Distances(size, of_output, size * float(torch.linalg.matrix_norm(tokens, 2)))


DEFAULT = preset("diagonal", 8)  # what is painted when the lab opens
D_MODEL = 4  # of its real tokens
_TARGET = pattern_of(DEFAULT)
_REAL = partial(fit, _TARGET, tokens=real_tokens(len(DEFAULT), D_MODEL))
STORED = (
    StoredRun("any_pattern", (DEFAULT, 0), Fit, partial(fit, _TARGET)),
    StoredRun("any_pattern_real", (DEFAULT, 0, D_MODEL, False), Fit, _REAL),
)
