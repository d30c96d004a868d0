"""Lab 9: the bound on gradients, the chain rule to W_Q, planes of the loss; and stored runs."""

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.stored_runs import StoredRun
from mha_viz.learn import loss_landscape
from mha_viz.learn.labs.how_heads_learn.film import (
    PERIODS,
    Film,
    Settings,
    TinyTransformer,
    film,
    loss_of,
    repeat_tokens,
    restore,
    split_by_name,
)
from mha_viz.learn.training import normed

_TOML = Path(__file__).with_name("chain_rule.toml").read_text("utf-8")
LINKS: list[dict[str, str]] = tomllib.loads(_TOML)["link"]
FIRST_STEP = 10  # steps before which C is not taken: there it is the start that shows
SLACK = 1.1  # where ||grad L||^2 is 1 / sqrt(t) itself, sqrt(t) * mean creeps up to 2 from below


@dataclass(frozen=True)
class Bound:
    """The running mean of ||grad L||^2 against C / sqrt(t).

    Args:
        steps: t, how many gradients have been taken, 1 for the first.
        mean: mean of ||grad L||^2 over the gradients measured up to t.
        factor: C, 1.1 times the smallest that bounds the first half, from t = 10 on.
        exceeded: the first t at which the second half is above C / sqrt(t); None: it never is.
    """

    steps: list[int]
    mean: list[float]
    factor: float
    exceeded: int | None

    @property
    def holds(self) -> bool:
        """True if the C of the first half bounds the second half, too."""
        return self.exceeded is None

    @property
    def line(self) -> list[float]:
        """C / sqrt(t) at each of the steps."""
        return [self.factor / math.sqrt(t) for t in self.steps]


def bound(steps: Sequence[int], squared: Sequence[float]) -> Bound | None:
    """Test mean_{s <= t} ||grad L(W_s)||^2 <= C / sqrt(t) with C of the run's first half.

    Theory speaks of the mean over steps of the squared norm, from above: a single norm may do
    anything. There is some C for every run that has ended, so C is not fitted to all of it.

    Args:
        steps: at which gradients were measured, the first is 0; evenly spaced.
        squared: ||grad L||^2 there, or an estimate of it that is right on average.

    Returns:
        The bound; None with fewer than 4 such numbers in one of the halves.

    Source: Ghadimi and Lan 2013, "Stochastic First- and Zeroth-order Methods for Nonconvex
    Stochastic Programming", corollary 2.2: plain SGD on a smooth loss, with steps of size
    1 / sqrt(number of steps) and a gradient that is right on average.

    >>> found = bound(range(100), [(t + 1) ** -0.5 for t in range(100)])
    >>> found.holds, bound(range(100), [1.0] * 100).exceeded
    (True, 61)
    """
    times = [step + 1 for step in steps]
    sums = torch.tensor(list(squared), dtype=torch.float64).cumsum(0)
    mean = (sums / torch.arange(1, len(times) + 1)).tolist()
    half = times[-1] / 2 if times else 0
    grown = [(t, math.sqrt(t) * m) for t, m in zip(times, mean, strict=True)]
    early = [value for t, value in grown if FIRST_STEP <= t <= half]
    late = [(t, value) for t, value in grown if t > max(half, FIRST_STEP)]
    if min(len(early), len(late)) < 4:
        return None
    factor = SLACK * max(early)
    above = (t for t, value in late if value > factor)
    return Bound(times, mean, factor, next(above, None))


@dataclass(frozen=True)
class Factor:
    """One link of the chain from the loss to a head's W_Q.

    Args:
        symbol: the derivative, LaTeX.
        rule: how it follows from the one before, LaTeX.
        axes: what its axes are.
        value: the derivative itself.
    """

    symbol: str
    rule: str
    axes: str
    value: Tensor

    @property
    def norm(self) -> Tensor:
        """Its size."""
        return self.value.norm()

    @property
    def position(self) -> tuple[int, int]:
        """Row and column of the entry that is the farthest from 0."""
        return divmod(int(self.value.abs().argmax()), self.value.shape[1])

    @property
    def largest(self) -> Tensor:
        """The entry that is the farthest from 0."""
        return self.value[self.position]


@dataclass(frozen=True)
class Chain:
    """dL / dW_Q of one head of the last layer, link by link, on one text.

    Args:
        factors: from dL / dlogits to dL / dW_Q, float64.
        tokens: X, what the head reads, (token, d_model): the last factor is X^T dL/dQ.
        difference: the largest difference between the last factor and torch's own gradient.
    """

    factors: list[Factor]
    tokens: Float[Tensor, "token d_model"]
    difference: float

    @property
    def gradient(self) -> Float[Tensor, "d_model d_head"]:
        """dL / dW_Q, the last link."""
        return self.factors[-1].value


def chain_rule(
    n_heads: int, weights: Float[Tensor, " weight"], ids: Sequence[int], period: int, head: int
) -> Chain:
    """Compute dL / dW_Q of one head of the last layer by hand, in double precision.

    A head of the last layer reaches the loss on one way only. One of the layer before does so
    through all heads above it, too: the same rules once more for each.

    >>> from mha_viz.learn.labs.how_heads_learn.film import repeat_tokens
    >>> from mha_viz.learn.training import weights_of
    >>> model = TinyTransformer(2, torch.Generator().manual_seed(0))
    >>> ids, period = repeat_tokens(1, (8, 8), torch.Generator().manual_seed(0))
    >>> chain = chain_rule(2, weights_of(model), ids[0].tolist(), 8, head=1)
    >>> chain.difference < 1e-12
    True
    """
    model = restore(n_heads, weights.double())
    text = torch.tensor([list(ids)]), torch.tensor([[period]])
    loss_of(model, text)[0].backward()
    by_torch = model.attention[-1].W_Q.grad
    assert by_torch is not None
    with torch.no_grad():
        tokens, factors = _links(model, text[0][0], period, head)
    return Chain(factors, tokens, float((factors[-1].value - by_torch[head]).abs().max()))


