"""The commands of `mha-viz circuits` that read one text or the weights, and do not intervene."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mha_viz.cli.format import TableFormat
from mha_viz.cli.options import (
    SHOWN,
    Model,
    Out,
    Position,
    TableAs,
    Text,
    deliver_table,
    load,
    parse_head,
    print_notes,
    read,
)

if TYPE_CHECKING:
    from pandas import DataFrame

_Layer = Annotated[int, typer.Option("--layer", "-l", help="From 0.")]
_Head = Annotated[int, typer.Option("--head", "-H", help="From 0.")]
_Token = Annotated[
    str | None, typer.Option(help="Of this token; the model's first choice if not given.")
]


def logits(
    text: Text,
    model: Model = "tiny-gpt2",
    token: _Token = None,
    versus: Annotated[str | None, typer.Option(help="Less the logit of this token.")] = None,
    position: Position = None,
    of: Annotated[str, typer.Option(help="logit or log_probability.")] = "logit",
    sources: Annotated[
        str | None, typer.Option(help="layer.head, as 3.7: that head's share by source token.")
    ] = None,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Show what each head, MLP and bias adds to the logit of a token."""
    given = read(text)
    chosen = None if sources is None else parse_head(sources, "--sources takes one head, as 3.7")
    from mha_viz.circuits.decompose.logit_attribution import logit_attribution

    loaded = load(model)
    found = logit_attribution(loaded, given, token, versus, position, of=of)
    print_notes(found.notes)
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
    """Show why a head looks there: a score by what was written to query and key before."""
    given = read(text)
    from mha_viz.circuits.decompose.score_attribution import score_attribution

    loaded = load(model)
    found = score_attribution(loaded, given, layer, head, query, key, versus)
    print_notes(found.notes)
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
    position: Position = None,
    top: Annotated[int, typer.Option(help="How many of each.")] = 10,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Show which tokens a head promotes and suppresses where the model predicts."""
    given = read(text)
    from mha_viz.circuits.decompose.vocabulary import head_tokens

    loaded = load(model)
    found = head_tokens(loaded, given, layer, head, position, top_k=top)
    title = f"{loaded.name}: what L{layer} H{head} adds to logits at position {found.position}"
    deliver_table(found.table(), file_format, out, title)


def lens(
    text: Text,
    model: Model = "tiny-gpt2",
    token: _Token = None,
    position: Position = None,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Show the running guess: what the model would predict if it ended after each layer."""
    given = read(text)
    from mha_viz.circuits.decompose.vocabulary import logit_lens

    loaded = load(model)
    found = logit_lens(loaded, given, token, position)
    print_notes(["Middle layers are not trained to be read this way: a guess is no belief."])
    title = f"{loaded.name}: probability of {found.token} and first guess after each layer"
    deliver_table(found.table(), file_format, out, title)


def _to_read(table: DataFrame, file_format: TableFormat) -> DataFrame:
    """Return the largest shares first and few columns where people read it; otherwise as it is."""
    if file_format is not TableFormat.table:
        return table
    largest = table.sort_values("share", key=abs, ascending=False, kind="stable").head(SHOWN)
    return largest.drop(columns=["kind", "layer", "head"], errors="ignore")


Of = Annotated[str, typer.Argument(metavar="MODEL", help="Shipped name, folder or Hub id.")]


def composition(
    model: Of = "tiny-gpt2",
    kind: Annotated[str, typer.Option("--kind", "-k", help="Through Q, K or V.")] = "K",
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Show which head reads what an earlier head wrote, by their weights."""
    from mha_viz.circuits.weights.composition import composition

    found = composition(load(model), kind)
    print_notes(found.notes)
    table = found.table()
    shown = table
    if file_format is TableFormat.table:
        shown = table.head(SHOWN)
    title = f"{model}: {kind}-composition, {len(shown)} of {len(table):,} pairs, by z-score"
    deliver_table(shown, file_format, out, title, through=kind)


def copying(
    model: Of = "tiny-gpt2", file_format: TableAs = TableFormat.table, out: Out = None
) -> None:
    """Show which heads raise the token that they look at, by their weights."""
    from mha_viz.circuits.weights.ov_circuit import copying_scores

    table = copying_scores(load(model)).table()
    deliver_table(table, file_format, out, f"{model}: copying by the eigenvalues of OV circuits")


_TO_READ = ["source", "target", "weight", "share", "flow"]


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
    """Show what one token's state after the last layer is made of, down to the input tokens."""
    given = read(text)
    from mha_viz.circuits.flow.graph import flow_graph

    loaded = load(model)
    found = flow_graph(loaded, given, position, threshold, measure=measure)
    print_notes(found.notes)
    edges = found.edges
    if file_format is TableFormat.table:
        edges = edges.nlargest(SHOWN, "flow")[_TO_READ]
    title = (
        f"{loaded.name}: what flows into {found.tokens[found.position].text} at position "
        f"{found.position}; {found.kept:.1%} of it followed, {found.cut:.1%} cut"
    )
    deliver_table(edges, file_format, out, title, kept=found.kept, cut=found.cut)
