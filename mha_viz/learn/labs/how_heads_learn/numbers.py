"""Lab 9: the bound on gradients, the chain rule to W_Q, planes of the loss; and stored runs."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.core.layer_numbers import head_name
from mha_viz.core.stored_runs import StoredRun
from mha_viz.learn import loss_landscape
from mha_viz.learn.networks.induction_transformer import (
    EMBEDDINGS,
    Film,
    Settings,
    TinyTransformer,
    film,
    loss_at,
    loss_of,
)
from mha_viz.learn.training import normed, with_weights

FIRST_STEP = 10  # steps before which C is not taken: there it is the start that shows
SLACK = 1.1  # where ||grad L||^2 is 1 / sqrt(t) itself, sqrt(t) * mean creeps up to 2 from below


def series(film: Film, name: str) -> pd.DataFrame:
    """Return some of the numbers of a film over its steps: a column for each head."""
    values = film.numbers[name]
    heads = [head_name(*head) for head in np.ndindex(*values.shape[1:])] if values.ndim > 1 else []
    columns, steps = values.double().reshape(len(values), -1), film.numbers["step"]
    index = pd.Index(steps.numpy(), name="step")
    return pd.DataFrame(columns.numpy(), index, heads or [name]).reset_index()


def largest_weights(patterns: Float[Tensor, "layer head query key"]) -> pd.DataFrame:
    """Return a row for each head and query, with the key that has its largest weight."""
    weights, keys = patterns.max(-1)
    rows = [(head_name(*head), query) for *head, query in np.ndindex(*keys.shape)]
    table = pd.DataFrame(rows, columns=["head", "query"])
    table["key with the largest weight"] = keys.flatten().numpy()
    return table.assign(weight=weights.flatten().double().numpy())


class Bound(NamedTuple):
    """The running mean of ||grad L||^2 against C / sqrt(t).

    Args:
        curves: `t`, how many gradients have been taken, 1 for the first; `mean` of ||grad L||^2
            over the gradients measured up to t; and `line`, C / sqrt(t).
        factor: C, 1.1 times the smallest that bounds the first half, from t = 10 on.
        exceeded: the first t at which the second half is above C / sqrt(t); None: it never is.
    """

    curves: pd.DataFrame
    factor: float
    exceeded: int | None


def bound(steps: Int[Tensor, " step"], squared: Float[Tensor, " step"]) -> Bound | None:
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

    >>> steps = torch.arange(100)
    >>> bound(steps, (steps + 1) ** -0.5).exceeded, bound(steps, torch.ones(100)).exceeded
    (None, 61)
    """
    times = steps.numpy() + 1
    roots, mean = np.sqrt(times), squared.double().numpy().cumsum() / np.arange(1, len(times) + 1)
    growth, half = roots * mean, times.max(initial=0) / 2
    early, late = (times >= FIRST_STEP) & (times <= half), times > max(half, FIRST_STEP)
    if min(early.sum(), late.sum()) < 4:
        return None
    factor = SLACK * float(growth[early].max())
    above = times[late & (growth > factor)].tolist()
    curves = pd.DataFrame({"t": times, "mean": mean, "line": factor / roots})
    return Bound(curves, factor, above[0] if above else None)


class Chain(NamedTuple):
    """dL / dW_Q of one head of the last layer, link by link, on one text.

    Args:
        links: from dL / dlogits to dL / dW_Q, float64, as `links` of the lab's texts explain them.
        tokens: X, what the head reads, (token, d_model): the last link is X^T dL/dQ.
        difference: the largest difference between the last link and torch's own gradient.
    """

    links: tuple[Tensor, ...]
    tokens: Tensor
    difference: Tensor


def chain_rule(
    n_heads: int, weights: Float[Tensor, " weight"], ids: Sequence[int], period: int, head: int
) -> Chain:
    """Compute dL / dW_Q of one head of the last layer by hand, in double precision.

    A head of the last layer reaches the loss on one way only. One of the layer before does so
    through all heads above it, too: the same rules once more for each.

    >>> from mha_viz.learn.networks.induction_transformer import repeat_tokens
    >>> from mha_viz.learn.training import weights_of
    >>> model = TinyTransformer(2, torch.Generator().manual_seed(0))
    >>> ids, period = repeat_tokens(1, (8, 8), torch.Generator().manual_seed(0))
    >>> chain = chain_rule(2, weights_of(model), ids[0].tolist(), 8, head=1)
    >>> float(chain.difference) < 1e-12
    True
    """
    model = with_weights(TinyTransformer(n_heads, torch.Generator()), weights.double())
    text = torch.tensor([list(ids)]), torch.tensor([[period]])
    loss_of(model, text)[0].backward()
    by_torch = model.layers[-1].get_parameter("W_Q").grad
    assert by_torch is not None
    tokens, links = _links(model, text[0][0], period, head)
    return Chain(links, tokens, (links[-1] - by_torch[head]).abs().max())


