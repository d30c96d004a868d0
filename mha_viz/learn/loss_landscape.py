"""The loss of a network around its weights: ends of the Hessian's spectrum, and a plane."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mha_viz.errors import ArgumentError
from mha_viz.learn.training import split_by_name

Loss = Callable[[Float[Tensor, " weight"]], Float[Tensor, ""]]  # of all weights as one vector
N_PRODUCTS = 30  # Hessian-vector products: the ends of the spectrum are found soon
SIDE = 17  # points of the plane along each axis
LEVEL_SHARE = 1e-3  # curvature below this share of the largest is level
_MARGIN_SHARE = 0.2  # of the path's extent, that the plane shows around it
_NUDGE_LENGTH = 1e-4  # length of the step by which the loss itself tells a curvature


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
    loss: Loss,
    weights: Float[Tensor, " weight"],
    on_step: Callable[[int], None] | None = None,
    n_products: int = N_PRODUCTS,
) -> Curvature:
    """Compute both ends of the Hessian's spectrum by Lanczos, in double precision.

    `on_step` gets the number of Hessian-vector products done.

    Source: Pearlmutter 1994 for the products; Lanczos 1950, with every vector made orthogonal to
    all before it; Ghorbani, Krishnan and Xiao 2019 for Hessians of networks.

    >>> saddle = curvature(lambda w: w[0] ** 2 - w[1] ** 2, torch.tensor([1.0, 0.0]))
    >>> round(saddle.largest, 6), round(saddle.smallest, 6), saddle.verdict
    (2.0, -2.0, 'down')
    """
    if n_products < 2:
        raise ArgumentError(f"2 Hessian-vector products are the least, got {n_products}.")
    point = weights.double().requires_grad_()
    middle = loss(point)
    (gradient,) = torch.autograd.grad(middle, point, create_graph=True)

    def product(vector: Tensor) -> Tensor:
        return torch.autograd.grad(gradient @ vector, point, retain_graph=True)[0]

    random = torch.Generator().manual_seed(0)
    start = torch.randn(len(weights), generator=random, dtype=torch.float64)
    values, vectors, unsure = lanczos(product, start, n_products, on_step)
    with torch.no_grad():
        steps = [_NUDGE_LENGTH * vector for vector in vectors]
        first, second = (
            float(loss(point + step) - 2 * middle + loss(point - step)) / _NUDGE_LENGTH**2
            for step in steps
        )
        slope, height = float(gradient.norm()), float(middle.detach())
    return Curvature(*values, unsure, (first, second), slope, height)


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
    loss: Loss,
    weights: Sequence[Float[Tensor, " weight"]],
    across: Float[Tensor, "2 weight"] | None = None,
    on_step: Callable[[int], None] | None = None,
    side: int = SIDE,
) -> Plane:
    """Compute the loss on a plane through the last of these weights, and the path to it.

    Args:
        loss: at weights in float32.
        weights: along the training, 3 at least; the last are those of the trained model.
        across: two directions, to which the plane reaches on both sides. If not given, it holds the
            two in which the weights have moved most (principal components of their distance from
            the end), and reaches around the path.
        on_step: called with the number of points done.
        side: points along each axis at most; odd, and 3 at least.

    Raises:
        ArgumentError: fewer weights.

    Source: Li, Xu, Taylor, Studer and Goldstein 2018, "Visualizing the Loss Landscape of Neural
    Nets", section 7.
    """
    if len(weights) < 3:
        raise ArgumentError(f"A plane needs 3 weights along the training, got {len(weights)}.")
    end = weights[-1].double()
    moved = torch.stack([w.double() - end for w in weights])
    axes = _principal(moved) if across is None else across
    path = torch.linalg.lstsq(axes.T, moved.T).solution.T
    x = y = torch.linspace(-1, 1, side, dtype=torch.float64)
    if across is None:
        x, y = (_axis(along, side) for along in path.T)
    losses = torch.empty(len(y) * len(x), dtype=torch.float64)
    for i, (down, right) in enumerate(torch.cartesian_prod(y, x)):
        with torch.no_grad():
            losses[i] = loss((end + right * axes[0] + down * axes[1]).float())
        if on_step is not None:
            on_step(i + 1)
    share = float((path @ axes).square().sum() / moved.square().sum().clamp(min=1e-300))
    return Plane(x, y, losses.view(len(y), len(x)), path, min(share, 1.0))


def random_directions(
    network: nn.Module, end: Float[Tensor, " weight"], by_row: Collection[str] = ()
) -> Float[Tensor, "2 weight"]:
    """Draw two random directions, each filter as long as that of the weights.

    A filter is what makes one number: a column of a matrix, and a row of the embeddings `by_row`.
    So planes of different networks can be compared.

    Source: Li et al. 2018, section 4.
    """
    random = torch.Generator().manual_seed(0)
    drawn = [torch.randn(len(end), generator=random, dtype=torch.float64) for _ in range(2)]
    directions, ends = torch.stack(drawn), split_by_name(network, end)
    for direction in directions:
        for name, part in split_by_name(network, direction).items():  # which are its own parts
            axis = -1 if name in by_row else -2
            part *= ends[name].norm(dim=axis, keepdim=True) / part.norm(dim=axis, keepdim=True)
    return directions


def _principal(moved: Float[Tensor, "snapshot weight"]) -> Float[Tensor, "2 weight"]:
    """Return the two directions of length 1 that hold most of the path."""
    # the small Gram matrix has the same components, and far fewer rows than there are weights
    values, inner = torch.linalg.eigh(moved @ moved.T)
    return (inner[:, -2:].flip(-1).T @ moved) / values[-2:].flip(-1).sqrt()[:, None]


def _axis(path: Tensor, side: int) -> Float[Tensor, " point"]:
    """Return points along a direction, around the whole path; 0 is one of them."""
    low, high = min(0.0, float(path.min())), max(0.0, float(path.max()))
    room = _MARGIN_SHARE * (high - low) or 1.0
    low, high = low - room, high + room
    between = (high - low) / (side - 2)  # multiples of it, and no more than `side`
    first, last = math.floor(low / between), math.ceil(high / between)
    return torch.arange(first, last + 1, dtype=torch.float64) * between
