"""The commands that change heads: ablate, importance, prune."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from mha_viz.cli import options
from mha_viz.cli.format import TableFormat
from mha_viz.core.names import ORDERS, How, Method

Heads = Annotated[str, typer.Option("--heads", help="layer.head, as 3.7,2.1; counted from 0.")]
OrderChoice = StrEnum("OrderChoice", ["ablation", "gradient", "redundancy", "random"])
UNIT = "nats per token"


def ablate(
    text: options.Text,
    heads: Heads,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    how: Annotated[How, typer.Option(help="Change of the heads' output.")] = "zero",
    factor: Annotated[float, typer.Option(help="Factor for --how scale.")] = 0.0,
    source: Annotated[
        str | None, typer.Option(help="Text to patch from, of as many tokens.")
    ] = None,
    target: options.Target = None,
    against: options.Against = None,
    position: Annotated[
        int | None, typer.Option(help="Position of the prediction, from 0; -1 is the last.")
    ] = None,
    top: Annotated[int, typer.Option(help="Number of likeliest tokens to list.")] = 10,
    pair: options.Pair = None,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Change heads and show what the model predicts then."""
    given, chosen = options.read(text, pair), options.parse_heads(heads)
    from mha_viz.interventions.ablation import ablate

    loaded = options.load(model, device, dtype)
    tracked = dict(target=target, against=against, position=position, top_k=top)
    change: dict[str, Any] = dict(tracked, factor=factor, source=source, text_pair=pair)
    found = ablate(loaded, given, chosen, how, **change)
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
    options.deliver_table(found.table(), file_format, out, title, **known)


def importance(
    texts: options.Texts,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    method: Annotated[Method, typer.Option(help="How to measure.")] = "ablation",
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Measure how much the loss depends on each head, over one text or several."""
    measured_texts = options.read_texts(texts)
    from mha_viz.interventions.importance import head_importance

    loaded = options.load(model, device, dtype)
    found = head_importance(loaded, measured_texts, method, on_progress=options.progress("heads"))
    options.print_notes(found.notes)
    table = found.table().sort_values("importance", ascending=False, kind="stable")
    title = f"{loaded.name}: importance by {method}, {UNIT}, {found.n_texts} text(s)"
    loss = float(found.loss.mean())
    options.deliver_table(table, file_format, out, title, loss=loss, method=method)


def prune(
    texts: options.Texts,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    order: Annotated[
        list[OrderChoice] | None,
        typer.Option(help="Order of removal; may be repeated. [default: all]"),
    ] = None,
    steps: Annotated[int, typer.Option(help="Number of points on each curve.")] = 8,
    seeds: Annotated[int, typer.Option(help="Number of random orders.")] = 5,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Remove heads one by one and follow the loss."""
    measured_texts = options.read_texts(texts)  # before anything heavy is imported
    import pandas as pd

    from mha_viz.interventions.pruning import pruning_curve

    loaded = options.load(model, device, dtype)
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
    options.deliver_table(table, file_format, out, title)
