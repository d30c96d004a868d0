"""The commands that change heads: ablate, importance, prune."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from mha_viz.cli.format import TableFormat
from mha_viz.cli.options import (
    Model,
    Out,
    Pair,
    TableAs,
    Text,
    Texts,
    deliver_table,
    load,
    read,
    read_texts,
    tell_notes,
)
from mha_viz.core.names import HOWS, ORDERS
from mha_viz.errors import ArgumentError

Heads = Annotated[str, typer.Option("--heads", help="layer.head, as 3.7,2.1; counted from 0.")]
How = Annotated[str, typer.Option(help=f"{', '.join(HOWS[:-1])} or {HOWS[-1]}.")]
UNIT = "nats per token"


def add_to(app: typer.Typer) -> None:
    """Make them commands of the app."""
    for command in (ablate, importance, prune):
        app.command()(command)


def ablate(
    text: Text,
    heads: Heads,
    model: Model = "tiny-gpt2",
    how: How = "zero",
    factor: Annotated[float, typer.Option(help="For --how scale.")] = 0.0,
    source: Annotated[str | None, typer.Option(help="For a patch: a text as long.")] = None,
    target: Annotated[str | None, typer.Option(help="Follow this token.")] = None,
    against: Annotated[str | None, typer.Option(help="... and its logit less this one's.")] = None,
    position: Annotated[int | None, typer.Option(help="Which token, from 0; -1 is last.")] = None,
    top: Annotated[int, typer.Option(help="How many of the likeliest tokens.")] = 10,
    pair: Pair = None,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Change heads and say what the model predicts then."""
    given, chosen = read(text, pair), parse_heads(heads)
    from mha_viz.interventions.ablation import ablate

    loaded = load(model)
    found = ablate(
        loaded,
        given,
        chosen,
        how,
        factor=factor,
        source=source,
        target=target,
        against=against,
        position=position,
        top_k=top,
        text_pair=pair,
    )
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
    deliver_table(found.table(), file_format, out, f"{loaded.name}, {how}: {names}{over}", **known)


def importance(
    texts: Texts,
    model: Model = "tiny-gpt2",
    method: Annotated[str, typer.Option(help="ablation or gradient.")] = "ablation",
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """How much the loss depends on each head, over one text or several."""
    found_texts = read_texts(texts)
    from mha_viz.interventions.importance import head_importance

    loaded = load(model)
    found = head_importance(loaded, found_texts, method, on_progress=progress("heads"))
    tell_notes(found.notes)
    table = found.table().sort_values("importance", ascending=False, kind="stable")
    title = f"{loaded.name}: importance by {method}, {UNIT}, {found.n_texts} text(s)"
    deliver_table(table, file_format, out, title, loss=float(found.loss.mean()), method=method)


def prune(
    texts: Texts,
    model: Model = "tiny-gpt2",
    order: Annotated[
        list[str] | None,
        typer.Option(help=f"{', '.join(ORDERS)}; all of them if not given."),
    ] = None,
    steps: Annotated[int, typer.Option(help="Points after the one with all heads.")] = 8,
    seeds: Annotated[int, typer.Option(help="How many random orders.")] = 5,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Take heads away one after the other and follow the loss."""
    found_texts = read_texts(texts)  # before anything heavy is imported
    import pandas as pd

    from mha_viz.interventions.pruning import pruning_curve

    loaded = load(model)
    curves = []
    for name in order or ORDERS:
        curve = pruning_curve(
            loaded, found_texts, name, steps=steps, n_seeds=seeds, on_progress=progress(name)
        )
        tell_notes(f"{name}: {note}" for note in curve.notes)
        curves.append(curve.table().assign(order=name))
    table = pd.concat(curves, ignore_index=True)
    table = table[["order", *(column for column in table if column != "order")]]
    title = f"{loaded.name}: loss while heads are taken away, {UNIT}, {len(found_texts)} text(s)"
    deliver_table(table, file_format, out, title)


def parse_heads(given: str) -> list[tuple[int, int]]:
    """ "3.7,2.1" as [(3, 7), (2, 1)].

    Raises:
        ArgumentError: anything else.

    >>> parse_heads("3.7, 2.1")
    [(3, 7), (2, 1)]
    """
    heads = []
    for part in given.split(","):
        layer, dot, head = part.strip().partition(".")
        if not (dot and layer.isdecimal() and head.isdecimal() and len(part) <= 12):
            raise ArgumentError(f"Heads are given as layer.head, such as 3.7,2.1; got {part!r}.")
        heads.append((int(layer), int(head)))
    return heads


def progress(what: str) -> Callable[[int, int], None] | None:
    """Tells a terminal how far the work is, on standard error; nothing where that is a file.

    Args:
        what: is counted.
    """
    if not sys.stderr.isatty():
        return None

    def tell(done: int, total: int) -> None:
        end = "\n" if done >= total else ""
        typer.echo(f"\r{what}: {done:,} of {total:,} {end}", err=True, nl=False)

    return tell
