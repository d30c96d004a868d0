"""The commands that change heads: ablate, importance, prune."""

from enum import StrEnum
from typing import Any

from mha_viz.cli import options
from mha_viz.cli.texts import read_texts
from mha_viz.core.names import ORDERS, How, Method

OrderChoice = StrEnum("OrderChoice", ["ablation", "gradient", "redundancy", "random"])
UNIT = "nats per token"


def ablate(
    text: options.Text,
    heads: str,
    checkpoint: options.Checkpoint,
    tracked: options.Tracked,
    output: options.TableOutput,
    how: How = "zero",
    factor: float = 0.0,
    source: str | None = None,
    top: int = 10,
    pair: options.Pair = None,
) -> None:
    """Change heads and show what the model predicts then."""
    chosen = options.parse_heads(heads)
    from mha_viz.interventions.ablation import ablate

    loaded = checkpoint.load()
    change: dict[str, Any] = dict(factor=factor, source=source, text_pair=pair, top_k=top)
    found = ablate(loaded, text, chosen, how, **change, **vars(tracked))
    numbers: dict[str, object] = {
        "kl_nats": found.kl,
        "entropy_before": found.before.entropy,
        "entropy_after": found.after.entropy,
        "loss_before": found.before.loss,
        "loss_after": found.after.loss,
        "logit_difference_before": found.logit_difference_before,
        "logit_difference_after": found.logit_difference_after,
    }
    for name, token in (("target", found.target), ("against", found.against)):
        if token is not None:
            numbers |= {
                name: token.text,
                f"{name}_log_probability_before": token.before,
                f"{name}_log_probability_after": token.after,
            }
    known = {key: value for key, value in numbers.items() if value is not None}
    names = ", ".join(f"L{i} H{j}" for i, j in found.intervention.heads)
    over = f" (mean over {found.averaged})" if found.averaged else ""
    title = f"{loaded.name}, {how}: {names}{over}"
    output.deliver(found.table(), title, **known)


def importance(
    texts: str,
    checkpoint: options.Checkpoint,
    output: options.TableOutput,
    method: Method = "ablation",
) -> None:
    """Measure how much the loss depends on each head, over one text or several."""
    measured_texts = read_texts(texts)
    from mha_viz.interventions.importance import head_importance

    loaded = checkpoint.load()
    found = head_importance(loaded, measured_texts, method, on_progress=options.progress("heads"))
    options.print_notes(found.notes)
    table = found.table().sort_values("importance", ascending=False, kind="stable")
    title = f"{loaded.name}: importance by {method}, {UNIT}, {found.n_texts} text(s)"
    loss = float(found.loss.mean())
    output.deliver(table, title, loss=loss, method=method)


def prune(
    texts: str,
    checkpoint: options.Checkpoint,
    output: options.TableOutput,
    order: list[OrderChoice] | None = None,
    steps: int = 8,
    seeds: int = 5,
) -> None:
    """Remove heads one by one and follow the loss."""
    measured_texts = read_texts(texts)  # before anything heavy is imported
    import pandas as pd

    from mha_viz.interventions.pruning import pruning_curve

    loaded = checkpoint.load()
    curves = []
    points: dict[str, Any] = dict(steps=steps, n_seeds=seeds)
    for name in order or ORDERS:
        on_progress = options.progress(name)
        curve = pruning_curve(loaded, measured_texts, name, on_progress=on_progress, **points)
        options.print_notes(f"{name}: {note}" for note in curve.notes)
        curves.append(curve.table().assign(order=name))
    table = pd.concat(curves, ignore_index=True)
    table = table[["order", *(column for column in table if column != "order")]]
    title = f"{loaded.name}: loss while heads are taken away, {UNIT}, {len(measured_texts)} text(s)"
    output.deliver(table, title)