def largest_term(chain: Chain) -> dict[str, Any]:
    """Return the terms of the largest entry of dL / dW_Q: a sum over queries, X times dL / dQ.

    Its `position`, the `query` of the largest term, how many terms there are (`count`), and as
    `numbers` the two factors of that term, the term, the sum, and the difference from autograd.
    """
    row, column = position = chain.factors[-1].position
    tokens, d_Q = chain.tokens[:, row], chain.factors[-2].value[:, column]
    terms = tokens * d_Q
    query = int(terms.abs().argmax())
    numbers = tokens[query], d_Q[query], terms[query], terms.sum(), chain.difference
    return {"position": position, "query": query, "count": len(terms), "numbers": numbers}


def _links(
    model: TinyTransformer, ids: Tensor, period: int, head: int
) -> tuple[Tensor, list[Factor]]:
    *before, last = model.attention
    residual = model.embed[ids] + model.position[: len(ids)]
    for layer in before:
        residual = residual + layer(normed(residual), causal=True).output
    X = normed(residual)
    attention = last(X, causal=True)
    residual = residual + attention.output
    y, A = normed(residual), attention.pattern[head]
    K, V = X @ last.W_K[head], X @ last.W_V[head]
    predictable = torch.arange(len(ids) - 1) >= period - 1
    logits = y @ model.unembed
    answers = F.one_hot(ids.roll(-1), logits.shape[-1])
    d_logits = torch.zeros_like(logits)
    errors = (logits.softmax(-1) - answers)[:-1][predictable]
    d_logits[:-1][predictable] = errors / predictable.sum()
    d_y = d_logits @ model.unembed.T
    spread = (residual.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()  # as layer_norm has it
    d_r = (d_y - d_y.mean(-1, keepdim=True) - y * (d_y * y).mean(-1, keepdim=True)) / spread
    d_z = d_r @ last.W_O[head].T
    d_A = d_z @ V.T
    d_S = A * (d_A - (A * d_A).sum(-1, keepdim=True))
    d_Q = d_S @ K / math.sqrt(K.shape[-1])
    values = (d_logits, d_y, d_r, d_z, d_A, d_S, d_Q, X.T @ d_Q)
    return X, [Factor(**link, value=value) for link, value in zip(LINKS, values, strict=True)]


# -- where training has led ----------------------------------------------------------------------

N_TEXTS = 32  # on which the loss is taken: the same for all weights, none of them trained on
KINDS = ("path", "random")  # of planes


def loss_at(n_heads: int, weights: Float[Tensor, " weight"]) -> Float[Tensor, ""]:
    """Return the loss of a model with these weights on texts never trained on."""
    model = TinyTransformer(n_heads, torch.Generator())
    texts = repeat_tokens(N_TEXTS, PERIODS, torch.Generator().manual_seed(2**33))
    return loss_of(model, texts, weights)[0]


def plane_of_run(
    settings: Settings, kind: str = "path", on_step: Callable[[int], None] | None = None
) -> loss_landscape.Plane:
    """Repeat a run, and compute the plane through its weights: one of `KINDS`.

    A film keeps few of its weights: those of all snapshots are some megabytes. Steps of training
    are reported first, then points of the plane.
    """
    n_heads, n_steps, lr, seed, optimizer = settings
    done = on_step or (lambda step: None)
    run = film(n_heads, n_steps, lr, seed, done, optimizer, all_weights=True)
    weights = list(run.weights.values())
    across = None if kind == "path" else random_directions(n_heads, weights[-1].double())
    loss = partial(loss_at, n_heads)
    return loss_landscape.plane(loss, weights, across, lambda n: done(n_steps + n))


def random_directions(n_heads: int, end: Float[Tensor, " weight"]) -> Float[Tensor, "2 weight"]:
    """Draw two random directions, each filter as long as that of the weights.

    A filter is what makes one number: a column of a matrix, and a row of an embedding. So planes of
    different networks can be compared.

    Source: Li et al. 2018, section 4.
    """
    random = torch.Generator().manual_seed(0)
    model = TinyTransformer(n_heads, torch.Generator())
    drawn = [torch.randn(len(end), generator=random, dtype=torch.float64) for _ in range(2)]
    directions = torch.stack(drawn)
    ends = split_by_name(model, end)
    for direction in directions:
        for name, part in split_by_name(model, direction).items():  # which are its own parts
            axis = -1 if name in ("embed", "position") else -2
            part *= ends[name].norm(dim=axis, keepdim=True) / part.norm(dim=axis, keepdim=True)
    return directions


DEFAULTS = N_HEADS, N_STEPS, *_ = (4, 400, 0.003, 0)  # with its rate and its seed
SETTINGS = (*DEFAULTS, "adam")
FILM = StoredRun("how_heads_learn", SETTINGS, Film, partial(film, *DEFAULTS))
CURVATURE = StoredRun(
    "how_heads_learn_curvature",
    SETTINGS,
    loss_landscape.Curvature,
    lambda: loss_landscape.curvature(partial(loss_at, N_HEADS), film(*DEFAULTS).weights[N_STEPS]),
)
PLANES = {
    kind: StoredRun(
        f"how_heads_learn_plane_{kind}",
        (*SETTINGS, kind),
        loss_landscape.Plane,
        partial(plane_of_run, SETTINGS, kind),
    )
    for kind in KINDS
}
STORED = (FILM, CURVATURE, *PLANES.values())
