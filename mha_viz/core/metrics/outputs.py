"""Metrics of what each head writes: how much, how varied, in how many directions.

A head's output at query q is head_i(q) = z_i(q) W_O,i, without the layer's bias b_O. It is d_model
wide, twelve times as wide as z in BERT. Nothing here needs it: with L L^T = W_O W_O^T, of d_head x
d_head numbers, z L has the same norms, means of the same norm, and the same singular values.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.checks import as_tensor
from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.metrics.blocks import Texts, part_of
from mha_viz.core.metrics.checks import HeadVectors, OutputMatrices, check_z
from mha_viz.core.metrics.output_weights import OutputWeights, output_root
from mha_viz.core.metrics.reduction import BLOCK
from mha_viz.core.threads import in_threads, part_size
from mha_viz.errors import DTypeError, ShapeError

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Outputs:
    """The outputs of the heads of a batch, and numbers that several metrics are made of."""

    # (batch, head, query, d_head); what is in padding does not matter
    z: Float[Tensor, "batch head query d_head"]
    # (batch or 1, head, d_head, d_head), the `output_root` of their weights
    root: Float[Tensor, "#batch head d_head d_head"]
    texts: Texts  # of the batch
    # the weights themselves (head, d_head, d_model), one or one for each of the batch
    W_O: Sequence[Tensor] = ()

    @cached_property
    def compact(self) -> Float[Tensor, "batch head query d_head"]:
        """The outputs, d_head wide, and zeros in padding. Its coordinates are each head's own."""
        z, root = self.z.to(self.root.dtype), self.root
        root = root if len(root) == len(z) else root.repeat(len(z), 1, 1, 1)
        outputs = torch.bmm(z.flatten(0, 1), root.flatten(0, 1)).unflatten(0, z.shape[:2])
        if len(self.texts.lengths) == 1:  # no padding
            return outputs
        return outputs.masked_fill(self._once("padding", lambda: self._real == 0), 0.0)

    @cached_property
    def mean(self) -> Float[Tensor, "batch head d_head"]:
        """The mean over queries."""
        return self.compact.sum(-2) / self._n[..., None]

    @cached_property
    def apart(self) -> Float[Tensor, "batch head query"]:
        """The distance of each output from the mean; 0 in padding."""
        # centred before it is squared: mean of squares less square of the mean would cancel
        centred = torch.addcmul(self.compact, self._real, self.mean[..., None, :], value=-1)
        return centred.norm(dim=-1)

    @cached_property
    def size_of_mean(self) -> Float[Tensor, "batch head"]:
        """The norm of the mean."""
        return self.mean.norm(dim=-1)

    @cached_property
    def mean_size(self) -> Float[Tensor, "batch head"]:
        """The mean norm."""
        return self.compact.norm(dim=-1).sum(-1) / self._n

    @cached_property
    def variance(self) -> Float[Tensor, "batch head"]:
        """The mean squared distance from the mean; 0 where that is but rounding."""
        deviation = self.apart.norm(dim=-1)
        least = self._once(("least", self.z.dtype), lambda: rounding(self.z) * self._n.sqrt())
        alike = deviation <= least * self.size_of_mean
        return deviation.masked_fill(alike, 0.0) ** 2 / self._n

    def part(self, batch: slice) -> "Outputs":
        """Return those of some texts."""
        root, W_O = part_of(self.root, batch), self.W_O if len(self.W_O) < 2 else self.W_O[batch]
        return Outputs(self.z[batch], root, self.texts.part(batch), W_O)

    @property
    def _n(self) -> Float[Tensor, "#batch 1"]:
        """The number of queries of each text."""
        return self._once("n", lambda: self.texts.lengths[:, None].to(self.root.dtype))

    @property
    def _real(self) -> Float[Tensor, "#batch 1 query 1"]:
        """1 for each query, 0 in padding."""
        n = self.z.shape[-2]
        return self._once("real", lambda: self.texts.is_real(n)[:, None, :, None].to(self.root))

    def _once(self, name: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """Make what all layers share."""
        return self.texts.once(("outputs", name, self.z.shape[-2], self.root.dtype), make)


def made_of(of_outputs: Callable[[Outputs], Tensor]) -> Callable[[_Function], _Function]:
    """Tie what computes a metric of the outputs of a batch to its public function: a decorator."""

    def tie(function: _Function) -> _Function:
        function.__dict__["of_outputs"] = of_outputs
        return function

    return tie


def reduce_outputs(
    outputs: Outputs, metrics: Mapping[str, Callable[[Outputs], Tensor]]
) -> dict[str, Float[Tensor, "batch head"]]:
    """Compute metrics of the outputs of a batch; on a processor, some texts in each thread."""
    z, of_text = outputs.z, outputs.z[0].numel()
    at_once = z.device.type != "cpu" or z.requires_grad
    step = len(z) if at_once else part_size(len(z), BLOCK // of_text)

    def compute(begin: int) -> dict[str, Tensor]:
        check_cancelled()
        part = outputs if step >= len(z) else outputs.part(slice(begin, begin + step))
        return {key: of_outputs(part) for key, of_outputs in metrics.items()}

    begins = range(0, len(z), step)
    parts = list(map(compute, begins) if len(begins) == 1 else in_threads(compute, begins))
    return {
        k: parts[0][k] if len(parts) == 1 else torch.cat([p[k] for p in parts]) for k in metrics
    }


def outputs_of(z: HeadVectors, W_O: OutputMatrices) -> Outputs:
    """Check what the heads of a record write, and return it as a batch of its layers."""
    z, W_O, wide = check_outputs(z, W_O)
    root = output_root(W_O, wide).to(z.device)
    return Outputs(z, root, Texts(torch.tensor([z.shape[-2]], device=z.device)), W_O)


def _written(function: Callable[..., Any], z: HeadVectors, W_O: OutputMatrices) -> Tensor:
    """Compute the metric of a public function by what is tied to it."""
    return reduce_outputs(outputs_of(z, W_O), {"": function.__dict__["of_outputs"]})[""]


@made_of(lambda outputs: outputs.size_of_mean)
def norm_of_mean_output(z: HeadVectors, W_O: OutputMatrices) -> Float[Tensor, "layer head"]:
    """Compute the norm of a head's mean output: I_i = ||E_q[head_i(q)]||_2.

    What the head adds to every token alike; 0 if its outputs cancel over the text.

    Returns (layer, head), at least 0, in units of the residual stream. Source: the norm-based view
    of Kobayashi et al. 2020; the mean inside the norm is ours.

    >>> z = torch.tensor([[[[1.0], [3.0]]]])
    >>> norm_of_mean_output(z, [torch.tensor([[[3.0, 4.0]]])])
    tensor([[10.]])
    """
    return _written(norm_of_mean_output, z, W_O)


@made_of(lambda outputs: outputs.mean_size)
def output_norm(z: HeadVectors, W_O: OutputMatrices) -> Float[Tensor, "layer head"]:
    """Average the norm of a head's output: mean_q ||head_i(q)||_2.

    Returns (layer, head), at least `norm_of_mean_output`, in units of the residual stream. Source:
    Kobayashi et al. 2020, who take the norm of each key's part; here it is of their sum.

    >>> z = torch.tensor([[[[1.0], [-3.0]]]])
    >>> output_norm(z, [torch.tensor([[[3.0, 4.0]]])])
    tensor([[10.]])
    """
    return _written(output_norm, z, W_O)


@made_of(lambda outputs: outputs.mean_size / outputs.mean_size.sum(-1, keepdim=True))
def output_share(z: HeadVectors, W_O: OutputMatrices) -> Float[Tensor, "layer head"]:
    """Compute a head's share of its layer's norms: `output_norm` over the sum of its layer's.

    Returns (layer, head), shares in [0, 1] that sum to 1 over a layer; NaN (not defined) where no
    head of the layer writes anything. Source: ours, from the norms of Kobayashi et al. 2020.

    >>> z = torch.tensor([[[[1.0]], [[3.0]]]])
    >>> output_share(z, [torch.ones(2, 1, 5)])
    tensor([[0.2500, 0.7500]])
    """
    return _written(output_share, z, W_O)


@made_of(lambda outputs: outputs.variance)
def variance(z: HeadVectors, W_O: OutputMatrices) -> Float[Tensor, "layer head"]:
    """Compute how much a head's output varies: mean_q ||head_i(q) - E_q[head_i]||^2.

    The population's variance (divided by the number of queries), summed over d_model.

    Returns (layer, head), at least 0, in squared units of the residual stream; 0 for one query, and
    for outputs that differ by no more than `rounding`. Source: the trace of the covariance matrix;
    standard.

    >>> z = torch.tensor([[[[1.0], [3.0]]]])
    >>> variance(z, [torch.tensor([[[3.0, 4.0]]])])
    tensor([[25.]])
    """
    return _written(variance, z, W_O)


def effective_rank(z: HeadVectors, W_O: OutputMatrices) -> Float[Tensor, "layer head"]:
    """Count the directions a head writes in: exp(-sum_r p_r ln p_r), p = singular values / sum.

    The singular values are those of the head's outputs on this text, (query, d_model), not centred.
    Equal ones count fully, weak ones hardly. For eigenvalues it takes half as long as all that is
    measured of a head otherwise, so it is no part of a report: a metric of layers (`head_rank`) is
    made of it. Returns (layer, head), directions in [1, min(query, d_head, d_model)]; 0 for a head
    that writes nothing. Singular values below 1e-7 of the largest count as rounding, hence as 0.
    Source: Roy and Vetterli 2007, definition 1.

    >>> effective_rank(torch.eye(3).reshape(1, 1, 3, 3), [torch.eye(3, 5)[None]])
    tensor([[3.0000]])
    """
    z, W_O, wide = check_outputs(z, W_O)
    tall = z.shape[-2] > z.shape[-1]

    def ranks(layer: tuple[Tensor, Tensor]) -> Tensor:
        # in float64, since rounding would raise ranks; hence a layer at a time
        outputs = layer[0].double() @ layer[1]
        return rank_of_gram(outputs.mT @ outputs if tall else outputs @ outputs.mT)  # the smaller

    layers = list(zip(z, output_root(W_O).to(z.device), strict=True))
    return torch.stack(list(in_threads(ranks, layers))).to(wide)


def rank_of_gram(gram: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch"]:
    """Compute the effective rank of each matrix X from X^T X or X X^T in float64.

    What is below the diagonal is not looked at.

    >>> rank_of_gram(4 * torch.eye(2, dtype=torch.float64))
    tensor(2.0000, dtype=torch.float64)
    """
    is_finite = gram.isfinite().flatten(-2).all(-1)
    solvable = gram.detach().where(is_finite[..., None, None], 0.0).cpu()  # NaN is refused
    squares = torch.linalg.eigvalsh(solvable, UPLO="U").to(gram.device)
    # an eigenvalue that rounding alone would make: its root, 1e-8, must not count as a direction
    noise = squares.shape[-1] * torch.finfo(squares.dtype).eps * squares[..., -1:]
    singular = torch.where(squares > noise, squares, 0.0).sqrt()
    total = singular.sum(-1, keepdim=True)
    rank = torch.special.entr(singular / total).sum(-1).exp()
    return torch.where(total[..., 0] > 0, rank, 0.0).where(is_finite, torch.nan)


def rounding(z: HeadVectors) -> float:
    """Return the share of a head's z up to which numbers may differ by rounding alone.

    A few units in the last place that sums are made in, or one of what z is kept in.

    >>> f"{rounding(torch.ones(1, 1, 2, 2)):.1e}"
    '9.5e-07'
    """
    checked, wide = check_z(z)
    return max(8 * torch.finfo(wide).eps, torch.finfo(checked.dtype).eps)


def check_outputs(
    z: HeadVectors, W_O: OutputMatrices
) -> tuple[Float[Tensor, "layer head query d_head"], Sequence[Tensor], torch.dtype]:
    """Check z as `check_z` does, and that W_O has weights for every layer and head of it.

    >>> check_outputs(torch.ones(1, 3, 7, 2), [torch.ones(3, 2, 5)])[2]
    torch.float32
    """
    z, wide = check_z(z)
    n_layers, n_heads, _, d_head = z.shape
    if len(W_O) != n_layers:
        raise ShapeError(f"W_O must hold {n_layers} layers as z does, got {len(W_O)}")
    weights: Sequence[Tensor]
    if isinstance(W_O, OutputWeights):
        weights = W_O  # as it is: it keeps its root
    else:
        weights = [as_tensor(f"W_O of layer {layer}", weight) for layer, weight in enumerate(W_O)]
    for layer, weight in enumerate(weights):
        if weight.ndim != 3 or weight.shape[:2] != (n_heads, d_head) or 0 in weight.shape:
            raise ShapeError(
                f"W_O of layer {layer} must be (head, d_head, d_model) = ({n_heads}, {d_head}, "
                f"d_model) to fit z, got {tuple(weight.shape)}"
            )
        if not weight.is_floating_point():
            raise DTypeError(f"W_O of layer {layer} must be floating point, got {weight.dtype}")
    return z, weights, wide
