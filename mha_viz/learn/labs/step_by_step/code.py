"""Lab 4: the same layer as PyTorch: ten lines to be copied, and the usual code with its bugs."""

from importlib.resources import files
from typing import Annotated, Any

import torch
from torch import Tensor

from mha_viz.core.attention.multi_head import AttentionWeights
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.errors import ShapeError
from mha_viz.learn.labs.step_by_step.numbers import Steps

BUGS = {  # a piece of the code, and its replacement
    "attribute": ("self.d_k = d_model", "self.d_head = d_model"),
    "view": (
        "(batch, n, self.n_heads, self.d_k).transpose(1, 2)",
        "(batch, self.n_heads, n, self.d_k)",
    ),
    "mask": ("mask == 0", "mask == 1"),
}


def pytorch_code(
    steps: Steps, record: AttentionRecord, model: str, layer: int, head: int, dtype: str = "float32"
) -> str:
    """Write a program that loads the model and computes in ten lines what the lab shows.

    >>> import mha_viz as mv
    >>> from mha_viz.learn.activations import record_activations
    >>> from mha_viz.learn.labs.step_by_step.numbers import step_by_step
    >>> model = mv.load("tiny-bert")
    >>> record = model.trace("A cat.", keep=("pattern", "z", "query", "key", "value"))
    >>> steps = step_by_step(model, record, 0, 0, record_activations(model, record, 0))
    >>> print(pytorch_code(steps, record, "tiny-bert", 0, 0).splitlines()[-4])
    z = weights @ V
    """
    return "\n".join([*_loading(record, model, layer, dtype), "", *ten_lines(steps, layer, head)])


def _loading(record: AttentionRecord, model: str, layer: int, dtype: str) -> list[str]:
    """Write the lines that fetch the layer's input and its matrices."""
    pair = "" if record.text_pair is None else f", {record.text_pair!r}"
    number = "" if dtype == "float32" else f", dtype={dtype!r}"
    return [
        "import torch",
        "import mha_viz as mv",
        "from mha_viz.learn.activations import record_activations, spread",
        "",
        f"model = mv.load({model!r}{number})",
        'kept = ("pattern", "query", "key", "value")',
        f"record = model.trace({record.text!r}{pair}, part={record.part!r}, keep=kept)",
        f"seen = record_activations(model, record, {layer})  # X, and Y where keys come from",
        f"W = spread(model.attention_weights({layer}, {record.part!r}))  # (head, d_model, d_head)",
    ]


def ten_lines(steps: Steps, layer: int, head: int) -> list[str]:
    """Write all heads of the layer at once, from X to the attention output."""
    hidden = "torch.ones_like(scores).triu(1).bool()"
    masked = f"scores.masked_fill({hidden}, -torch.inf)" if steps.causal else "scores"
    weights = "scores.softmax(-1)"
    if "pattern" in steps.from_model:
        weights = f"record.pattern[{layer}]  # the model adds more to its scores"
    d_k = steps.query.shape[-1]
    scale = f"/ {d_k} ** 0.5" if steps.has_usual_scale else f"* {steps.scale!r}"
    bias = "" if steps.weights.b_O is None else " + W.b_O"
    return [
        *(_projected(steps, letter, layer) for letter in "QKV"),
        f"scores = Q @ K.mT {scale}",
        f"scores = {masked}" + ("" if steps.causal else "  # no mask"),
        f"weights = {weights}",
        "z = weights @ V",
        "joined = z.transpose(0, 1).flatten(1)  # all heads side by side",
        f"output = joined @ W.W_O.flatten(0, 1){bias}",
        f"print(weights[{head}], z[{head}], output, (output - seen.output).abs().max())",
    ]


def _projected(steps: Steps, letter: str, layer: int) -> str:
    name = {"Q": "query", "K": "key", "V": "value"}[letter]
    if name in steps.from_model:
        theirs = f"record.for_query_heads({name!r}, {layer})"
        return f"{letter} = {theirs}  # changed once more after its matrix"
    bias = "" if getattr(steps.weights, f"b_{letter}") is None else f" + W.b_{letter}[:, None]"
    return f"{letter} = seen.{'X' if letter == 'Q' else 'Y'} @ W.W_{letter}{bias}"


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
