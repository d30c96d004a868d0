"""Lab 4: the same layer in ten lines of PyTorch, as text to be copied and run."""

from mha_viz.core.record.record import AttentionRecord
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
