"""A signed graph of one prediction: its edges and nodes, folded, and as a JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from mha_viz.circuits.attribution.graph_tables import KINDS, name_nodes, node_table, whole_numbers
from mha_viz.core.arguments import one_of, renamed
from mha_viz.core.json_file import JsonKind, is_finite, is_text, is_whole
from mha_viz.core.output_file import write_file
from mha_viz.core.record.fields import Token, merge
from mha_viz.core.reprs import table_html
from mha_viz.errors import ArgumentError

COLUMNS = ("level", "kind", "layer", "head", "query", "key", "weight", "contribution", "flow")
ENDS = ("low", "high")  # of a graph over pairs: columns behind the others
Columns = Literal["tokens", "words", "text"]
_SHOWN = 10
MAX_BYTES = 64_000_000
MAX_TEXT = 1_000_000
MAX_SIZE = 30_000  # of layers, heads and tokens: the browser takes levels in 16 bits
FILE = JsonKind(
    "mha_viz prediction graph", 1, MAX_BYTES, "a graph", "PredictionGraph.save or the page Circuits"
)
_TEXTS = ("token", "model", "text")
_NUMBERS = ("value", "rest", "share")
_LISTS = ("pins", "notes", "tokens", "names", "edges")
_ENDS = ("level", "kind", "layer", "head", "query", "key", "weight", "contribution", "flow")
_NAMES = {
    *(*_TEXTS, *_NUMBERS, "versus", "position", "pins", "tokens", "n_layers", "n_heads", "step"),
    *("notes", "names", "nodes", "edges"),
}


@renamed(held="path_sum", rest="final_bias")
@dataclass(frozen=True, eq=False)
class PredictionGraph:
    """A logit, or a difference of two, as a graph of signed contributions.

    Args:
        edges: a row for each: source, through (the head, MLP or biases that it passes or begins
            in), target (names of nodes), level (of the target: 1 behind the first layer's
            attention, 2 behind its MLP, and so on), kind ("residual", "source": from a token
            through a head, "MLP", "bias"), layer, head, query, key, weight (the attention weight
            of a source), `contribution` (logits, over all paths of the model through the edge that
            pass the pins) and `flow` (logits, over such paths within this graph). Over the pairs
            of a task they are means, and low and high the contribution's 95 % t-interval.
        value: the number that the model itself gave, logits.
        final_bias: the part of it that is added behind the last layer, by biases; in no edge.
        position: of the token that predicts.
        share: of all edges' absolute contributions that the kept ones hold.
        pins: names of nodes that all paths pass.
        token, versus: the label of the predicted token, and of the one whose logit is taken off.
        tokens: of the text, or what they were folded to.
        n_layers, n_heads: of the model.
        step: 1, or 2 where attention and MLP write into one sum.
        model, text: what was run.
        notes: what to know about this run.
        names: of folded heads, by (layer, head); others are "H3".

    >>> import mha_viz as mv
    >>> mv.prediction_graph(mv.load("tiny-gpt2"), "Once upon a", "time")
    PredictionGraph(logit of 'time' at position 3 of 'tiny-gpt2': ... edges hold ... of 7.99...)
    """

    edges: pd.DataFrame
    value: float
    final_bias: float
    position: int
    share: float
    pins: tuple[str, ...]
    token: str
    versus: str | None
    tokens: tuple[Token, ...]
    n_layers: int
    n_heads: int
    step: int
    model: str
    text: str
    notes: tuple[str, ...] = ()
    names: Mapping[tuple[int, int], str] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """A row for each node: node, kind, layer, head, position, token, and `flow` through it."""
        top = self.position, self.path_sum
        return node_table(self.edges, ("residual", "source"), top, self.tokens)

    @property
    def path_sum(self) -> float:
        """The sum over all paths in the graph, logits: what enters its topmost node."""
        return float(self.edges.flow[self.edges.level == 2 * self.n_layers].sum())

    def grouped(
        self, columns: Columns | str = "tokens", heads: Mapping[tuple[int, int], str] | None = None
    ) -> PredictionGraph:
        """Fold tokens, and heads, into one node each; what edges carry is added up.

        Args:
            columns: "tokens" leaves them, "words" folds those of a word, "text" all of them.
            heads: a name for some heads, by (layer, head). Heads of one layer with one name become
                one node.

        Returns:
            A graph with the same sums at every level.

        >>> import mha_viz as mv
        >>> graph = mv.prediction_graph(mv.load("tiny-gpt2"), "Once upon a", share=1)
        >>> folded = graph.grouped("text", {(0, head): "first layer" for head in range(8)})
        >>> abs(folded.path_sum - graph.path_sum) < 1e-9, folded.edges.through.dropna().iloc[-1]
        (True, 'L0 attention bias @0')
        """
        one_of("columns", columns, get_args(Columns))
        columns_of, tokens = np.arange(len(self.tokens)), self.tokens
        if columns == "words":
            merged, tokens = merge(self.tokens, self.text, None)
            columns_of = merged.numpy()
        elif columns == "text":
            columns_of, tokens = np.zeros_like(columns_of), (Token("all tokens", -1),)
        named = dict(heads or {})
        first: dict[tuple[int, str], int] = {}
        for (layer, head), name in sorted(named.items()):
            first.setdefault((layer, name), head)
        to = {head_of_layer: first[head_of_layer[0], name] for head_of_layer, name in named.items()}
        edges = self.edges[list(COLUMNS)].copy()
        for name in ("query", "key"):
            at = edges[name].fillna(-1).to_numpy(int)
            edges[name] = np.where(at < 0, -1, columns_of[at])
        pairs = zip(edges.layer.tolist(), edges["head"].fillna(-1).tolist(), strict=True)
        edges["head"] = [to.get(pair, pair[1]) for pair in pairs]
        ends = list(COLUMNS[:6])
        sums = edges.groupby(ends, sort=False, as_index=False)
        folded = sums.agg({"contribution": "sum", "flow": "sum", "weight": "first"})
        folded.loc[sums.size()["size"].to_numpy() > 1, "weight"] = np.nan
        names = {**self.names, **{(layer, head): name for (layer, name), head in first.items()}}
        return replace(
            self,
            edges=named_edges(folded, self.n_layers, self.step, names),
            position=int(columns_of[self.position]),
            tokens=tokens,
            names=names,
        )

    def to_bytes(self) -> bytes:
        """Return the graph as JSON, in the form that docs/circuits.md describes.

        >>> import mha_viz as mv
        >>> graph = mv.prediction_graph(mv.load("tiny-gpt2"), "Once upon a", "time")
        >>> PredictionGraph.from_bytes(graph.to_bytes()).token
        'time'
        """
        return _encoded(vars(self) | {"nodes": self.nodes, "rest": self.final_bias})

    def save(self, path: str | Path) -> None:
        """Write `to_bytes` to a file, which `load` opens; WriteError where it cannot be written."""
        write_file(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> PredictionGraph:
        """Return the graph of a file that `save` wrote; RecordError where it is none.

        >>> import tempfile, mha_viz as mv
        >>> graph = mv.prediction_graph(mv.load("tiny-gpt2"), "Once upon a", "time")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     graph.save(f"{folder}/graph.json")
        ...     PredictionGraph.load(f"{folder}/graph.json").edges.equals(graph.edges)
        True
        """
        return cls.from_bytes(FILE.read(Path(path)), path)

    @classmethod
    def from_bytes(cls, raw: bytes, file: str | Path = "The file") -> PredictionGraph:
        """Return the graph of what `to_bytes` gave; RecordError where it is anything else."""
        fields = _decoded(raw, file)
        fields["final_bias"] = fields.pop("rest")  # as files have called it since version 1
        shape = fields["n_layers"], fields["step"], fields["names"]
        return cls(**fields | {"edges": named_edges(fields["edges"], *shape)})

    def __repr__(self) -> str:
        against = "" if self.versus is None else f" less that of {self.versus!r}"
        return (
            f"PredictionGraph(logit of {self.token!r}{against} at position {self.position} of "
            f"{self.model!r}: {len(self.edges)} edges hold {self.path_sum:.4g} of "
            f"{self.value - self.final_bias:.4g})"
        )

    def _repr_html_(self) -> str:
        """Show the strongest edges; `nodes` and `edges` have it all."""
        strongest = self.edges.reindex(self.edges.flow.abs().nlargest(_SHOWN).index)
        note = " ".join(("All is in .nodes and .edges.", *self.notes))
        columns = ["source", "through", "target", "weight", "contribution", "flow"]
        return table_html(repr(self), strongest[columns], note)


def named_edges(
    edges: pd.DataFrame,
    n_layers: int,
    step: int,
    names: Mapping[tuple[int, int], str] | None = None,
) -> pd.DataFrame:
    """Put to edges the names of their nodes: source, through and target."""
    named = name_nodes(edges, step, n_layers, names, both="bias")
    named["source"] = named.source.where(~named.kind.isin(["MLP", "bias"]), named.through)
    ends = [name for name in ENDS if name in named]
    named = named[["source", "through", "target", *COLUMNS, *ends]]
    return whole_numbers(named.reset_index(drop=True))


def _encoded(graph: dict[str, Any]) -> bytes:
    """Encode the fields of a graph, its nodes and its edges, a row each."""
    fields = {name: graph[name] for name in _NAMES}
    fields["names"] = [[*head, name] for head, name in graph["names"].items()]
    fields["tokens"] = [asdict(token) for token in graph["tokens"]]
    order = [*sorted(_NAMES - {"nodes", "edges"}), "nodes", "edges"]
    content = {name: fields[name] for name in order}
    content |= {name: _rows(fields[name]) for name in ("nodes", "edges")}
    raw = FILE.to_bytes(content)
    if len(raw) > MAX_BYTES:
        raise ArgumentError(
            f"The graph has {len(graph['edges']):,} edges, too many for a file: choose a smaller "
            "share, or fold it."
        )
    return raw


def _decoded(raw: bytes, file: str | Path) -> dict[str, Any]:
    """Decode the fields of a graph, and check each; else raise RecordError. Nodes are left out."""
    graph = FILE.from_bytes(_NAMES, raw, file)
    del graph["nodes"]  # they follow from the edges
    if fault := _fault(graph):
        raise FILE.wrong(file, fault)
    graph["tokens"] = tuple(Token(**token) for token in graph["tokens"])
    graph |= {name: tuple(graph[name]) for name in ("pins", "notes")}
    graph |= {name: float(graph[name]) for name in _NUMBERS}
    graph["names"] = {(layer, head): name for layer, head, name in graph["names"]}
    edges = pd.DataFrame(graph["edges"], columns=list(_ENDS))
    for name in ("head", "key"):
        edges[name] = edges[name].fillna(-1).astype(int)
    edges["weight"] = edges.weight.astype(float)
    graph["edges"] = edges.astype({"contribution": float, "flow": float})
    return graph


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """List the rows, with null for what does not apply to them."""
    cells = table.astype(object).where(table.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in cells.to_dict("records")]


def _fault(graph: dict[str, Any]) -> str:
    """Say what is wrong with the fields; "" where nothing is."""
    lists = all(isinstance(graph[name], list) for name in _LISTS)
    n_tokens = len(graph["tokens"]) if lists else 0
    right = {
        "texts are not texts": all(is_text(graph[name], MAX_TEXT) for name in _TEXTS)
        and (graph["versus"] is None or is_text(graph["versus"], MAX_TEXT)),
        "numbers are not finite": all(is_finite(graph[name]) for name in _NUMBERS),
        "sizes are not whole numbers": is_whole(graph["step"], 1, 2)
        and all(is_whole(graph[name], 1, MAX_SIZE) for name in ("n_layers", "n_heads")),
        f"{', '.join(_LISTS)} are not lists": lists,
        "position is not that of a token": is_whole(graph["position"], 0, n_tokens - 1),
    }
    if not all(right.values()):
        return next(fault for fault, ok in right.items() if not ok)
    if not all(is_text(item, MAX_TEXT) for item in (*graph["pins"], *graph["notes"])):
        return "pins and notes are not texts"
    if n_tokens > MAX_SIZE or not all(map(_is_token, graph["tokens"])):
        return "tokens are not those of a text"
    if not all(_is_name(item, graph) for item in graph["names"]):
        return "names are not (layer, head, name)"
    wrong = next((i for i, edge in enumerate(graph["edges"]) if not _is_edge(edge, graph)), None)
    return "" if wrong is None else f"edge {wrong} is not one of this graph"


def _is_name(value: Any, graph: dict[str, Any]) -> bool:
    if not isinstance(value, list) or len(value) != 3:
        return False
    layer, head, name = value
    is_head = is_whole(layer, 0, graph["n_layers"] - 1) and is_whole(head, 0, graph["n_heads"] - 1)
    return is_head and is_text(name, 300)


def _is_token(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {field.name for field in fields(Token)}:
        return False
    numbers = (value["start"], value["end"], value["word"])
    return (
        is_text(value["text"], MAX_TEXT)
        and isinstance(value["is_special"], bool)
        and all(field is None or is_whole(field) for field in numbers)
        and is_whole(value["id"], -1)
        and is_whole(value["segment"])
        and is_whole(value["parts"])
    )


def _is_edge(value: Any, graph: dict[str, Any]) -> bool:
    if not isinstance(value, dict) or not set(_ENDS) <= set(value):
        return False
    kind, n = value["kind"], len(graph["tokens"])
    through = kind == "source"
    return (
        kind in KINDS
        and is_whole(value["layer"], 0, graph["n_layers"] - 1)
        and is_whole(value["level"], 2 * value["layer"] + 1, 2 * value["layer"] + 2)
        and value["level"] % graph["step"] == 0
        and is_whole(value["query"], 0, n - 1)
        and (is_whole(value["key"], 0, n - 1) if through else value["key"] is None)
        and (is_whole(value["head"], 0, graph["n_heads"] - 1) if through else value["head"] is None)
        and (value["weight"] is None or is_finite(value["weight"]))
        and is_finite(value["contribution"])
        and is_finite(value["flow"])
    )
