"""Lab 9's trained model: the ends of the Hessian's spectrum, and a plane of the loss."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.errors import ArgumentError
from mha_viz.learn.labs.how_heads_learn import film as lab

N_TEXTS = 32  # on which the loss is taken: the same for all weights, none of them trained on
N_PRODUCTS = 30  # Hessian-vector products: the ends of the spectrum are found soon
KINDS = ("path", "random")  # of planes
SIDE = 17  # points of the plane along each axis
LEVEL_SHARE = 1e-3  # curvature below this share of the largest is level
_MARGIN_SHARE = 0.2  # of the path's extent, that the plane shows around it
_NUDGE_LENGTH = 1e-4  # length of the step by which the loss itself tells a curvature


def texts() -> lab.Texts:
    """Return the texts on which the loss is taken."""
    return lab.repeat_tokens(N_TEXTS, lab.PERIODS, torch.Generator().manual_seed(2**33))


@dataclass(frozen=True)
class Curvature:
    """The largest and the smallest eigenvalue of the Hessian of the loss.

    Args:
        largest: the largest eigenvalue. smallest: the smallest; below 0 the loss curves down there.
        unsure: by how much each of the two can be off, in their order.
        measured: the loss's own second difference along the two eigenvectors, in their order.
        gradient: ||grad L||, 0 at a minimum and at a saddle point.
        loss: nats.
    """

    largest: float
    smallest: float
    unsure: tuple[float, float]
    measured: tuple[float, float]
    gradient: float
    loss: float

    @property
    def verdict(self) -> str:
        """ "down": some direction curves down for sure; "up": none does; "level": too near to 0."""
        level = LEVEL_SHARE * self.largest + self.unsure[1]
        if self.smallest < -level:
            return "down"
        return "up" if self.smallest > level else "level"


def curvature(
    n_heads: int,
    weights: Float[Tensor, " weight"],
    on_step: Callable[[int], None] | None = None,
    n_products: int = N_PRODUCTS,
) -> Curvature:
    """Compute both ends of the Hessian's spectrum by Lanczos, in double precision.

    `weights` are those of a film; `on_step` gets the number of Hessian-vector products done.

    Source: Pearlmutter 1994 for the products; Lanczos 1950, with every vector made orthogonal to
    all before it; Ghorbani, Krishnan and Xiao 2019 for Hessians of networks.
    """
    if n_products < 2:
        raise ArgumentError(f"2 Hessian-vector products are the least, got {n_products}.")
    model = lab.restore(n_heads, weights.double())
    probe, parameters = texts(), list(model.parameters())
    loss = lab.loss_of(model, probe)[0]
    gradient = _joined(torch.autograd.grad(loss, parameters, create_graph=True))

    def product(vector: Tensor) -> Tensor:
        slope = gradient @ vector
        return _joined(torch.autograd.grad(slope, parameters, retain_graph=True))

    random = torch.Generator().manual_seed(0)
    start = torch.randn(len(weights), generator=random, dtype=torch.float64)
    values, vectors, unsure = lanczos(product, start, n_products, on_step)

    def nudged(step: Tensor) -> float:
        with torch.no_grad():
            return float(lab.loss_of(lab.restore(n_heads, weights.double() + step), probe)[0])

    middle = float(loss.detach())
    measured = [
        (nudged(_NUDGE_LENGTH * v) - 2 * middle + nudged(-_NUDGE_LENGTH * v)) / _NUDGE_LENGTH**2
        for v in vectors
    ]
    slope = float(gradient.detach().norm())
    return Curvature(values[0], values[1], unsure, (measured[0], measured[1]), slope, middle)


def lanczos(
    product: Callable[[Tensor], Tensor],
    start: Float[Tensor, " weight"],
    n_products: int,
    on_step: Callable[[int], None] | None = None,
) -> tuple[tuple[float, float], tuple[Tensor, Tensor], tuple[float, float]]:
    """Compute the extreme eigenvalues of a symmetric matrix given by its product with a vector.

    Returns:
        The largest and the smallest value, their vectors of length 1, and ||H v - value v|| of
        each: some eigenvalue lies within that distance.

    >>> matrix = torch.diag(torch.tensor([5.0, 1.0, -2.0], dtype=torch.float64))
    >>> values, *_ = lanczos(matrix.mv, torch.ones(3, dtype=torch.float64), 3)
    >>> [round(value, 6) for value in values]
    [5.0, -2.0]
    """
    basis = [start / start.norm()]
    images: list[Tensor] = []
    for done in range(1, min(n_products, len(start)) + 1):
        images.append(product(basis[-1]))
        if on_step is not None:
            on_step(done)
        residual, vectors = images[-1], torch.stack(basis)
        for _ in range(2):  # once leaves rounding behind, which grows
            residual = residual - vectors.T @ (vectors @ residual)
        if float(residual.norm()) <= 1e-10 * float(images[-1].norm()) or done == n_products:
            break  # the basis spans all that the products can reach
        basis.append(residual / residual.norm())
    vectors, products = torch.stack(basis[: len(images)]), torch.stack(images)
    small = vectors @ products.T
    values, inner = torch.linalg.eigh((small + small.T) / 2)
    ends = [(float(values[i]), inner[:, i]) for i in (-1, 0)]
    (high, u), (low, v) = ends
    off = [float((part @ products - value * (part @ vectors)).norm()) for value, part in ends]
    return (high, low), (u @ vectors, v @ vectors), (off[0], off[1])


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


@dataclass(frozen=True)
class Plane:
    """The loss on a plane through the weights at the end of training.

    Args:
        x, y: (point,), how far along the two directions; the end of training is 0, 0.
        loss: (y, x), nats.
        path: (snapshot, 2), where the weights of each snapshot come to lie in the plane.
        share: how much of the path's extent lies in the plane, in [0, 1].
    """

    x: Tensor
    y: Tensor
    loss: Tensor
    path: Tensor
    share: float


def plane(
    n_heads: int,
    weights: Sequence[Float[Tensor, " weight"]],
    kind: str = "path",
    on_step: Callable[[int], None] | None = None,
    side: int = SIDE,
) -> Plane:
    """Compute the loss on a plane through the last of these weights, and the path to it.

    "path": the two directions in which the weights have moved most (principal components of their
    distance from the end). "random": two random directions, each column as long as the column of
    weights that it moves, so that planes of different networks can be compared.

    Args:
        n_heads: in each layer.
        weights: along the training, 3 at least; the last are those of the trained model.
        kind: "path" or "random".
        on_step: called with the number of points done.
        side: points along each axis at most; odd, and 3 at least.

    Raises:
        ArgumentError: another kind, or fewer weights.

    Source: Li, Xu, Taylor, Studer and Goldstein 2018, "Visualizing the Loss Landscape of Neural
    Nets", sections 4 (filter normalisation) and 7 (paths).
    """
    if kind not in KINDS or len(weights) < 3:
        raise ArgumentError(
            f"A plane is one of {', '.join(KINDS)} and needs 3 weights along the training, got "
            f"{kind!r} and {len(weights)}."
        )
    end = weights[-1].double()
    moved = torch.stack([w.double() - end for w in weights])
    across = _principal(moved) if kind == "path" else _random(n_heads, end)
    path = torch.linalg.lstsq(across.T, moved.T).solution.T
    x = y = torch.linspace(-1, 1, side, dtype=torch.float64)
    if kind == "path":
        x, y = (_axis(along, side) for along in path.T)
    probe, losses = texts(), torch.empty(len(y) * len(x), dtype=torch.float64)
    for i, (down, right) in enumerate(torch.cartesian_prod(y, x)):
        point = (end + right * across[0] + down * across[1]).float()
        with torch.no_grad():
            losses[i] = lab.loss_of(lab.restore(n_heads, point), probe)[0]
        if on_step is not None:
            on_step(i + 1)
    share = float((path @ across).square().sum() / moved.square().sum().clamp(min=1e-300))
    return Plane(x, y, losses.view(len(y), len(x)), path, min(share, 1.0))


def plane_of_run(
    settings: lab.Settings, kind: str = "path", on_step: Callable[[int], None] | None = None
) -> Plane:
    """Repeat a run, and compute the plane through its weights.

    A film keeps few of its weights: those of all snapshots are some megabytes. Steps of training
    are reported first, then points of the plane.
    """
    n_heads, n_steps, lr, seed, optimizer = settings
    done = on_step or (lambda step: None)
    run = lab.film(n_heads, n_steps, lr, seed, done, optimizer, all_weights=True)
    return plane(n_heads, list(run.weights.values()), kind, lambda n: done(n_steps + n))


def _principal(moved: Float[Tensor, "snapshot weight"]) -> Float[Tensor, "2 weight"]:
    """Return the two directions of length 1 that hold most of the path."""
    # the small Gram matrix has the same components, and far fewer rows than there are weights
    values, inner = torch.linalg.eigh(moved @ moved.T)
    return (inner[:, -2:].flip(-1).T @ moved) / values[-2:].flip(-1).sqrt()[:, None]


def _random(n_heads: int, end: Tensor) -> Float[Tensor, "2 weight"]:
    """Draw two random directions, each filter as long as that of the weights.

    A filter is what makes one number: a column of a matrix, and a row of an embedding.
    """
    random = torch.Generator().manual_seed(0)
    model = lab.TinyTransformer(n_heads, torch.Generator())
    directions = []
    for _ in range(2):
        drawn = torch.randn(len(end), generator=random, dtype=torch.float64)
        parts, ends = lab.split_by_name(model, drawn), lab.split_by_name(model, end)
        for name, part in parts.items():
            axis = -1 if name in ("embed", "position") else -2
            part *= ends[name].norm(dim=axis, keepdim=True) / part.norm(dim=axis, keepdim=True)
        directions.append(drawn)  # whose parts they are
    return torch.stack(directions)


def _axis(path: Tensor, side: int) -> Float[Tensor, " point"]:
    """Return points along a direction, around the whole path; 0 is one of them."""
    low, high = min(0.0, float(path.min())), max(0.0, float(path.max()))
    room = _MARGIN_SHARE * (high - low) or 1.0
    low, high = low - room, high + room
    between = (high - low) / (side - 2)  # multiples of it, and no more than `side`
    first, last = math.floor(low / between), math.ceil(high / between)
    return torch.arange(first, last + 1, dtype=torch.float64) * between