def largest(matrix: Float[Tensor, "row column"]) -> tuple[int, int]:
    """Return row and column of the entry that is the farthest from 0."""
    return divmod(int(matrix.abs().argmax()), matrix.shape[1])


def largest_term(chain: Chain) -> dict[str, Any]:
    """Return the terms of the largest entry of dL / dW_Q: a sum over queries, X times dL / dQ.

    Its `position`, the `query` of the largest term, how many terms there are (`count`), and as
    `numbers` the two factors of that term, the term, the sum, and the difference from autograd.
    """
    row, column = position = largest(chain.links[-1])
    tokens, d_Q = chain.tokens[:, row], chain.links[-2][:, column]
    terms = tokens * d_Q
    query = int(terms.abs().argmax())
    numbers = tokens[query], d_Q[query], terms[query], terms.sum(), chain.difference
    return {"position": position, "query": query, "count": len(terms), "numbers": numbers}


@torch.no_grad()
def _links(
    model: TinyTransformer, ids: Tensor, period: int, head: int
) -> tuple[Tensor, tuple[Tensor, ...]]:
    *before, last = model.layers
    residual = model.embed[ids] + model.position[: len(ids)]
    for layer in before:
        residual = residual + layer(normed(residual), causal=True).output
    X = normed(residual)
    attention = last(X, causal=True)
    residual = residual + attention.output
    y, A = normed(residual), attention.pattern[head]
    K, V = (X @ last.get_parameter(name)[head] for name in ("W_K", "W_V"))
    predictable = torch.arange(len(ids) - 1) >= period - 1
    logits = y @ model.unembed
    answers = F.one_hot(ids.roll(-1), logits.shape[-1])
    d_logits = torch.zeros_like(logits)
    errors = (logits.softmax(-1) - answers)[:-1][predictable]
    d_logits[:-1][predictable] = errors / predictable.sum()
    d_y = d_logits @ model.unembed.T
    spread = (residual.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()  # as layer_norm has it
    d_r = (d_y - d_y.mean(-1, keepdim=True) - y * (d_y * y).mean(-1, keepdim=True)) / spread
    d_z = d_r @ last.get_parameter("W_O")[head].T
    d_A = d_z @ V.T
    d_S = A * (d_A - (A * d_A).sum(-1, keepdim=True))
    d_Q = d_S @ K / math.sqrt(K.shape[-1])
    return X, (d_logits, d_y, d_r, d_z, d_A, d_S, d_Q, X.T @ d_Q)


def plane_of_run(
    settings: Settings, kind: str = "path", on_step: Callable[[int], None] = lambda step: None
) -> loss_landscape.Plane:
    """Repeat a run, and compute a plane through its weights, along its "path" or "random".

    Steps of training are reported first, then points of the plane.
    """
    n_heads, n_steps, *_ = settings
    weights, across = list(film(*settings, on_step, all_weights=True).weights.values()), None
    if kind == "random":
        model = TinyTransformer(n_heads, torch.Generator())
        across = loss_landscape.random_directions(model, weights[-1].double(), EMBEDDINGS)
    loss = partial(loss_at, n_heads)
    return loss_landscape.plane(loss, weights, across, lambda done: on_step(n_steps + done))


SETTINGS = N_HEADS, N_STEPS, *_ = (4, 400, 0.003, 0, "adam")  # with its rate and its seed
FILM = StoredRun("how_heads_learn", SETTINGS, Film, partial(film, *SETTINGS))
CURVATURE = StoredRun(
    "how_heads_learn_curvature",
    SETTINGS,
    loss_landscape.Curvature,
    lambda: loss_landscape.curvature(partial(loss_at, N_HEADS), film(*SETTINGS).weights[N_STEPS]),
)
PLANES = {
    kind: StoredRun(
        f"how_heads_learn_plane_{kind}",
        (*SETTINGS, kind),
        loss_landscape.Plane,
        partial(plane_of_run, SETTINGS, kind),
    )
    for kind in ("path", "random")
}
STORED = (FILM, CURVATURE, *PLANES.values())
