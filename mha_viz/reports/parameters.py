"""Likeness of heads by their weights alone, whatever the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics.parameters import (
    cosine,
    product_cosine,
    product_overlap,
    subspace_overlap,
)
from mha_viz.core.metrics.parameters import diversity as diversity_of
from mha_viz.core.names import MATRICES, PRODUCTS
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel

_BY: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {  # of one, of a product
    "cosine": (cosine, product_cosine),
    "subspace_overlap": (subspace_overlap, product_overlap),
}


def parameter_similarity(
    model: AttentionModel, name: str = "W_Q", measure: str = "cosine", part: str | None = None
) -> Float[Tensor, "head2 head2"]:
    """Compare the weights of any two heads; heads in order of layer.

    Args:
        model: any whose projections are known.
        name: "W_Q", "W_K", "W_V", "W_O", or the products a head acts by: "W_QK" = W_Q W_K^T,
            which makes the scores, and "W_OV" = W_V W_O, which makes the output.
        measure: "cosine" <W_i, W_j> / (||W_i|| ||W_j||), in [-1, 1], or "subspace_overlap"
            ||U_i^T U_j||_F^2 / rank, in [0, 1]; see `product_overlap` for that of products.
        part: which stack of an encoder-decoder; the first one if not given.

    Returns:
        float32 (layer * head, layer * head). Query heads that share a key head (grouped-query
        attention) have a likeness of 1 in W_K and W_V.

    Raises:
        ArgumentError: an unknown name, measure or part.
        NotKeptError, AttentionUnavailableError: this family's projections are not known.

    Source: subspaces as Björck and Golub 1973.

    >>> import mha_viz as mv
    >>> mv.parameter_similarity(mv.load("tiny-gpt2"), "W_QK").shape
    torch.Size([32, 32])
    """
    if measure not in _BY:
        raise ArgumentError(f"measure must be one of {', '.join(_BY)}, got {measure!r}.")
    of_one, of_product = _BY[measure]
    if name in PRODUCTS:
        return of_product(*(_wide(model, matrix, part) for matrix in PRODUCTS[name]))
    return of_one(_wide(model, name, part))


def diversity(
    model: AttentionModel, layer: int, name: str = "W_Q", part: str | None = None
) -> float:
    """Measure how different a layer's heads are in one matrix: the mean of 1 - |cos| over pairs.

    Args:
        model: any whose projections are known.
        layer: from 0.
        name: "W_Q", "W_K", "W_V" or "W_O"; no products.
        part: which stack of an encoder-decoder; the first one if not given.

    Returns:
        in [0, 1]; NaN where the layer has one head only.

    Raises:
        ArgumentError: an unknown layer, name or part.

    Source: the disagreement of Li et al. 2018, there of values on a text, here of weights.

    >>> import mha_viz as mv
    >>> 0.9 < mv.diversity(mv.load("tiny-gpt2"), 0) <= 1
    True
    """
    layers = _wide(model, name, part)
    if not 0 <= layer < len(layers):
        raise ArgumentError(f"layer must lie in 0..{len(layers) - 1}, got {layer}.")
    return float(diversity_of(layers[layer]))


def _wide(model: AttentionModel, name: str, part: str | None) -> list[Tensor]:
    """Return each layer's (head, d_model, d_head); W_O transposed."""
    if name not in MATRICES:
        names = ", ".join((*MATRICES, *PRODUCTS))
        raise ArgumentError(f"name must be one of {names}, got {name!r}.")
    layers = model.head_weights(name, part)
    return [layer.transpose(-2, -1) if name == "W_O" else layer for layer in layers]
