"""The output weights of heads, and a smaller matrix that tells what they write as well."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.checks import as_tensor
from mha_viz.core.metrics.checks import OutputMatrices, with_float64


def output_root(
    W_O: OutputMatrices, dtype: torch.dtype = torch.float64
) -> Float[Tensor, "layer head d_head d_head"]:
    """Return some L with L L^T = W_O W_O^T for every head; once per model.

    >>> output_root([torch.tensor([[[3.0, 4.0]]])])
    tensor([[[[5.]]]], dtype=torch.float64)
    """
    if isinstance(W_O, OutputWeights):
        return W_O.root(dtype)
    # a layer at a time: only one layer's weights are ever held twice
    wide = (with_float64(as_tensor("W_O", layer).detach()).double() for layer in W_O)
    grams = [weight @ weight.mT for weight in wide]
    return _root(torch.stack([gram.to(grams[0].device) for gram in grams])).to(dtype)


class OutputWeights(tuple[Tensor, ...]):
    """A model's W_O of all layers, which keeps its `output_root` from one text to the next."""

    _roots: tuple[list[int], dict[torch.dtype, Tensor]] | None = None

    def root(self, dtype: torch.dtype) -> Float[Tensor, "layer head d_head d_head"]:
        """Return `output_root`, made again only where weights were written to since."""
        versions = [weight._version for weight in self]
        if self._roots is None or self._roots[0] != versions:
            self._roots = versions, {}
        roots = self._roots[1]
        if dtype not in roots:
            roots[dtype] = output_root(tuple(self), dtype)
        return roots[dtype]

    def are(self, weights: Sequence[Tensor]) -> bool:
        """Return whether these are views of the same numbers."""
        return list(map(_storage, self)) == list(map(_storage, weights))


def _storage(tensor: Tensor) -> tuple[object, ...]:
    """Return the address, shape, strides and dtype of a tensor's numbers."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _root(gram: Tensor) -> Tensor:
    """Return some L with L L^T = gram, for each head."""
    root, failed = torch.linalg.cholesky_ex(gram)
    singular = failed > 0
    if singular.any():  # weights of less than d_head directions: Cholesky divides by zero there
        values, vectors = torch.linalg.eigh(gram[singular])
        root[singular] = vectors * values.clamp(min=0.0).sqrt()[..., None, :]
    return root
