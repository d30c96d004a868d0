"""Edges of a transformer: what writes into the residual stream, and what reads it."""

import random
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.circuits.effects.patched_run import INPUTS

Edges = Bool[Tensor, "sender receiver"]
EdgeNumbers = Float[Tensor, "sender receiver"]


@dataclass(frozen=True)
class EdgeGraph:
    """All senders, all receivers, and which of them an edge joins.

    Senders are the embedding (all that enters the first layer), heads and MLPs; receivers the
    query, key and value of every head, MLPs and the logits. Where query heads share a key head,
    each has a key and a value of its own.
    """

    n_layers: int
    n_heads: int
    parallel: bool = False  # whether a layer's MLP reads what its attention reads (GPT-NeoX)

    @cached_property
    def senders(self) -> tuple[str, ...]:
        """Their names, in order: "embedding", "L0 H0", ..., "MLP 0", "L1 H0", ..."""
        names = ["embedding"]
        for layer in range(self.n_layers):
            names += [f"L{layer} H{head}" for head in range(self.n_heads)] + [f"MLP {layer}"]
        return tuple(names)

    @cached_property
    def receivers(self) -> tuple[str, ...]:
        """Their names, in order: "L0 H0 query", ..., "L0 H0 key", ..., "MLP 0", ..., "logits"."""
        names = []
        for layer in range(self.n_layers):
            heads = range(self.n_heads)
            names += [f"L{layer} H{head} {name}" for name in INPUTS for head in heads]
            names.append(f"MLP {layer}")
        return (*names, "logits")

    @cached_property
    def node_of(self) -> Int[Tensor, " receiver"]:
        """The sender that each receiver feeds; the number of senders for the logits."""
        names = [name.removesuffix(f" {name.split()[-1]}") for name in self.receivers]
        numbers = {name: i for i, name in enumerate(self.senders)}
        both = zip(self.receivers, names, strict=True)
        return torch.tensor([numbers.get(a, numbers.get(b, len(numbers))) for a, b in both])

    @cached_property
    def exists(self) -> Edges:
        """The edges: from every sender to what reads the stream after it has written."""
        exists = torch.zeros(len(self.senders), len(self.receivers), dtype=torch.bool)
        for layer in range(self.n_layers):
            at = self.of_attention(layer)
            exists[: self.n_before(layer), at] = True
            exists[: self.n_before(layer, mlp=True), at.stop] = True
        exists[:, -1] = True
        return exists

    def table(self, edges: Edges, **columns: Tensor | np.ndarray) -> pd.DataFrame:
        """Make a row for each of some edges: sender, receiver, and its cell of each column."""
        sender, receiver = edges.numpy().nonzero()
        ends = {
            "sender": np.array(self.senders, object)[sender],
            "receiver": np.array(self.receivers, object)[receiver],
        }
        cells = {name: np.asarray(values)[sender, receiver] for name, values in columns.items()}
        return pd.DataFrame(ends | cells)

    def of_attention(self, layer: int) -> slice:
        """Return the places of a layer's queries, keys and values; its MLP comes behind them."""
        first = layer * (3 * self.n_heads + 1)
        return slice(first, first + 3 * self.n_heads)

    def n_before(self, layer: int, mlp: bool = False) -> int:
        """Count the senders that a layer's attention, or its MLP, reads."""
        n = 1 + layer * (self.n_heads + 1)
        return n + self.n_heads if mlp and not self.parallel else n

    def connected(self, edges: Edges) -> Edges:
        """Drop each edge that is on no path of kept edges from the embedding to the logits."""
        n = len(self.senders)
        between = torch.zeros(n + 1, n + 1)
        between[:n].index_add_(1, self.node_of, edges.float())
        reached, reaching = _reachable(between, 0), _reachable(between.T, n)
        return edges & reached[:n, None] & reaching[self.node_of]

    def strongest(self, scores: EdgeNumbers, size: int) -> Edges:
        """Keep as many of the largest |scores| as leave at most `size` edges connected.

        Sets of different sizes are nested.
        """
        order = (
            scores.abs().where(self.exists, -1.0).flatten().argsort(descending=True, stable=True)
        )
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order))
        rank = rank.view_as(self.exists)
        low, high = 0, int(self.exists.sum())
        while low < high:  # the more are kept, the more are connected
            middle = (low + high + 1) // 2
            fits = int(self.connected(rank < middle).sum()) <= size
            low, high = (middle, high) if fits else (low, middle - 1)
        return self.connected(rank < low)

    def draw(self, size: int, generator: random.Random) -> Edges:
        """Draw a connected set of edges: random paths, filled up with edges between their nodes.

        It has `size` edges; fewer where all those between its nodes are taken.
        """
        drawn = torch.zeros_like(self.exists)
        while True:
            more = drawn.clone()
            more[tuple(torch.tensor(self._random_path(generator)).T)] = True
            if int(more.sum()) > size:
                break
            drawn = more
            if int(drawn.sum()) == size:
                return drawn
        nodes = torch.zeros(len(self.senders) + 1, dtype=torch.bool)
        nodes[:-1] = drawn.any(1)
        nodes[[0, -1]] = True
        loose = self.exists & ~drawn & nodes[:-1, None] & nodes[self.node_of]
        loose_edges = loose.flatten().nonzero()[:, 0].tolist()
        n_missing = min(size - int(drawn.sum()), len(loose_edges))
        drawn.view(-1)[generator.sample(loose_edges, n_missing)] = True
        return drawn

    def _random_path(self, generator: random.Random) -> list[tuple[int, int]]:
        """Walk from the logits back to the embedding."""
        receiver, path = len(self.receivers) - 1, []
        while True:
            sender = generator.randrange(int(self.exists[:, receiver].sum()))
            path.append((sender, receiver))
            if sender == 0:
                return path
            receiver = generator.choice((self.node_of == sender).nonzero()[:, 0].tolist())


def _reachable(between: Float[Tensor, "node node"], start: int) -> Bool[Tensor, " node"]:
    """Find all nodes on paths from one, itself included."""
    reached = torch.arange(len(between)) == start
    while True:
        more = reached | (reached.float() @ between > 0)
        if torch.equal(more, reached):
            return reached
        reached = more
