"""The steps of lab 4: the factors of each matrix, its texts and its notes, by texts.toml."""

from functools import partial
from typing import Any

from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.reprs import count
from mha_viz.learn.frame.matrix_step import Axis, Matrix, MatrixStep
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.step_by_step.numbers import Steps
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
STEPS = TEXTS.labels("menu")
FACTORS, MATRICES, READS = (TEXTS.tables[name] for name in ("factors", "matrices", "reads"))
BUGS: dict[str, list[str]] = TEXTS.tables["bugs"]["changes"]


def step_matrices(key: str, steps: Steps, record: AttentionRecord, head: int) -> MatrixStep:
    """Return the matrices of a step by its key, and the origin of each number."""
    n_heads, width = len(steps.patterns), steps.matrices["z"].shape[1]
    names = {"token": list(record.labels), "key": list(record.key_labels)}
    names["joined"] = [f"H{i}·{j}" for i in range(n_heads) for j in range(width)]
    size = steps.differences["output"][1]
    limits = {"weights": (0.0, 1.0)} | dict.fromkeys(("theirs", "difference"), (-size, size))

    def axis(name: str, size: int) -> Axis:
        called = names.get(name, [str(i) for i in range(size)])
        return Axis(name, TEXTS(f"axes.{name}"), called, labels=name in ("token", "key"))

    def matrix(name: str) -> Matrix:
        title, *axes = MATRICES[name]
        values = steps.matrices[name]
        title = "X" if name == "Y" and not record.is_cross else title
        rows, columns = map(axis, axes, values.shape)
        return Matrix(title, values, rows, columns, limits.get(name))

    bias = getattr(steps.weights, {"output": "b_O"}.get(key, f"b_{key.upper()}"), None)
    bias = bias[head] if bias is not None and key != "output" else bias
    result, *factors = map(matrix, FACTORS[key])
    first, second = (*factors, None, None)[:2]
    return MatrixStep(result, first, second, bias, partial(_origin, key, steps))


def _origin(key: str, steps: Steps, row: int, column: int) -> str:
    """Explain a number that is no product of two matrices."""
    sources = TEXTS.tables["cells"]["values"].get(key, {})
    values = {name: steps.matrices[of][row, column] for name, of in sources.items()}
    head, position = divmod(column, steps.matrices["z"].shape[1])
    keys = count(len(steps.matrices["V"]), "key")
    is_hidden = key in ("mask", "softmax") and bool(values["score"].isinf())
    softmax = "own" if "pattern" in steps.from_model else "zero" if is_hidden else key
    name = {"mask": "hidden" if is_hidden else "stays", "softmax": softmax}.get(key, key)
    more = {"factor": steps.scale, "keys": keys, "head": head, "place": position}
    return TEXTS(f"cells.{name}", **values, **more)


def step_text(key: str, steps: Steps, record: AttentionRecord) -> tuple[str, dict[str, Any]]:
    """Return the name of a step's texts, and the values in them, the formula among them."""
    (gap, size), factor = steps.differences["output"], format_number(steps.scale)
    n_heads, width = len(steps.patterns), steps.matrices["z"].shape[1]
    masked, formula, letter = steps.matrices["masked"], None, key.upper()
    if key in "qkv":
        tokens = "Y" if record.is_cross and key != "q" else "X"
        added = "" if getattr(steps.weights, f"b_{letter}") is None else f" + b^{letter}_i"
        formula = f"{letter}_i = {tokens} W^{letter}_i{added}"
    elif key == "scale":
        formula = rf"\frac{{Q_i K_i^\top}}{{\sqrt{{{steps.d_k}}}}}"
        formula = formula if steps.has_usual_scale else rf"{factor}\; Q_i K_i^\top"
    variants = {
        "scale": "" if steps.has_usual_scale else "-factor",
        "mask": "-causal" if steps.causal else "",
        "output": "" if steps.weights.b_O is None else "-biased",
    }
    is_rounding, is_coarse = gap <= 1e-3 * max(size, 1e-6), gap <= 0.05 * size
    verdict = "rounding" if is_rounding else "coarse" if is_coarse else "different"
    verdict = "switched" if steps.causal != record.causal else verdict
    values = {"gap": gap, "size": size, "factor": factor, "formula": formula}
    values |= {"width": width, "n_heads": n_heads, "joined": n_heads * width}
    values |= {"n_hidden": int(masked.isinf().sum()), "n": masked.numel()}
    return f"steps.{key}{variants.get(key, '')}", values | {"verdict": TEXTS(f"verdicts.{verdict}")}


def step_notes(key: str, steps: Steps, record: AttentionRecord, head: int) -> list[str]:
    """Return notes on a step where this model differs from the textbook."""
    n_heads, n_kv, d_k = len(steps.weights.W_Q), steps.n_kv_heads, steps.d_k
    values: dict[str, Any] = {"n_heads": n_heads, "n_kv_heads": n_kv, "head": head, "d_k": d_k}
    values |= {"own": head // (n_heads // n_kv), "factor": steps.scale, "usual": d_k**-0.5}
    applies = {
        "cross": key == "x" and record.is_cross,
        "shared": key in "kv" and n_kv != n_heads,
        "scale": key == "scale" and not steps.has_usual_scale,
        "switched": key == "mask" and steps.causal != record.causal,
    }
    notes = [TEXTS(f"notes.{name}", **values) for name in applies if applies[name]]
    for name in READS.get(key, ()):
        if name in steps.from_model:
            kind = "pattern" if name == "pattern" else "changed"
            notes.append(TEXTS(f"notes.{kind}", name=name, gap=steps.differences[name][0]))
    return notes
