"""Graphs of what flows into a token, and into a prediction, made up."""

import numpy as np
import pandas as pd

from mha_viz.circuits.attribution.flow_graph import FlowGraph
from mha_viz.circuits.attribution.signed_graph import COLUMNS, PredictionGraph, named_edges
from mha_viz.core.record.fields import Token

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script>",
    "السلام",
    "👍🏽",
    "\u202ereversed",
    "a" * 99,
]


def made_up(layers: int = 2, n: int = 5, heads: int = 3, hostile: bool = False) -> FlowGraph:
    """A graph whose every token takes a tenth of each sum from each head's first and own token."""
    dice = np.random.default_rng(7)
    rows = []
    for layer in reversed(range(layers)):
        above = "out" if layer + 1 == layers else f"L{layer + 1} in"
        for token in range(n):
            late, mid = f"{above} @{token}", f"L{layer} mid @{token}"
            rows += [
                (mid, late, "residual", layer, None, token, None, np.nan, 0.75),
                (f"L{layer} MLP @{token}", late, "MLP", layer, None, token, None, np.nan, 0.25),
                (f"L{layer} in @{token}", mid, "residual", layer, None, token, None, np.nan, 0.5),
            ]
            shares = dice.dirichlet(np.full(2 * heads, 0.7)) * 0.5
            for i, share in enumerate(shares):
                head, key = divmod(i, 2)
                source, own = f"L{layer} in @{token if key else 0}", f"L{layer} H{head} @{token}"
                place = token if key else 0
                rows.append((source, own, "source", layer, head, token, place, 0.4, share))
    names = ["source", "target", "kind", "layer", "head", "query", "key", "weight", "contribution"]
    edges = pd.DataFrame(rows, columns=names)
    for name in ("layer", "head", "query", "key"):
        edges[name] = edges[name].astype("Int64")
    edges = edges.assign(share=edges.contribution, flow=edges.contribution)
    words = HOSTILE if hostile else "The cat sat on the mat because it was warm".split()
    tokens = tuple(Token(words[i % len(words)], i, is_special=i == 0) for i in range(n))
    about = ("proximity", tokens, layers, heads, "made-up", "a text")
    return FlowGraph(pd.DataFrame(), edges, 1.0, 0.0, n - 1, 0.0, *about)


def made_up_prediction() -> PredictionGraph:
    """Two layers, five tokens, three heads: 2 logits for it from token 1, 0.5 against it."""
    rows = [
        (4, "residual", 1, -1, 4, -1, np.nan, 2.5, 2.0),
        (4, "MLP", 1, -1, 4, -1, np.nan, -0.5, -0.5),
        (3, "source", 1, 2, 4, 1, 0.9, 2.0, 2.0),
        (2, "residual", 0, -1, 1, -1, np.nan, 2.0, 2.0),
        (1, "source", 0, 0, 1, 0, 0.5, -1.0, -1.0),
        (1, "source", 0, 1, 1, 0, 0.5, 0.25, 0.25),
        (1, "residual", 0, -1, 1, -1, np.nan, 2.5, 2.5),
        (1, "bias", 0, -1, 1, -1, np.nan, 0.25, 0.25),
    ]
    edges = named_edges(pd.DataFrame(rows, columns=list(COLUMNS)), 2, 1)
    tokens = tuple(Token(word, i) for i, word in enumerate("The cat sat on the".split()))
    about = (1.75, 0.25, 4, 0.9, (), "mat", "dog", tokens, 2, 3, 1, "made-up", "a text")
    return PredictionGraph(edges, *about)
