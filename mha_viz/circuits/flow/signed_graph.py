"""A signed graph of one prediction: its edges and nodes, folded, and as a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from mha_viz.circuits.flow import graph_file
from mha_viz.circuits.flow.walk import KINDS as KINDS
from mha_viz.circuits.flow.walk import residual_names, whole_numbers
from mha_viz.core.output_file import write_file
from mha_viz.core.record.token import Token, merge
from mha_viz.core.reprs import table_html
from mha_viz.errors import ArgumentError

COLUMNS = ("level", "kind", "layer", "head", "query", "key", "weight", "contribution", "flow")
ENDS = ("low", "high")  # of a graph over pairs: columns behind the others
Columns = Literal["tokens", "words", "text"]
_SHOWN = 10


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
        rest: the part of it that is added behind the last layer, by biases; in no edge.
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
    rest: float
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
        edges = self.edges
        inner = edges[edges.kind != "residual"].assign(
            node=edges.through, position=edges["query"], kind=edges.kind.replace("source", "head")
        )
        below = edges[edges.kind.isin(["residual", "source"])].assign(
            node=edges.source, position=edges.key.fillna(edges["query"]), kind="residual", head=None
        )
        top = pd.DataFrame(
            [dict(node=f"out @{self.position}", kind="residual", position=self.position)]
        ).assign(flow=self.held)
        columns = ["node", "kind", "layer", "head", "position", "flow"]
        whole = pd.concat([one.reindex(columns=columns) for one in (top, inner, below)])
        grouped = whole.groupby("node", as_index=False, sort=False)
        found = grouped.agg({**dict.fromkeys(columns[1:-1], "first"), "flow": "sum"})
        found.insert(5, "token", [self.tokens[int(at)].text for at in found.position])
        return whole_numbers(found)

    @property
    def held(self) -> float:
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
        >>> abs(folded.held - graph.held) < 1e-9, folded.edges.through.dropna().iloc[-1]
        (True, 'L0 attention bias @0')
        """
        if columns not in get_args(Columns):
            raise ArgumentError(
                f"columns must be one of {', '.join(get_args(Columns))}; got {columns!r}."
            )
        places, tokens = np.arange(len(self.tokens)), self.tokens
        if columns == "words":
            found, tokens = merge(self.tokens, self.text, None)
            places = found.numpy()
        elif columns == "text":
            places, tokens = np.zeros_like(places), (Token("all tokens", -1),)
        named = dict(heads or {})
        first: dict[tuple[int, str], int] = {}
        for (layer, head), name in sorted(named.items()):
            first.setdefault((layer, name), head)
        to = {one: first[one[0], name] for one, name in named.items()}
        edges = self.edges[list(COLUMNS)].copy()
        for name in ("query", "key"):
            at = edges[name].fillna(-1).to_numpy(int)
            edges[name] = np.where(at < 0, -1, places[at])
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
            position=int(places[self.position]),
            tokens=tokens,
            names=names,
        )

    def to_bytes(self) -> bytes:
        """Encode the graph as JSON, in the form that docs/circuits.md describes."""
        return graph_file.to_bytes(vars(self) | {"nodes": self.nodes})

    def save(self, path: str | Path) -> None:
        """Write `to_bytes` to a file."""
        write_file(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> PredictionGraph:
        """Open a file that `save` wrote; RecordError where it is none."""
        return cls.from_bytes(graph_file.FILE.read(Path(path)), path)

    @classmethod
    def from_bytes(cls, raw: bytes, file: str | Path = "The file") -> PredictionGraph:
        """Decode what `to_bytes` gave; RecordError where it is anything else."""
        fields = graph_file.from_bytes(raw, file)
        shape = fields["n_layers"], fields["step"], fields["names"]
        return cls(**fields | {"edges": named_edges(fields["edges"], *shape)})

    def __repr__(self) -> str:
        against = "" if self.versus is None else f" less that of {self.versus!r}"
        return (
            f"PredictionGraph(logit of {self.token!r}{against} at position {self.position} of "
            f"{self.model!r}: {len(self.edges)} edges hold {self.held:.4g} of "
            f"{self.value - self.rest:.4g})"
        )

    def _repr_html_(self) -> str:
        """Show the strongest edges; `nodes` and `edges` have it all."""
        strongest = self.edges.reindex(self.edges.flow.abs().nlargest(_SHOWN).index)
        rest = " ".join(("All is in .nodes and .edges.", *self.notes))
        columns = ["source", "through", "target", "weight", "contribution", "flow"]
        return table_html(repr(self), strongest[columns], rest)


def named_edges(
    edges: pd.DataFrame,
    n_layers: int,
    step: int,
    names: Mapping[tuple[int, int], str] | None = None,
) -> pd.DataFrame:
    """Put to edges the names of their nodes: source, through and target."""
    known = names or {}
    kind, layer, head = (edges[name].tolist() for name in ("kind", "layer", "head"))
    query = edges["query"].to_numpy(int)
    level = edges.level.to_numpy(int)
    below = np.where(edges.kind == "source", edges.key.fillna(-1).to_numpy(int), query)
    source = _places(level - step, below, n_layers)
    through: list[str | None] = []
    for i, at in enumerate(query.tolist()):
        name = known.get((layer[i], head[i]), f"H{head[i]}")
        bias = "bias" if step == 2 else "MLP bias" if level[i] % 2 == 0 else "attention bias"
        inner = {"residual": None, "source": name, "MLP": "MLP", "bias": bias}[kind[i]]
        through.append(None if inner is None else f"L{layer[i]} {inner} @{at}")
        if kind[i] in ("MLP", "bias"):
            source[i] = through[i] or ""
    found = edges.assign(
        source=source,
        through=pd.Series(through, edges.index, object),
        target=_places(level, query, n_layers),
    )
    ends = [name for name in ENDS if name in found]
    found = found[["source", "through", "target", *COLUMNS, *ends]]
    return whole_numbers(found.reset_index(drop=True))


def _places(level: Any, position: Any, n_layers: int) -> list[str]:
    return residual_names(level // 2, level % 2 == 1, position, n_layers)
