"""The commands of `mha-viz circuits` that look at weights alone: composition, copying."""

from __future__ import annotations

from typing import Annotated

import typer

from mha_viz.cli.format import TableFormat
from mha_viz.cli.options import Out, TableAs, deliver_table, load, tell_notes

_SHOWN = 20  # rows of a table to read
Of = Annotated[str, typer.Argument(metavar="MODEL", help="Shipped name, folder or Hub id.")]


def add_to(app: typer.Typer) -> None:
    """Make them commands of the group."""
    for command in (composition, copying):
        app.command()(command)


def composition(
    model: Of = "tiny-gpt2",
    kind: Annotated[str, typer.Option("--kind", "-k", help="Through Q, K or V.")] = "K",
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Which head reads what an earlier head wrote, by their weights."""
    from mha_viz.circuits.composition import composition

    found = composition(load(model), kind)
    tell_notes(found.notes)
    table = found.table()
    shown = table
    if file_format is TableFormat.table:
        shown = table.head(_SHOWN)
    title = f"{model}: {kind}-composition, {len(shown)} of {len(table):,} pairs, by z-score"
    deliver_table(shown, file_format, out, title, through=kind)


def copying(
    model: Of = "tiny-gpt2", file_format: TableAs = TableFormat.table, out: Out = None
) -> None:
    """Which heads raise the token that they look at, by their weights."""
    from mha_viz.circuits.ov_circuit import copying_scores

    table = copying_scores(load(model)).table()
    deliver_table(table, file_format, out, f"{model}: copying by the eigenvalues of OV circuits")
