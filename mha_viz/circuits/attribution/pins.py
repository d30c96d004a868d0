"""Pinned nodes of a graph: which parts of each sum lie on paths through them."""

import re
from collections import defaultdict
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
    (Pin(layer=2, kind='H', head=3, position=5), 'L0 mid @*')
    """

    layer: int
    kind: str  # "in" (before the layer), "mid" (between attention and MLP), "MLP", or "H"
    head: int  # -1 for what is no head
    position: int  # -1 for any

    @classmethod
    def of(cls, name: object) -> "Pin":
        """Read a node's name; ArgumentError where it is none."""
        match = _NAME.fullmatch(name) if isinstance(name, str) else None
        if match is None:
            raise ArgumentError(
                "A pin is the name of a node, such as “L2 H3 @5”, “L1 MLP @4”, “L0 in @2” or “L1 "
                f"mid @*” (at any token); got {name!r:.60}."
            )
        layer, kind, head, position = match.groups()
        return cls(
            int(layer),
            "H" if head else kind,
            int(head) if head else -1,
            -1 if position == "*" else int(position),
        )

    def __str__(self) -> str:
        """Return the node's name."""
        label = f"H{self.head}" if self.kind == "H" else self.kind
        return f"L{self.layer} {label} @{'*' if self.position < 0 else self.position}"


def on_pinned_paths(paths: FrozenPaths, pins: Sequence[Pin]) -> list[Parts]:
    """Mark the parts on paths through a pin of every level that has pins; all without pins.

    A path crosses each level at one node, so that two pins of one level are alternatives. Raises
    ArgumentError: a pin that the model or the text does not have.
    """
    by_sum = defaultdict[int, list[Pin]](list)
    for pin in pins:
        by_sum[_sum_of(paths, pin)].append(pin)
    marked: list[Parts] = []
    open_below = False  # whether a level below has pins that a path from here would miss
    for i, path_sum in enumerate(paths.sums):
        residual, heads, mlp, bias = path_sum.every()
        before = [pin for pin in by_sum[i] if pin.kind in ("in", "mid")]
        if before:
            at = _at(torch.zeros_like(residual), before)
            residual, heads = residual & at, heads & at
        nodes = [pin for pin in by_sum[i] if pin not in before]
        if nodes:
            mlp = _at(torch.zeros_like(mlp), [pin for pin in nodes if pin.kind == "MLP"])
            through = torch.zeros_like(heads)
            for pin in nodes:
                if pin.kind == "H":
                    _at(through[pin.head], [pin])
            residual, heads, bias = residual & False, heads & through, bias & False
        ends = not open_below and not before
        marked.append(Parts(residual, heads, mlp & ends, bias & ends))
        open_below = open_below or bool(by_sum[i])
    return marked


def _at(mask: torch.Tensor, pins: Sequence[Pin]) -> torch.Tensor:
    """Mark the positions of some pins."""
    for pin in pins:
        mask[slice(None) if pin.position < 0 else pin.position] = True
    return mask


def _sum_of(paths: FrozenPaths, pin: Pin) -> int:
    """Return the number of the sum that a pin is a part of, or whose stream before it."""
    per_layer = len(paths.sums) // paths.n_layers
    is_known = pin.layer < paths.n_layers and pin.head < paths.n_heads and pin.position < paths.n
    if not is_known or (pin.kind == "mid" and per_layer == 1):
        raise ArgumentError(
            f"The graph has no node {pin}: it has {paths.n_layers} layers of {paths.n_heads} heads "
            f"and {paths.n} tokens" + (", and no “mid”." if per_layer == 1 else ".")
        )
    return per_layer * pin.layer + (pin.kind in ("mid", "MLP") and per_layer == 2)
