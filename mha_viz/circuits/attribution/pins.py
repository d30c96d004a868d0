"""Pinned nodes of a graph: which parts of each sum lie on paths through them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch

from mha_viz.circuits.attribution.paths import FrozenPaths
from mha_viz.circuits.attribution.residual_sums import Parts
from mha_viz.errors import ArgumentError

_NAME = re.compile(r"L(\d{1,4}) ?(in|mid|MLP|H(\d{1,4})) ?@(\d{1,5}|\*)", re.ASCII)


class Pin(NamedTuple):
    """A node that paths must pass: a residual position, a head or an MLP.

    >>> Pin.of("L2 H3 @5"), str(Pin.of("L0 mid @*"))
    (Pin(layer=2, what='H', head=3, position=5), 'L0 mid @*')
    """

    layer: int
    what: str  # "in" (before the layer), "mid" (between attention and MLP), "MLP", or "H"
    head: int  # -1 for what is no head
    position: int  # -1 for any

    @classmethod
    def of(cls, name: object) -> "Pin":
        """Read a node's name; ArgumentError where it is none."""
        found = _NAME.fullmatch(name) if isinstance(name, str) else None
        if found is None:
            raise ArgumentError(
                "A pin is the name of a node, such as “L2 H3 @5”, “L1 MLP @4”, “L0 in @2” or “L1 "
                f"mid @*” (at any token); got {name!r:.60}."
            )
        layer, what, head, position = found.groups()
        return cls(
            int(layer),
            "H" if head else what,
            int(head) if head else -1,
            -1 if position == "*" else int(position),
        )

    def __str__(self) -> str:
        """Return the node's name."""
        what = f"H{self.head}" if self.what == "H" else self.what
        return f"L{self.layer} {what} @{'*' if self.position < 0 else self.position}"


def on_pinned_paths(paths: FrozenPaths, pins: Sequence[Pin]) -> list[Parts]:
    """Mark the parts on paths through a pin of every level that has pins; all without pins.

    A path crosses each level at one node, so that two pins of one level are alternatives. Raises
    ArgumentError: a pin that the model or the text does not have.
    """
    places, nodes = _by_sum(paths, pins)
    marked: list[Parts] = []
    open_below = False  # whether a level below has pins that a path from here would miss
    for i, one in enumerate(paths.sums):
        residual, heads, mlp, bias = one.every()
        if i in places:
            residual, heads = residual & places[i], heads & places[i]
        ends = not open_below and i not in places
        if i in nodes:
            residual, bias = residual & False, bias & False
            heads, mlp = heads & nodes[i].heads, mlp & nodes[i].mlp
        marked.append(Parts(residual, heads, mlp & ends, bias & ends))
        open_below = open_below or i in places or i in nodes
    return marked


def _by_sum(
    paths: FrozenPaths, pins: Sequence[Pin]
) -> tuple[dict[int, torch.Tensor], dict[int, Parts]]:
    """Return pinned tokens before each sum, and pinned heads and MLPs of it."""
    places: dict[int, torch.Tensor] = {}
    nodes: dict[int, Parts] = {}
    n, per_layer = paths.n, len(paths.sums) // paths.n_layers
    for pin in pins:
        late = pin.what in ("mid", "MLP") and per_layer == 2
        i = per_layer * pin.layer + late
        known = pin.layer < paths.n_layers and pin.head < paths.n_heads and pin.position < n
        if not known or (pin.what == "mid" and per_layer == 1):
            raise ArgumentError(
                f"The graph has no node {pin}: it has {paths.n_layers} layers of "
                f"{paths.n_heads} heads and {n} tokens"
                + (", and no “mid”." if per_layer == 1 else ".")
            )
        at = slice(None) if pin.position < 0 else pin.position
        if pin.what in ("in", "mid"):
            nothing = torch.zeros(n, dtype=torch.bool, device=paths.start.device)
            places.setdefault(i, nothing)[at] = True
            continue
        if i not in nodes:
            nodes[i] = Parts(*(~every for every in paths.sums[i].every()))
        if pin.what == "H":
            nodes[i].heads[pin.head, at] = True
        else:
            nodes[i].mlp[at] = True
    return places, nodes
