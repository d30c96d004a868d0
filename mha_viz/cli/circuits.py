"""The commands of `mha-viz circuits` that read one text or the weights, and do not intervene."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mha_viz.cli import options
from mha_viz.cli.format import PICTURES, Format, TableFormat, figure_file
from mha_viz.cli.notes import print_notes, progress
from mha_viz.cli.texts import read_texts
from mha_viz.core.reprs import count
from mha_viz.errors import ArgumentError, AttentionUnavailableError

if TYPE_CHECKING:
    from pandas import DataFrame

    from mha_viz.circuits.attribution.logit_attribution import LogitAttribution
    from mha_viz.circuits.attribution.score_attribution import ScoreAttribution


def logits(
    text: options.Text,
    checkpoint: options.Checkpoint,
    output: options.TableOutput,
    token: str | None = None,
    versus: str | None = None,
    position: int | None = None,
    of: Literal["logit", "log_probability"] = "logit",
    sources: str | None = None,
    pair: options.Pair = None,
) -> None:
    """Show what each head, MLP and bias adds to the logit of a token."""
    refusal = "--sources takes one head, as 3.7"
    chosen = None if sources is None else options.parse_head(sources, refusal)
    from mha_viz.circuits.attribution.logit_attribution import logit_attribution

    loaded = checkpoint.load()
    attribution = logit_attribution(loaded, text, token, versus, position, of=of, text_pair=pair)
    table = attribution.table() if chosen is None else attribution.sources_table(*chosen)
    less = "" if attribution.versus is None else f" less that of {attribution.versus}"
    part = "" if chosen is None else f", by the source of L{chosen[0]} H{chosen[1]}"
    title = (
        f"{loaded.name}: {attribution.of.replace('_', '-')} of {attribution.token}{less} "
        f"at position {attribution.position}{part}"
    )
    _deliver_shares(attribution, table, title, output)


def scores(
    text: options.Text,
    layer: int,
    head: int,
    query: int,
    key: int,
    checkpoint: options.Checkpoint,
    output: options.TableOutput,
    versus: int | None = None,
) -> None:
    """Show why a head looks there: a score by what was written to query and key before."""
    from mha_viz.circuits.attribution.score_attribution import score_attribution

    loaded = checkpoint.load()
    attribution = score_attribution(loaded, text, layer, head, query, key, versus)
    named = [f"{attribution.tokens[i].text} ({i})" for i in (query, key)]
    less = "" if versus is None else f" less to {attribution.tokens[versus].text} ({versus})"
    title = f"{loaded.name}: score of L{layer} H{head} from {named[0]} to {named[1]}{less}"
    _deliver_shares(attribution, attribution.table(), title, output)


def _deliver_shares(
    attribution: LogitAttribution | ScoreAttribution,
    table: DataFrame,
    title: str,
    output: options.TableOutput,
) -> None:
    """Deliver a number as a sum of parts; a table to read has the largest shares, first."""
    print_notes(attribution.notes)
    if output.to_read:
        table = table.sort_values("share", key=abs, ascending=False, kind="stable")
        table = table.head(options.SHOWN).drop(columns=["kind", "layer", "head"], errors="ignore")
    numbers = {
        "value": attribution.value,
        "sum": attribution.sum(),
        "remainder": attribution.remainder,
    }
    output.deliver(table, title, **numbers)


def tokens(
    text: options.Text,
    layer: int,
    head: int,
    checkpoint: options.Checkpoint,
    output: options.TableOutput,
    position: int | None = None,
    top: int = 10,
) -> None:
    """Show which tokens a head promotes and suppresses where the model predicts."""
    from mha_viz.circuits.attribution.vocabulary import head_tokens

    loaded = checkpoint.load()
    token_effects = head_tokens(loaded, text, layer, head, position, top_k=top)
    title = (
        f"{loaded.name}: what L{layer} H{head} adds to logits at position {token_effects.position}"
    )
    output.deliver(token_effects.table(), title)


def lens(
    text: options.Text,
    checkpoint: options.Checkpoint,
    output: options.TableOutput,
    token: str | None = None,
    position: int | None = None,
) -> None:
    """Show the running guess: what the model would predict if it ended after each layer."""
    from mha_viz.circuits.attribution.vocabulary import logit_lens

    loaded = checkpoint.load()
    layer_guesses = logit_lens(loaded, text, token, position)
    caution = "Middle layers are not trained to be read this way: a guess is no belief."
    print_notes([caution])
    title = f"{loaded.name}: probability of {layer_guesses.token} and first guess after each layer"
    output.deliver(layer_guesses.table(), title)


def composition(
    checkpoint: options.NamedCheckpoint,
    output: options.TableOutput,
    kind: Literal["Q", "K", "V"] = "K",
) -> None:
    """Show which head reads what an earlier head wrote, by their weights."""
    from mha_viz.circuits.composition.head_pairs import composition

    matrix = composition(checkpoint.load(), kind)
    print_notes(matrix.notes)
    table = matrix.table()
    shown = table.head(options.SHOWN) if output.to_read else table
    counts = f"{len(shown)} of {len(table):,} pairs, by z-score"
    title = f"{checkpoint.model}: {kind}-composition, {counts}"
    output.deliver(shown, title, through=kind)


def copying(checkpoint: options.NamedCheckpoint, output: options.TableOutput) -> None:
    """Show which heads raise the token that they look at, by their weights."""
    from mha_viz.circuits.composition.ov_circuit import copying_scores

    table = copying_scores(checkpoint.load()).table()
    title = f"{checkpoint.model}: copying by the eigenvalues of OV circuits"
    output.deliver(table, title)


def vocabulary(
    layer: int,
    head: int,
    checkpoint: options.NamedCheckpoint,
    output: options.TableOutput,
    circuit: Literal["QK", "OV"] = "OV",
    words: str | None = None,
    directions: bool = False,
    top: int = 20,
) -> None:
    """Show which tokens a head's weights join: strongest pairs or singular directions, and chance.

    QK: from the token that attends to the token attended to. OV: from the token looked at to the
    token raised.
    """
    from mha_viz.circuits.composition.head_vocabulary import head_vocabulary
    from mha_viz.circuits.composition.token_circuits import token_matrices

    loaded = checkpoint.load()
    title = f"{loaded.name}: {circuit} of L{layer} H{head}"
    if words is not None:
        matrix = token_matrices(loaded, layer, head, words.split()).get(circuit)
        table = None if matrix is None else matrix.reset_index(names="")
    else:
        on_progress = progress("blocks")
        vocabulary = head_vocabulary(loaded, layer, head, top_k=top, on_progress=on_progress)
        print_notes(vocabulary.notes)
        circuit_words = vocabulary.circuits.get(circuit)
        table = None
        if circuit_words is not None:
            table = circuit_words.directions if directions else circuit_words.pairs
    if table is None:
        raise AttentionUnavailableError(
            f"L{layer} H{head} of {checkpoint.model} has no {circuit} over tokens."
        )
    output.deliver(table, title)


def flow(
    text: options.Text,
    checkpoint: options.Checkpoint,
    output: options.TableOutput,
    position: int = -1,
    threshold: float = 0.02,
    measure: Literal["proximity", "norm"] = "proximity",
) -> None:
    """Show what one token's state after the last layer is made of, down to the input tokens."""
    from mha_viz.circuits.attribution.flow_graph import flow_graph

    loaded = checkpoint.load()
    graph = flow_graph(loaded, text, position, threshold, measure=measure)
    print_notes(graph.notes)
    edges = graph.edges
    if output.to_read:
        columns = ["source", "target", "weight", "share", "flow"]
        edges = edges.nlargest(options.SHOWN, "flow")[columns]
    title = (
        f"{loaded.name}: what flows into {graph.tokens[graph.position].text} at position "
        f"{graph.position}; {graph.followed:.1%} of it followed, {graph.cut:.1%} cut"
    )
    output.deliver(edges, title, kept=graph.followed, cut=graph.cut)


