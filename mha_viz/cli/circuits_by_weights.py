"""The commands of `mha-viz circuits` that look at weights alone: composition."""

from __future__ import annotations

from typing import Annotated

import typer

from mha_viz.cli.format import TableFormat
from mha_viz.cli.options import Out, TableAs, deliver_table, kind_of, load, tell_notes

_SHOWN = 20  # rows of a table to read


def add_to(app: typer.Typer) -> None:
    """Make them commands of the group."""
    app.command()(composition)


def composition(
    model: Annotated[str, typer.Argument(help="Shipped name, folder or Hub id.")] = "tiny-gpt2",
    kind: Annotated[str, typer.Option("--kind", "-k", help="Through Q, K or V.")] = "K",
    file_format: TableAs = None,
    out: Out = None,
) -> None:
    """Which head reads what an earlier head wrote, by their weights."""
    from mha_viz.circuits.composition import composition

    found = composition(load(model), kind)
    tell_notes(found.notes)
    table = found.table()
    shown = table
    if kind_of(TableFormat, file_format, out) is TableFormat.table:
        shown = table.head(_SHOWN)
    title = f"{model}: {kind}-composition, {len(shown)} of {len(table):,} pairs, by z-score"
    deliver_table(shown, file_format, out, title, through=kind)
