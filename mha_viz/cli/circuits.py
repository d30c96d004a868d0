"""The commands of `mha-viz circuits` that read one text or the weights, and do not intervene."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mha_viz.cli import options
from mha_viz.cli.format import PICTURES, Format, TableFormat, figure_file
from mha_viz.core.reprs import count
from mha_viz.errors import ArgumentError, AttentionUnavailableError

if TYPE_CHECKING:
    from pathlib import Path

    from pandas import DataFrame

    from mha_viz.circuits.decompose.logit_attribution import LogitAttribution
    from mha_viz.circuits.decompose.score_attribution import ScoreAttribution

_Layer = Annotated[int, typer.Option("--layer", "-l", help="From 0.")]
_Head = Annotated[int, typer.Option("--head", "-H", help="From 0.")]
_Token = Annotated[str | None, typer.Option(help="Token to explain. [default: the likeliest]")]


def logits(
    text: options.Text,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    token: _Token = None,
    versus: Annotated[str | None, typer.Option(help="Token whose logit is subtracted.")] = None,
    position: options.Position = None,
    of: Annotated[
        Literal["logit", "log_probability"], typer.Option(help="Quantity to split.")
    ] = "logit",
    sources: Annotated[
        str | None,
        typer.Option(help="A head as layer.head, such as 3.7: split its share by source token."),
    ] = None,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Show what each head, MLP and bias adds to the logit of a token."""
    given = options.read(text)
    refusal = "--sources takes one head, as 3.7"
    chosen = None if sources is None else options.parse_head(sources, refusal)
    from mha_viz.circuits.decompose.logit_attribution import logit_attribution

    loaded = options.load(model, device, dtype)
    found = logit_attribution(loaded, given, token, versus, position, of=of)
    table = found.table() if chosen is None else found.sources_table(*chosen)
    less = "" if found.versus is None else f" less that of {found.versus}"
    part = "" if chosen is None else f", by the source of L{chosen[0]} H{chosen[1]}"
    title = (
        f"{loaded.name}: {found.of.replace('_', '-')} of {found.token}{less} at position "
        f"{found.position}{part}"
    )
    _deliver_shares(found, table, title, file_format, out)