def query_key_map(
    texts: str,
    checkpoint: options.Checkpoint,
    layer: int | None = None,
    head: int | None = None,
    method: Literal["pca", "tsne", "umap"] = "pca",
    kind: options.ShowAs = Format.table,
    out: options.Out = None,
) -> None:
    """Show in which heads a query lies near the keys that it weighs; of one head the map."""
    chosen = None if layer is None or head is None else (layer, head)
    if chosen is None and (layer != head or method != "pca" or kind in PICTURES):
        raise ArgumentError("Choose a head with --layer and --head (both counted from 0).")
    text_list = read_texts(texts)
    from mha_viz.circuits.attribution.query_key_map import query_key_map

    loaded = checkpoint.load()
    mapped = query_key_map(
        loaded, text_list, method=method, heads=None if chosen is None else [chosen]
    )
    print_notes(mapped.notes)
    part = "" if chosen is None else f" in L{layer} H{head}"
    title = (
        f"{loaded.name}: queries and keys{part}, {count(len(mapped.texts), 'text')}, by {method}"
    )
    if chosen is None or kind not in PICTURES:
        table = mapped.table() if chosen is None else mapped.points_table(*chosen)
        options.TableOutput(file_format=TableFormat(kind), out=out).deliver(table, title)
    else:
        options.deliver(figure_file(mapped.figure(*chosen), kind, title), out)
