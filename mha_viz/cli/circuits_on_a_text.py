"""The commands of `mha-viz circuits` that take one text apart: logits, scores, tokens, lens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mha_viz.cli.format import TableFormat
from mha_viz.cli.interventions import parse_heads
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
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    from pandas import DataFrame

_SHOWN = 20  # rows of a table to read; files and JSON have all
_Layer = Annotated[int, typer.Option("--layer", "-l", help="From 0.")]
_Head = Annotated[int, typer.Option("--head", "-H", help="From 0.")]
_Token = Annotated[
    str | None, typer.Option(help="Of this token; the model's first choice if not given.")
]
_Position = Annotated[
    int | None,
    typer.Option(help="Where the model predicts, from 0; else its last token or first [MASK]."),
]


def add_to(app: typer.Typer) -> None:
    """Make them commands of the group."""
    for command in (logits, scores, tokens, lens):
        app.command()(command)


def logits(
    text: Text,
    model: Model = "tiny-gpt2",
    token: _Token = None,
    versus: Annotated[str | None, typer.Option(help="Less the logit of this token.")] = None,
    position: _Position = None,
    of: Annotated[str, typer.Option(help="logit or log_probability.")] = "logit",
    sources: Annotated[
        str | None, typer.Option(help="layer.head, as 3.7: that head's share by source token.")
    ] = None,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """What each head, MLP and bias adds to the logit of a token."""
    given = read(text)
    chosen = None if sources is None else _one_head(sources)
    from mha_viz.circuits.logit_attribution import logit_attribution

    loaded = load(model)
    found = logit_attribution(loaded, given, token, versus, position, of=of)
    tell_notes(found.notes)
    table = found.table() if chosen is None else found.sources_table(*chosen)
    less = "" if found.versus is None else f" less that of {found.versus}"
    part = "" if chosen is None else f", by the source of L{chosen[0]} H{chosen[1]}"
    title = (
        f"{loaded.name}: {found.of.replace('_', '-')} of {found.token}{less} at position "
        f"{found.position}{part}"
    )
    numbers = {"value": found.value, "sum": found.sum(), "remainder": found.remainder}
    deliver_table(_to_read(table, file_format), file_format, out, title, **numbers)


def scores(
    text: Text,
    layer: _Layer,
    head: _Head,
    query: Annotated[int, typer.Option(help="Position of the token that looks, from 0.")],
    key: Annotated[int, typer.Option(help="Position of the token looked at, from 0.")],
    versus: Annotated[int | None, typer.Option(help="Less the score of this key.")] = None,
    model: Model = "tiny-gpt2",
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Why a head looks there: a score by what was written to query and key before."""
    given = read(text)
    from mha_viz.circuits.score_attribution import score_attribution

    loaded = load(model)
    found = score_attribution(loaded, given, layer, head, query, key, versus)
    tell_notes(found.notes)
    named = [f"{found.tokens[i].text} ({i})" for i in (query, key)]
    less = "" if versus is None else f" less to {found.tokens[versus].text} ({versus})"
    title = f"{loaded.name}: score of L{layer} H{head} from {named[0]} to {named[1]}{less}"
    numbers = {"value": found.value, "sum": found.sum(), "remainder": found.remainder}
    table = _to_read(found.table(), file_format)
    deliver_table(table, file_format, out, title, **numbers)


def tokens(
    text: Text,
    layer: _Layer,
    head: _Head,
    model: Model = "tiny-gpt2",
    position: _Position = None,
    top: Annotated[int, typer.Option(help="How many of each.")] = 10,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Which tokens a head promotes and suppresses where the model predicts."""
    given = read(text)
    from mha_viz.circuits.vocabulary import head_tokens

    loaded = load(model)
    found = head_tokens(loaded, given, layer, head, position, top_k=top)
    title = f"{loaded.name}: what L{layer} H{head} adds to logits at position {found.position}"
    deliver_table(found.table(), file_format, out, title)


def lens(
    text: Text,
    model: Model = "tiny-gpt2",
    token: _Token = None,
    position: _Position = None,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """The running guess: what the model would predict if it ended after each layer."""
    given = read(text)
    from mha_viz.circuits.vocabulary import logit_lens

    loaded = load(model)
    found = logit_lens(loaded, given, token, position)
    tell_notes(["Middle layers are not trained to be read this way: a guess is no belief."])
    title = f"{loaded.name}: probability of {found.token} and first guess after each layer"
    deliver_table(found.table(), file_format, out, title)


def _one_head(given: str) -> tuple[int, int]:
    heads = parse_heads(given)
    if len(heads) != 1:
        raise ArgumentError(f"--sources takes one head, as 3.7, got {given}.")
    return heads[0]


def _to_read(table: DataFrame, file_format: TableFormat) -> DataFrame:
    """Largest shares first and few columns where people read it; otherwise as it is."""
    if file_format is not TableFormat.table:
        return table
    largest = table.sort_values("share", key=abs, ascending=False, kind="stable").head(_SHOWN)
    return largest.drop(columns=["kind", "layer", "head"], errors="ignore")
