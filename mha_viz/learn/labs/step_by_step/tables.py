"""The steps of lab 4: the factors of each matrix, its texts and its notes."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.reprs import count
from mha_viz.learn.frame.matrix_step import Axis, Matrix, MatrixStep
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.step_by_step.numbers import Steps
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
STEPS = TEXTS.labels("menu")
# A result, and what it is made of: two that are multiplied, one that is changed, or nothing.
PARTS = {
    "x": ("X",),
    "q": ("X W_Q", "X", "W_Q"),
    "k": ("Y W_K", "Y", "W_K"),
    "v": ("Y W_V", "Y", "W_V"),
    "scores": ("Q Kᵀ", "Q", "Kᵀ"),
    "scale": ("scores", "Q Kᵀ"),
    "mask": ("masked", "scores"),
    "softmax": ("weights", "masked"),
    "values": ("z", "weights", "V"),
    "concat": ("joined",),
    "output": ("output", "joined", "W_O"),
    "compare": ("difference", "theirs"),
}
# What a step reads that the matrices alone may not give.
READS = {
    "q": ("query",),
    "k": ("key",),
    "v": ("value",),
    "scores": ("query", "key"),
    "softmax": ("pattern",),
    "values": ("value",),
}


def step_matrices(key: str, steps: Steps, record: AttentionRecord, head: int) -> MatrixStep:
    """Return the matrices of a step by its key, and the origin of each number."""
    matrices, letter = _matrices(steps, record, head), key.upper()
    biases = {name: getattr(steps.weights, f"b_{name}") for name in "QKV"}
    bias = biases[letter][head] if biases.get(letter) is not None else None
    result, first, second = (*map(matrices.get, PARTS[key]), None, None)[:3]
    assert result is not None
    bias = steps.weights.b_O if key == "output" else bias
    return MatrixStep(result, first, second, bias, partial(_origin, key, steps))


def _matrices(steps: Steps, record: AttentionRecord, head: int) -> Mapping[str, Matrix]:
    W, activations = steps.weights, steps.activations
    n_heads, _, width = steps.z.shape
    queries = Axis("token", "token", list(record.labels), True)
    # With a name of its own: a window into the scores moves both ways.
    keys = Axis("key", "key token", list(record.key_labels), True)
    read = [
        Axis.numbered("in", "column of X", part.shape[1]) for part in (activations.X, activations.Y)
    ]
    inner, value = (
        Axis.numbered("dim", "column of the head", size) for size in (len(steps.query.T), width)
    )
    model = Axis.numbered("out", "column of d_model", steps.output.shape[1])
    names = [f"H{i}·{j}" for i in range(n_heads) for j in range(width)]
    joined, size = Axis("joined", "column of all heads", names), steps.differences["output"][1]
    drawn: list[tuple[Any, ...]] = [
        ("X", "X", activations.X, queries, read[0]),
        ("Y", "Y" if record.is_cross else "X", activations.Y, keys, read[1]),
        ("Q", "Q", steps.query, queries, inner),
        ("Kᵀ", "Kᵀ", steps.key.T, inner, keys),
        ("V", "V", steps.value, keys, value),
        ("Q Kᵀ", "Q Kᵀ", steps.dots, queries, keys),
        ("scores", "scores", steps.scaled, queries, keys),
        ("masked", "masked scores", steps.masked, queries, keys),
        ("weights", "weights", steps.pattern, queries, keys, (0.0, 1.0)),
        ("z", "z", steps.z[head], queries, value),
        ("joined", "all heads", steps.joined, queries, joined),
        ("W_O", "W_O", steps.W_O, joined, model),
        ("output", "output", steps.output, queries, model),
        ("theirs", "the model’s own", activations.output, queries, model, (-size, size)),
    ]
    apart = steps.output - activations.output
    drawn.append(("difference", "difference", apart, queries, model, (-size, size)))
    for letter, tokens in zip("QKV", (0, 1, 1), strict=True):
        weight, bias = getattr(W, f"W_{letter}")[head], getattr(W, f"b_{letter}")
        columns, rows = value if letter == "V" else inner, keys if tokens else queries
        projected = (activations.Y if tokens else activations.X) @ weight
        projected = projected if bias is None else projected + bias[head]
        drawn.append((f"W_{letter}", f"W_{letter}", weight, read[tokens], columns))
        drawn.append((f"{'XY'[tokens]} W_{letter}", letter, projected, rows, columns))
    return {name: Matrix(*fields) for name, *fields in drawn}


def _origin(key: str, steps: Steps, row: int, column: int) -> str:
    """Explain a number that is no product of two matrices."""
    score, name, values = steps.masked, key, dict[str, object]()
    if key == "scale":
        values = {"score": steps.dots[row, column], "factor": steps.scale}
    elif key == "mask":
        name = "hidden" if torch.isinf(score[row, column]) else "stays"
    elif key == "softmax":
        values = {"score": score[row, column], "keys": count(len(steps.key), "key")}
        name = "zero" if torch.isinf(score[row, column]) else key
        name = "own" if "pattern" in steps.from_model else name
    elif key == "concat":
        values = dict(zip(("head", "place"), divmod(column, steps.z.shape[-1]), strict=True))
    elif key == "compare":
        theirs = steps.activations.output[row, column]
        values = {"ours": steps.output[row, column], "own": theirs}
    return TEXTS(f"cells.{name}", **values)


def step_text(key: str, steps: Steps, record: AttentionRecord) -> tuple[str, dict[str, Any]]:
    """Return the name of a step's texts, and the values in them, the formula among them."""
    d_k, name, formula = steps.query.shape[1], key, None
    gap, size = steps.differences["output"]
    values: dict[str, Any] = {"gap": gap, "size": size}
    if key in "qkv":
        letter, tokens = key.upper(), "Y" if record.is_cross and key != "q" else "X"
        added = "" if getattr(steps.weights, f"b_{letter}") is None else f" + b^{letter}_i"
        formula = f"{letter}_i = {tokens} W^{letter}_i{added}"
    elif key == "scale":
        values["factor"] = factor = format_number(steps.scale)
        formula = rf"\frac{{Q_i K_i^\top}}{{\sqrt{{{d_k}}}}}"
        if not steps.has_usual_scale:
            name, formula = "scale-factor", rf"{factor}\; Q_i K_i^\top"
    elif key == "mask":
        name = "mask-causal" if steps.causal else key
        values |= {"n_hidden": int(steps.masked.isinf().sum()), "n": steps.masked.numel()}
    elif key == "concat":
        n_heads, _, width = steps.z.shape
        values |= {"width": width, "n_heads": n_heads, "joined": n_heads * width}
    elif key == "output" and steps.weights.b_O is not None:
        name = "output-biased"
    elif key == "compare":
        verdict = "coarse" if gap <= 0.05 * size else "different"
        verdict = "rounding" if gap <= 1e-3 * max(size, 1e-6) else verdict
        values["verdict"] = TEXTS(f"verdicts.{'switched' if steps.switched else verdict}")
    return f"steps.{name}", values | {"formula": formula}


def step_notes(key: str, steps: Steps, record: AttentionRecord, head: int) -> list[str]:
    """Return notes on a step where this model differs from the textbook."""
    n_heads, n_kv, d_k = len(steps.weights.W_Q), steps.n_kv_heads, steps.query.shape[1]
    notes = []
    if key == "x" and record.is_cross:
        notes.append(TEXTS("notes.cross"))
    if key in "kv" and n_kv != n_heads:
        values = dict(n_heads=n_heads, n_kv_heads=n_kv, head=head, own=head // (n_heads // n_kv))
        notes.append(TEXTS("notes.shared", **values))
    if key == "scale" and not steps.has_usual_scale:
        notes.append(TEXTS("notes.scale", factor=steps.scale, d_k=d_k, usual=d_k**-0.5))
    if key == "mask" and steps.switched:
        notes.append(TEXTS("notes.switched"))
    for name in READS.get(key, ()):
        if name in steps.from_model:
            kind = "pattern" if name == "pattern" else "changed"
            notes.append(TEXTS(f"notes.{kind}", name=name, gap=steps.differences[name][0]))
    return notes
