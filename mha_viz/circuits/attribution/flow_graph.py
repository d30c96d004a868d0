"""The graph of what flows into one token's state, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from mha_viz.circuits.attribution.graph_tables import edge_table, name_nodes, node_table, part_rows
from mha_viz.circuits.attribution.part_shares import MEASURES, Measure, part_shares
from mha_viz.circuits.attribution.residual_stream import ResidualStream
from mha_viz.circuits.attribution.residual_sums import Parts, ResidualSum, residual_sums
from mha_viz.core.arguments import one_of, renamed
from mha_viz.core.attention.checks import Given, Number
from mha_viz.core.record.fields import Token
from mha_viz.core.reprs import table_html
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.text.encoding import encode_texts, text_notes

if TYPE_CHECKING:
    import networkx

THRESHOLD = 0.02
MAX_WORK = 7_000_000_000  # numbers that are compared: layer * head * query * key * d_model
MAX_PARTS = 1_000_000
_SHOWN = 10


@renamed(kept="followed")
@dataclass(frozen=True, eq=False)
class FlowGraph:
    """A graph of the flow into one token's state behind the last layer.

    Args:
        nodes: a row for each: node (its name), kind ("residual", "head", "MLP", "bias"), stage of
            a residual ("in", "mid", "out"), layer, head, position, token, and `flow`, the share of
            the chosen state that passes through it.
        edges: a row for each: source, target (names of nodes), kind ("residual", "source": from a
            token into a head, "head", "MLP input", "MLP", "bias"), layer, head, query, key, weight
            (the attention weight of a source), `share` of its target, `contribution` (share of the
            residual position that it leads to, at once or through its head or MLP), and `flow`.
        followed: the share of the chosen state that the graph traces to input tokens and biases.
        cut: the share that edges below the threshold would have carried; followed + cut = 1.
        position: the chosen token, from 0.
        threshold: edges have a contribution of that at least.
        measure: "proximity" or "norm".
        tokens: of the text.
        n_layers, n_heads: of the model.
        model, text: what was run.
        notes: what to know about this run.

    >>> import mha_viz as mv
    >>> mv.flow_graph(mv.load("tiny-gpt2"), "The cat sat", position=-1)
    FlowGraph('sat' at 2 of 'tiny-gpt2', ... edges of 0.02 or more, ...% cut)
    """

    nodes: pd.DataFrame
    edges: pd.DataFrame
    followed: float
    cut: float
    position: int
    threshold: float
    measure: Measure
    tokens: tuple[Token, ...]
    n_layers: int
    n_heads: int
    model: str
    text: str
    notes: tuple[str, ...] = ()

    def inputs(self) -> pd.DataFrame:
        """Make a row for each input token that is reached: position, token, flow; largest first.

        Flows are shares of the chosen state, in [0, 1]: with those of biases they sum to `kept`.

        >>> import mha_viz as mv
        >>> graph = mv.flow_graph(mv.load("tiny-gpt2"), "The cat sat", position=-1)
        >>> 0 < graph.inputs().flow.sum() <= graph.kept <= 1
        True
        """
        inputs = self.nodes[(self.nodes.stage == "in") & (self.nodes.layer == 0)]
        columns = inputs[["position", "token", "flow"]]
        return columns.sort_values("flow", ascending=False, ignore_index=True)

    def networkx(self) -> networkx.DiGraph[str]:
        """Return the graph as networkx has it; the columns of a row become its attributes.

        Raises ArgumentError: networkx is not installed.

        >>> import mha_viz as mv
        >>> graph = mv.flow_graph(mv.load("tiny-gpt2"), "The cat sat", position=-1)
        >>> graph.networkx().number_of_edges() == len(graph.edges)
        True
        """
        try:
            import networkx
        except ImportError as error:
            raise ArgumentError(
                "A graph for networkx needs networkx: pip install networkx. Without it, all is in "
                ".nodes and .edges."
            ) from error
        graph: networkx.DiGraph[str] = networkx.DiGraph()
        graph.add_nodes_from((row.pop("node"), row) for row in _rows(self.nodes))
        graph.add_edges_from((r.pop("source"), r.pop("target"), r) for r in _rows(self.edges))
        return graph

    def __repr__(self) -> str:
        token = self.tokens[self.position].text
        return (
            f"FlowGraph({token!r} at {self.position} of {self.model!r}, {len(self.nodes)} nodes, "
            f"{len(self.edges)} edges of {self.threshold:g} or more, {self.cut:.1%} cut)"
        )

    def _repr_html_(self) -> str:
        """Show where most of the state comes from; `nodes` and `edges` have it all."""
        note = " ".join(("All is in .nodes and .edges.", *self.notes))
        return table_html(repr(self), self.inputs().head(_SHOWN), note)


@torch.no_grad()
def flow_graph(
    model: AttentionModel,
    text: str,
    position: Given[int],
    threshold: Given[Number] = THRESHOLD,
    *,
    measure: Given[Measure | str] = "proximity",
) -> FlowGraph:
    """Follow one token's state behind the last layer down to the input tokens.

    Each layer adds to the residual stream twice. A sum y = sum_j z_j at position i has these parts:
    where attention writes, the stream before it, for each head h and each token k that it sees
    A_hik (x_k W_V) W_O, and one part for all biases (W_V's through W_O, b_O, norms'); where the MLP
    writes, the stream before it and the MLP's output with its biases. A part's share is its
    proximity to the sum, p_j = max(0, ||y||_1 - ||y - z_j||_1), over the sum of all p_j; with
    measure="norm" it is ||z_j||_2 over their sum. From the chosen token downwards, parts with a
    share of `threshold` or more are followed. What flows through a node is the sum over all paths
    to the chosen token of the product of shares.

    x_k is what the layer's norm gave, so the token's own share of the norm's bias is the token's.
    Where the sum itself is normalised before anything reads it (BERT), y is what the norm gave, and
    the parts are what it makes of them with the scale of this run: these sum to y, as parts before
    the norm would not. Where attention and MLP read the same stream (GPT-NeoX), they write into one
    sum. Where no part has a proximity above 0, shares are by norm; `notes` says how often.

    Args:
        model: a model of one stack, or an encoder-decoder, whose encoder is read.
        text: any text.
        position: of the chosen token, from 0; negative numbers count from the end.
        threshold: the smallest share that is followed, in [0, 1]; 0 keeps everything.
        measure: "proximity" or "norm".

    Returns:
        Nodes and edges; a node's incoming shares and what was cut there sum to 1.

    Raises:
        ArgumentError: no such position, threshold or measure; a text too long for it.
        AttentionUnavailableError: a family whose stream cannot be taken apart.
        TextError: as `trace`.

    Source: Ferrando and Voita 2024, equations 5 to 7 and section 2.2, whose edges are our sources;
    measure="norm" after Kobayashi et al. 2021, who sum over heads and leave biases out. Norms
    behind a sum as in Ferrando et al. 2022.

    >>> import mha_viz as mv
    >>> graph = mv.flow_graph(mv.load("tiny-gpt2"), "The cat sat on the mat.", position=-1)
    >>> graph.inputs().token[0]
    '.'
    >>> round(graph.followed + graph.cut, 5)
    1.0
    """
    checked_measure = one_of("measure", measure, MEASURES)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise ArgumentError(f"threshold must be a number in [0, 1], got {threshold!r}.")
    if not 0 <= threshold <= 1:
        raise ArgumentError(f"threshold must lie in [0, 1], got {threshold:g}.")
    encoded = encode_texts(model.stored_reader, text)[0]
    at = _checked_position(position, len(encoded.input_ids))
    n = at + 1 if model.causal else len(encoded.input_ids)
    _check_size(model, n)
    stream = ResidualStream(model, encoded, range(n))
    parts, followed, cut, notes = _walk(stream, at, float(threshold), checked_measure)
    nodes = node_table(parts, ("residual", "source", "MLP"), (at, 1.0), encoded.tokens)
    nodes.insert(2, "stage", nodes.node.str.extract(r"\b(in|mid|out) @", expand=False).fillna(""))
    nodes = nodes.sort_values("layer", ascending=False, na_position="first", kind="stable")
    return FlowGraph(
        nodes=nodes.reset_index(drop=True),
        edges=edge_table(parts),
        followed=followed,
        cut=cut,
        position=at,
        threshold=float(threshold),
        measure=checked_measure,
        tokens=encoded.tokens,
        n_layers=model.n_layers,
        n_heads=model.n_heads,
        model=model.name,
        text=text,
        notes=(*model.notes, *text_notes(model.name, encoded), *notes),
    )


def _walk(
    stream: ResidualStream, at: int, threshold: float, measure: Measure
) -> tuple[pd.DataFrame, float, float, tuple[str, ...]]:
    """Walk down from the chosen token; what is not reached is not computed.

    Return the parts kept of each sum, the topmost first, the shares of the chosen state that were
    followed to input tokens and biases and that were cut, and a note where shares are by norm.
    """
    flow = torch.zeros(len(stream.positions), dtype=torch.float64, device=stream.entering(0).device)
    flow[at] = 1.0
    reached, blocks, n_parts = flow > 0, list[pd.DataFrame](), 0
    biases, cut, by_norm, n_tokens = 0.0, 0.0, 0, 0
    for layer in reversed(range(stream.model.n_layers)):
        sums = residual_sums(stream, layer)
        for addition in reversed(sums):
            tokens = reached.nonzero().flatten().tolist()
            shares, lost = part_shares(stream, addition, tokens, measure)
            by_norm, n_tokens = by_norm + lost, n_tokens + len(tokens)
            marked = _at_least(threshold, stream, addition, shares).times(reached)
            flows = shares.times(flow).where(marked)
            blocks.append(_rows_of(stream, addition, len(sums) == 1, marked, (shares, flows)))
            n_parts += len(blocks[-1])
            if n_parts > MAX_PARTS:
                raise ArgumentError(
                    f"More than {MAX_PARTS:,} edges have a share of {threshold:g} or more: choose "
                    "a higher threshold or a shorter text."
                )
            below = flows.residual + flows.mlp + flows.heads.sum((0, 1))
            cut += max(0.0, float(flow.sum() - below.sum() - flows.bias.sum()))
            biases += float(flows.bias.sum())
            flow, reached = below, marked.residual | marked.mlp | marked.heads.any(0).any(0)
    parts = pd.concat(blocks, ignore_index=True)
    note = (
        f"At {by_norm} of {n_tokens} places no part lies nearer to the sum than zero does; shares "
        "there are by norm."
    )
    named = name_nodes(parts, parts.step.to_numpy(int), stream.model.n_layers)
    return named, float(flow.sum()) + biases, cut, (note,) * (by_norm > 0)


def _at_least(
    threshold: float, stream: ResidualStream, addition: ResidualSum, shares: Parts
) -> Parts:
    """Mark the parts that a sum has, with a share of `threshold` or more."""
    residual, heads, mlp, bias = (share >= threshold for share in shares)
    allowed, n = stream.run.probe.allowed[addition.layer], len(residual)
    if allowed is not None:
        heads &= allowed[0, list(stream.positions), :n]
    return Parts(
        residual, heads, mlp & (addition.mlp is not None), bias & bool(addition.bias.any())
    )


def _rows_of(
    stream: ResidualStream,
    addition: ResidualSum,
    both: bool,
    marked: Parts,
    values: tuple[Parts, Parts],
) -> pd.DataFrame:
    """Make the rows of a sum, which attention and MLP both write into or one of them.

    `values` are shares and flows. The share of a source's whole head is the column head_share.
    """
    shares, flows = values
    none = torch.full_like(shares.residual, torch.nan)
    heads = shares.heads.sum(2, keepdim=True).expand_as(shares.heads)
    columns = {"share": shares, "head_share": Parts(none, heads, none, none), "flow": flows}
    level = 2 * addition.layer + (1 if addition.norms is not None and not both else 2)
    weight = stream.run.attention("pattern", addition.layer)[: len(heads), :, : len(none)]
    return part_rows(marked, columns, weight, layer=addition.layer, level=level, step=1 + both)


# -- checks ----------------------------------------------------------------------------------------


def _checked_position(position: Any, n: int) -> int:
    if isinstance(position, bool) or not isinstance(position, int) or not -n <= position < n:
        raise ArgumentError(
            f"position must be a whole number in {-n}..{n - 1}, as the text has {n} tokens; "
            f"got {position!r}."
        )
    return position % n


def _check_size(model: AttentionModel, n: int) -> None:
    per_pair = model.n_layers * model.n_heads * model.d_model
    if per_pair * n * n > MAX_WORK:
        most = int((MAX_WORK / per_pair) ** 0.5)
        raise ArgumentError(
            f"The graph takes at most {most} tokens in {model.name}, got {n}: shorten the text"
            + (", or choose an earlier token." if model.causal else ".")
        )


def _rows(table: pd.DataFrame) -> Sequence[dict[str, Any]]:
    """List the rows without what does not apply to them."""
    return [
        {str(name): value for name, value in row.items() if not pd.isna(value)}
        for row in table.to_dict("records")
    ]