def scores(
    text: options.Text,
    layer: _Layer,
    head: _Head,
    query: Annotated[int, typer.Option(help="Position of the query, from 0.")],
    key: Annotated[int, typer.Option(help="Position of the key, from 0.")],
    versus: Annotated[
        int | None, typer.Option(help="Position of a key whose score is subtracted.")
    ] = None,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Show why a head looks there: a score by what was written to query and key before."""
    given = options.read(text)
    from mha_viz.circuits.decompose.score_attribution import score_attribution

    loaded = options.load(model, device, dtype)
    found = score_attribution(loaded, given, layer, head, query, key, versus)
    named = [f"{found.tokens[i].text} ({i})" for i in (query, key)]
    less = "" if versus is None else f" less to {found.tokens[versus].text} ({versus})"
    title = f"{loaded.name}: score of L{layer} H{head} from {named[0]} to {named[1]}{less}"
    _deliver_shares(found, found.table(), title, file_format, out)


def _deliver_shares(
    found: LogitAttribution | ScoreAttribution,
    table: DataFrame,
    title: str,
    file_format: TableFormat,
    out: Path | None,
) -> None:
    """Deliver a number as a sum of parts; a table to read has the largest shares, first."""
    options.print_notes(found.notes)
    if file_format is TableFormat.table:
        table = table.sort_values("share", key=abs, ascending=False, kind="stable")
        table = table.head(options.SHOWN).drop(columns=["kind", "layer", "head"], errors="ignore")
    numbers = {"value": found.value, "sum": found.sum(), "remainder": found.remainder}
    options.deliver_table(table, file_format, out, title, **numbers)


def tokens(
    text: options.Text,
    layer: _Layer,
    head: _Head,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    position: options.Position = None,
    top: Annotated[int, typer.Option(help="Number of tokens of each kind.")] = 10,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Show which tokens a head promotes and suppresses where the model predicts."""
    given = options.read(text)
    from mha_viz.circuits.decompose.vocabulary import head_tokens

    loaded = options.load(model, device, dtype)
    found = head_tokens(loaded, given, layer, head, position, top_k=top)
    title = f"{loaded.name}: what L{layer} H{head} adds to logits at position {found.position}"
    options.deliver_table(found.table(), file_format, out, title)


def lens(
    text: options.Text,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    token: _Token = None,
    position: options.Position = None,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Show the running guess: what the model would predict if it ended after each layer."""
    given = options.read(text)
    from mha_viz.circuits.decompose.vocabulary import logit_lens

    loaded = options.load(model, device, dtype)
    found = logit_lens(loaded, given, token, position)
    caution = "Middle layers are not trained to be read this way: a guess is no belief."
    options.print_notes([caution])
    title = f"{loaded.name}: probability of {found.token} and first guess after each layer"
    options.deliver_table(found.table(), file_format, out, title)


_ModelToRead = Annotated[
    str, typer.Argument(metavar="MODEL", help="Shipped name, folder or Hub id.")
]


def composition(
    model: _ModelToRead = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    kind: Annotated[
        Literal["Q", "K", "V"], typer.Option("--kind", "-k", help="Input of the later head.")
    ] = "K",
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Show which head reads what an earlier head wrote, by their weights."""
    from mha_viz.circuits.weights.composition import composition

    found = composition(options.load(model, device, dtype), kind)
    options.print_notes(found.notes)
    table = found.table()
    shown = table.head(options.SHOWN) if file_format is TableFormat.table else table
    title = f"{model}: {kind}-composition, {len(shown)} of {len(table):,} pairs, by z-score"
    options.deliver_table(shown, file_format, out, title, through=kind)


def copying(
    model: _ModelToRead = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Show which heads raise the token that they look at, by their weights."""
    from mha_viz.circuits.weights.ov_circuit import copying_scores

    table = copying_scores(options.load(model, device, dtype)).table()
    title = f"{model}: copying by the eigenvalues of OV circuits"
    options.deliver_table(table, file_format, out, title)


def vocabulary(
    layer: _Layer,
    head: _Head,
    model: _ModelToRead = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    circuit: Annotated[Literal["QK", "OV"], typer.Option(help="Circuit to read.")] = "OV",
    words: Annotated[
        str | None, typer.Option(help='Only between these tokens, such as "cat dog".')
    ] = None,
    directions: Annotated[
        bool, typer.Option("--directions", help="Singular directions in place of pairs.")
    ] = False,
    top: Annotated[int, typer.Option(help="Number of pairs.")] = 20,
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Show which tokens a head's weights join: strongest pairs or singular directions, and chance.

    QK: from the token that attends to the token attended to. OV: from the token looked at to the
    token raised.
    """
    from mha_viz.circuits.weights.head_vocabulary import head_vocabulary
    from mha_viz.circuits.weights.token_circuits import token_matrices

    loaded = options.load(model, device, dtype)
    title = f"{loaded.name}: {circuit} of L{layer} H{head}"
    if words is not None:
        matrix = token_matrices(loaded, layer, head, words.split()).get(circuit)
        table = None if matrix is None else matrix.reset_index(names="")
    else:
        on_progress = options.progress("blocks")
        found = head_vocabulary(loaded, layer, head, top_k=top, on_progress=on_progress)
        options.print_notes(found.notes)
        one = found.circuits.get(circuit)
        table = None if one is None else one.directions if directions else one.pairs
    if table is None:
        raise AttentionUnavailableError(
            f"L{layer} H{head} of {model} has no {circuit} over tokens."
        )
    options.deliver_table(table, file_format, out, title)


def flow(
    text: options.Text,
    position: Annotated[
        int, typer.Option(help="Position of the token to trace back, from 0; -1 is the last.")
    ] = -1,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    threshold: Annotated[float, typer.Option(help="Smallest share to follow, 0 to 1.")] = 0.02,
    measure: Annotated[
        Literal["proximity", "norm"], typer.Option(help="Measure of a share.")
    ] = "proximity",
    file_format: options.TableAs = TableFormat.table,
    out: options.Out = None,
) -> None:
    """Show what one token's state after the last layer is made of, down to the input tokens."""
    given = options.read(text)
    from mha_viz.circuits.flow.graph import flow_graph

    loaded = options.load(model, device, dtype)
    found = flow_graph(loaded, given, position, threshold, measure=measure)
    options.print_notes(found.notes)
    edges = found.edges
    if file_format is TableFormat.table:
        columns = ["source", "target", "weight", "share", "flow"]
        edges = edges.nlargest(options.SHOWN, "flow")[columns]
    title = (
        f"{loaded.name}: what flows into {found.tokens[found.position].text} at position "
        f"{found.position}; {found.kept:.1%} of it followed, {found.cut:.1%} cut"
    )
    options.deliver_table(edges, file_format, out, title, kept=found.kept, cut=found.cut)


def query_key_map(
    texts: options.Texts,
    model: options.Model = "tiny-gpt2",
    device: options.Device = "auto",
    dtype: options.Precision = "float32",
    layer: Annotated[int | None, typer.Option("--layer", "-l", help="From 0.")] = None,
    head: Annotated[int | None, typer.Option("--head", "-H", help="From 0.")] = None,
    method: Annotated[
        Literal["pca", "tsne", "umap"],
        typer.Option(help="Projection; tsne and umap need a head and the extra `maps`."),
    ] = "pca",
    kind: options.ShowAs = Format.table,
    out: options.Out = None,
) -> None:
    """Show in which heads a query lies near the keys that it weighs; of one head the map."""
    chosen = None if layer is None or head is None else (layer, head)
    if chosen is None and (layer != head or method != "pca" or kind in PICTURES):
        raise ArgumentError("Choose a head with --layer and --head (both counted from 0).")
    given = options.read_texts(texts)
    from mha_viz.circuits.decompose.query_key_map import query_key_map

    loaded = options.load(model, device, dtype)
    found = query_key_map(loaded, given, method=method, heads=None if chosen is None else [chosen])
    options.print_notes(found.notes)
    part = "" if chosen is None else f" in L{layer} H{head}"
    title = f"{loaded.name}: queries and keys{part}, {count(len(found.texts), 'text')}, by {method}"
    if chosen is None or kind not in PICTURES:
        table = found.table() if chosen is None else found.points_table(*chosen)
        options.deliver_table(table, TableFormat(kind), out, title)
    else:
        options.deliver(figure_file(found.figure(*chosen), kind, title), out)
