"""Lab 4: the same layer as PyTorch: ten lines to be copied, and the usual code with its bugs."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Annotated, Any

import torch
from torch import Tensor

from mha_viz.core.attention.multi_head import AttentionWeights
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.errors import ShapeError
from mha_viz.learn.labs.step_by_step.numbers import Steps


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
    masked = "scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)"
    theirs = f"record.pattern[{layer}]  # the model adds more to its scores"
    parts = {"model": model, "text": record.text, "part": record.part, "layer": layer, "head": head}
    parts |= {letter: _projected(steps, letter, layer) for letter in "QKV"}
    parts["dtype"] = "" if dtype == "float32" else f", dtype={dtype!r}"
    parts["pair"] = "" if record.text_pair is None else f", {record.text_pair!r}"
    parts["scale"] = f"/ {steps.d_k} ** 0.5" if steps.has_usual_scale else f"* {steps.scale!r}"
    parts["masked"] = masked if steps.causal else "scores  # no mask"
    parts["weights"] = theirs if "pattern" in steps.from_model else "scores.softmax(-1)"
    parts["bias"] = "" if steps.weights.b_O is None else " + W.b_O"
    program = (files(__package__) / "program.txt").read_text("utf-8").rstrip()
    return program.format(**parts)


def _projected(steps: Steps, letter: str, layer: int) -> str:
    name = {"Q": "query", "K": "key", "V": "value"}[letter]
    if name in steps.from_model:
        theirs = f"record.for_query_heads({name!r}, {layer})"
        return f"{letter} = {theirs}  # changed once more after its matrix"
    bias = "" if getattr(steps.weights, f"b_{letter}") is None else f" + W.b_{letter}[:, None]"
    return f"{letter} = seen.{'X' if letter == 'Q' else 'Y'} @ W.W_{letter}{bias}"


def taught_code(bug: Sequence[str] = ()) -> str:
    """Return the code, with a bug if there is one: a piece of the code, and its replacement.

    >>> bug = "mask == 0", "mask == 1"
    >>> [line for line in taught_code(bug).splitlines() if "masked_fill" in line]
    ['            scores = scores.masked_fill(mask == 1, -1e9)']
    """
    code = (files(__package__) / "taught_attention.txt").read_text("utf-8")
    return code.replace(bug[0], bug[1]) if bug else code


def run_taught(
    weights: AttentionWeights,
    query: Annotated[Tensor, "query d_model"],
    key: Annotated[Tensor, "key d_model"],
    causal: bool,
    bug: Sequence[str] = (),
) -> tuple[Tensor, Tensor]:
    """Run the code with a layer's weights, as `spread` gives them, on what the layer has read.

    Returns:
        The output (query, d_model), and the weights (head, query, key).

    Raises:
        ShapeError: a layer whose heads are not d_model / n_heads wide: the code knows no other.
        AttributeError: a bug by which the code ends in one.

    >>> ones = AttentionWeights(*torch.ones(3, 2, 4, 2), torch.ones(2, 2, 4))
    >>> run_taught(ones, torch.ones(3, 4), torch.ones(3, 4), causal=True)[1][0, 1]
    tensor([0.5000, 0.5000, 0.0000])
    """
    n_heads, d_model, d_k = weights.W_Q.shape
    shapes = {tuple(W.shape) for W in (weights.W_Q, weights.W_K, weights.W_V)}
    if shapes != {(n_heads, d_model, d_model / n_heads)}:
        raise ShapeError(
            f"The taught code has heads of d_model / h = {d_model / n_heads:g} numbers; this layer "
            f"has heads of {d_k}. Choose another model to compare."
        )
    namespace: dict[str, Any] = {}
    exec(taught_code(bug), namespace)  # our own text, and never a visitor's
    module = namespace["MultiHeadAttention"](d_model, n_heads)
    state = {"W_o.weight": weights.W_O.flatten(0, 1).T}
    for letter in "QKVO":
        name, bias = f"W_{letter.lower()}", getattr(weights, f"b_{letter}")
        if letter != "O":  # all outputs of head 0, then those of head 1 ...
            state[f"{name}.weight"] = getattr(weights, f"W_{letter}").mT.flatten(0, 1)
        state[f"{name}.bias"] = torch.zeros(d_model) if bias is None else bias.flatten()
    module.load_state_dict(state)
    mask = torch.ones(len(query), len(key)).tril() if causal else None
    with torch.no_grad():
        output, pattern = module(query[None], key[None], key[None], mask)
    return output[0], pattern[0]
