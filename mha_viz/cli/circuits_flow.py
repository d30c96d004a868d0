"""The command of `mha-viz circuits` that follows what flows into a token."""

from __future__ import annotations

from typing import Annotated

import typer

from mha_viz.cli.format import TableFormat
from mha_viz.cli.options import (
    Model,
    Out,
    TableAs,
    Text,
    deliver_table,
    load,
    read,
    tell_notes,
)

_SHOWN = 20  # edges of a table to read; files and JSON have all
_TO_READ = ["source", "target", "weight", "share", "flow"]


def add_to(app: typer.Typer) -> None:
    """Make it a command of the group."""
    app.command()(flow)


def flow(
    text: Text,
    position: Annotated[
        int, typer.Option(help="The token whose state is followed, from 0; -1 is the last.")
    ] = -1,
    model: Model = "tiny-gpt2",
    threshold: Annotated[
        float, typer.Option(help="The smallest share that is followed, in [0, 1].")
    ] = 0.02,
    measure: Annotated[str, typer.Option(help="proximity or norm.")] = "proximity",
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """What one token's state behind the last layer is made of, down to the input tokens."""
    given = read(text)
    from mha_viz.circuits.flow import flow_graph

    loaded = load(model)
    found = flow_graph(loaded, given, position, threshold, measure=measure)
    tell_notes(found.notes)
    edges = found.edges
    if file_format is TableFormat.table:
        edges = edges.nlargest(_SHOWN, "flow")[_TO_READ]
    title = (
        f"{loaded.name}: what flows into {found.tokens[found.position].text} at position "
        f"{found.position}; {found.kept:.1%} of it followed, {found.cut:.1%} cut"
    )
    deliver_table(edges, file_format, out, title, kept=found.kept, cut=found.cut)
