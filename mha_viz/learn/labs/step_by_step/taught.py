"""Lab 4: multi-head attention as it is taught everywhere, run on a layer, and its classic bugs."""

from importlib.resources import files
from typing import Annotated, Any

import torch
from torch import Tensor

from mha_viz.core.attention.multi_head import AttentionWeights
from mha_viz.errors import ShapeError

BUGS = {  # what of the code is replaced by what
    "attribute": ("self.d_k = d_model", "self.d_head = d_model"),
    "view": (
        "(batch, n, self.n_heads, self.d_k).transpose(1, 2)",
        "(batch, self.n_heads, n, self.d_k)",
    ),
    "mask": ("mask == 0", "mask == 1"),
}


def taught_code(bug: str = "") -> str:
    """Return the code, with one of `BUGS` in it if that is named.

    >>> [line for line in taught_code("mask").splitlines() if "masked_fill" in line]
    ['            scores = scores.masked_fill(mask == 1, -1e9)']
    """
    code = (files(__package__) / "taught_attention.txt").read_text("utf-8")
    return code.replace(*BUGS[bug]) if bug else code


def run_taught(
    weights: AttentionWeights,
    query: Annotated[Tensor, "query d_model"],
    key: Annotated[Tensor, "key d_model"],
    causal: bool,
    bug: str = "",
) -> tuple[Tensor, Tensor]:
    """Run the code with a layer's weights, as `spread` gives them, on what the layer has read.

    Returns:
        The output (query, d_model), and the weights (head, query, key).

    Raises:
        ShapeError: a layer whose heads are not d_model / n_heads wide: the code knows no other.
        AttributeError: the bug of that name.

    >>> ones = AttentionWeights(*torch.ones(3, 2, 4, 2), torch.ones(2, 2, 4))
    >>> run_taught(ones, torch.ones(3, 4), torch.ones(3, 4), causal=True)[1][0, 1]
    tensor([0.5000, 0.5000, 0.0000])
    """
    n_heads, d_model, d_k = weights.W_Q.shape
    if (
        not weights.W_K.shape == weights.W_V.shape == (n_heads, d_model, d_k)
        or n_heads * d_k != d_model
    ):
        raise ShapeError(
            f"The taught code has heads of d_model / h = {d_model / n_heads:g} numbers; this layer "
            f"has heads of {d_k}. Choose another model to compare."
        )
    namespace: dict[str, Any] = {}
    exec(taught_code(bug), namespace)  # our own text, and never a visitor's
    module = namespace["MultiHeadAttention"](d_model, n_heads)
    state = {"W_o.weight": weights.W_O.flatten(0, 1).T}
    for letter in "qkv":
        # Linear has a row for each output: all outputs of head 0, then those of head 1 ...
        state[f"W_{letter}.weight"] = getattr(weights, f"W_{letter.upper()}").mT.flatten(0, 1)
    for name in ("b_Q", "b_K", "b_V", "b_O"):
        bias = getattr(weights, name)
        numbers = torch.zeros(d_model) if bias is None else bias.flatten()
        state[f"W_{name[-1].lower()}.bias"] = numbers
    module.load_state_dict(state)
    mask = torch.ones(len(query), len(key)).tril() if causal else None
    with torch.no_grad():
        output, pattern = module(query[None], key[None], key[None], mask)
    return output[0], pattern[0]
