"""What the parts of a residual stream are called, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mha_viz.circuits.layout import Layout, Site


@dataclass(frozen=True)
class Component:
    """One part of the residual stream.

    Args:
        name: "embedding", "position", "L0 H3", "L0 attention bias", "L0 MLP", "L0 norm bias", ...
        kind: "head", "attention bias", "MLP", "norm bias", "embedding" (all that the first stream
            is made of) or "projection bias".
        layer: which layer writes it, from 0; None outside of layers.
        head: which head, from 0; None for what is none.
    """

    name: str
    kind: str
    layer: int | None = None
    head: int | None = None


def components_of(layout: Layout, n_heads: int) -> tuple[Component, ...]:
    """All that a stream of this layout is made of, in order.

    Args:
        layout: of the network.
        n_heads: of each layer.
    """

    def biases(sites: Sequence[Site], start: str) -> list[Component]:
        names = [
            name
            for site in sites
            for name in site.writes
            if name.startswith(start) and getattr(site.module, "bias", None) is not None
        ]
        kind = "norm bias" if sites is layout.norms else "projection bias"
        layer = int(start[1:]) if start[0] == "L" else None
        return [Component(name, kind, layer) for name in dict.fromkeys(names)]

    found = [Component(site.writes[0], "embedding") for site in layout.embeddings]
    found += biases(layout.norms, "embedding ") + biases(layout.projections, "embedding ")
    for layer in range(len(layout.layers)):
        found += [Component(f"L{layer} H{head}", "head", layer, head) for head in range(n_heads)]
        found.append(Component(f"L{layer} attention bias", "attention bias", layer))
        found.append(Component(f"L{layer} MLP", "MLP", layer))
        found += biases(layout.norms, f"L{layer} ")
    return tuple(found + biases(layout.norms, "final "))
