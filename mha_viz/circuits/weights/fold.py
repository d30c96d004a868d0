"""The linear part of a norm: centring and gain, without the scale that each token has.

A norm is x -> C x * gain / scale + bias. Of these the scale differs from token to token and is but
a factor, which turns no direction; centring C and gain are the same for all of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mha_viz.errors import NotKeptError

_LIKE = 1e-3  # by how much a norm may differ from its fold, of its own output's size


@dataclass(frozen=True, eq=False)
class Fold:
    """The linear part of a norm."""

    gain: Float[Tensor, " d_model"]  # (d_model,)
    centred: bool  # whether the mean over d_model is taken away first (LayerNorm; RMSNorm does not)

    @classmethod
    def of(cls, norm: nn.Module, dtype: torch.dtype) -> "Fold":
        """Read the linear part off a norm, and check on a vector that the norm does just that.

        Families differ in what their weights mean (the gain, or what is added to 1) and whether
        they centre: of these four the norm's own output selects one.
        """
        weight = getattr(norm, "weight", None)
        if isinstance(weight, Tensor) and weight.ndim == 1:
            gain = weight.detach().to(dtype)
            # cos, not a random draw: the same everywhere, far from centred, and no two alike
            probe = 1 + torch.arange(1.0, len(gain) + 1, dtype=dtype, device=gain.device).cos()
            bias = getattr(norm, "bias", None)
            with torch.inference_mode():
                made = norm(probe.to(weight.dtype))
                made = (made if bias is None else made - bias).to(dtype)
            tolerance = max(_LIKE, 4 * torch.finfo(weight.dtype).eps)
            for fold in (cls(g, c) for g in (gain, 1 + gain) for c in (True, False)):
                expected = fold.carry(probe)
                expected = expected * (made.norm() / expected.norm())
                if (made - expected).norm() <= tolerance * made.norm():
                    return fold
        raise NotKeptError(
            f"{type(norm).__name__} is neither a LayerNorm nor an RMSNorm with a gain, as expected "
            "between two heads: what one reads of the other cannot be told by weights here."
        )

    def carry(self, written: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
        """Map vectors before the norm to vectors behind it."""
        return (centre(written) if self.centred else written) * self.gain

    def pull_back(self, read: Float[Tensor, "*rest d_model k"]) -> Float[Tensor, "*rest d_model k"]:
        """Map weights that read behind the norm to weights before it: `carry`, transposed."""
        read = read * self.gain[:, None]
        return read - read.mean(-2, keepdim=True) if self.centred else read


@dataclass(frozen=True, eq=False)
class Passage:
    """Several folds one after the other as one linear map: a diagonal and thin factors beside it.

    A fold takes off a mean, which is a product of two vectors: so many folds are carried by one
    multiplication of each number and a thin product, not by many steps through memory.
    """

    diagonal: Float[Tensor, " d_model"]
    left: Float[Tensor, "d_model rank"]
    right: Float[Tensor, "rank d_model"]

    @classmethod
    def of(cls, folds: Iterable[Fold], like: Tensor) -> "Passage":
        """Multiply the folds, in their order; `like` has d_model, dtype and device."""
        ones = like.new_ones(like.shape[-1])
        return cls(ones, ones[:, None][:, :0], ones[None][:0]).then(folds)

    def then(self, folds: Iterable[Fold]) -> "Passage":
        """Multiply by further folds."""
        made = self
        for fold in folds:
            diagonal, left, right = made.diagonal * fold.gain, made.left, made.right * fold.gain
            if fold.centred:
                mean = (made.diagonal + made.left @ made.right.sum(-1)) / len(diagonal)
                left = torch.cat([left, mean[:, None]], dim=1)
                right = torch.cat([right, -fold.gain[None]])
            made = Passage(diagonal, left, right)
        return made

    def carry(self, written: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
        """Map vectors before the first norm to vectors behind the last one."""
        # In the memory of what heads read: the factors of what they write are its transpose.
        across = written.mT * self.diagonal[:, None]
        return across.add_(self.right.T @ (self.left.T @ written.mT)).mT

    def pull_back(self, read: Float[Tensor, "*rest d_model k"]) -> Float[Tensor, "*rest d_model k"]:
        """Map weights that read behind the last norm to weights before the first: transposed."""
        return (read * self.diagonal[:, None]).add_(self.left @ (self.right @ read))


def centre(vectors: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
    """Subtract the mean over d_model."""
    return vectors - vectors.mean(-1, keepdim=True)
