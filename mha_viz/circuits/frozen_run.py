"""One run of a model, kept at some positions, and the same run again as a linear map."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from mha_viz.circuits.frozen import FrozenNorm, Heard, NormRows, ProjectionRows, Written, frozen
from mha_viz.circuits.layout import Layout, layout_of, stack_of, unknown_layout
from mha_viz.engine.attention_function import Probe
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.run import padded, within_memory
from mha_viz.engine.stand_ins import Listening, with_stand_ins
from mha_viz.text.tokens import Encoded


@dataclass
class AtPositions(Probe):
    """Keeps of every layer what belongs to some queries; values and keys of all tokens.

    Args:
        positions: of the queries.
        position_bias: what each layer adds to its scores by distance (T5), for these queries.
    """

    positions: Sequence[int] = ()
    position_bias: list[Tensor | None] = field(default_factory=list)

    def look_at(self, bias: Tensor | None, *made_of: Tensor | None) -> None:
        """As `Probe`."""
        super().look_at(bias, *made_of)
        by_distance = made_of[1]
        at = None if by_distance is None else by_distance[..., list(self.positions), :]
        self.position_bias.append(at)

    def take(self, module: nn.Module, scale: float, **tensors: Tensor | None) -> None:
        """As `Probe`."""
        for name in ("pattern", "z", "query"):
            whole = tensors[name]
            assert whole is not None  # all is kept
            tensors[name] = whole[..., list(self.positions), :]
        super().take(module, scale, **tensors)


class FrozenRun:
    """One run of a model, of which norms keep the scale and what writes keeps its output.

    Attributes:
        model, encoded: what was run.
        positions: the tokens that are kept.
        layout: of the network.
        left: every layer's pattern, z and query at these positions, and all keys and values.
        heard: of every module of the layout, and what was asked for beyond, the input and output
            of each call.
        entering: what enters each layer, and at the end what leaves the last one.
        last_gives_more: the last layer returns a tuple, of which the stream is the first.
        output: what the network gave for the whole text.
    """

    def __init__(
        self,
        model: AttentionModel,
        encoded: Encoded,
        positions: Sequence[int],
        beyond: Sequence[nn.Module] = (),
    ) -> None:
        """Run the model once.

        Args:
            model: any that our attention runs in.
            encoded: a text; of an encoder-decoder, the encoder's.
            positions: of its tokens.
            beyond: modules behind the stack to listen to, too; the whole network is then run.

        Raises:
            AttentionUnavailableError: a family that cannot be taken apart.
        """
        n = len(encoded.input_ids)
        self.model, self.encoded, self.positions = model, encoded, tuple(positions)
        self.layout: Layout = layout_of(model)
        modules = [site.module for site in self.layout.sites] + list(beyond)
        self._ears = {module: Heard(module, self.positions, n) for module in modules}
        listening = standing_in(model.network, self._ears)
        layers = {
            path: Heard(listening.get_submodule(path), self.positions, n)
            for path in self.layout.layers
        }
        self.left = AtPositions(("pattern", "z", "query", "key", "value"), positions=self.positions)
        with torch.no_grad(), within_memory(model.network):
            network = with_stand_ins(listening, layers)
            inputs = padded(model.network, [encoded], 0)
            self.output = _call(network if beyond else stack_of(network), inputs, self.left)
        self.heard = {module: ear.calls for module, ear in self._ears.items()}
        self.entering = self.layout.entering({path: one.calls for path, one in layers.items()})
        self.last_gives_more: bool = layers[self.layout.layers[-1]].gives_more

    def rows(
        self, values: Mapping[str, Tensor], row: Mapping[str, int], probe: Probe | None = None
    ) -> tuple[list[Tensor], Tensor]:
        """Run the stack with a row for each component: what enters each layer, and what it gives.

        Args:
            values: what is written, by name.
            row: of every name that is not left out; several may share one.
            probe: what to keep.
        """
        n_rows = 1 + max(row.values())
        made = standing_in(self.model.network, self._stand_ins(values, row, n_rows))
        heard: dict[str, list[Any]] = {path: [] for path in self.layout.layers}
        layers = {path: Listening(made.get_submodule(path), calls) for path, calls in heard.items()}
        ids = torch.tensor([[self.encoded.input_ids[i] for i in self.positions]])
        inputs = {"input_ids": ids.repeat(n_rows, 1).to(self.model.device)}
        stack = stack_of(with_stand_ins(made, layers))
        if "position_ids" in inspect.signature(stack.forward).parameters:
            places = torch.tensor([self.positions]).repeat(n_rows, 1)
            inputs["position_ids"] = places.to(self.model.device)
        with within_memory(self.model.network):
            output = _call(stack, inputs, probe)
        return self.layout.entering(heard), output.last_hidden_state

    def _stand_ins(
        self, values: Mapping[str, Tensor], row: Mapping[str, int], n_rows: int
    ) -> dict[nn.Module, nn.Module]:
        made: dict[nn.Module, nn.Module] = {}
        heads = range(self.model.n_heads)
        for site in (*self.layout.embeddings, *self.layout.mlps):
            calls = [{name: values[name]} for name in site.writes if name in values]
            more = self._ears[site.module].gives_more
            made[site.module] = Written(site.module, calls, row, n_rows, more)
        for site in self.layout.outputs:
            of = [name.split(" ")[0] for name in site.writes]
            calls = [
                {name: values[name] for name in self._of_attention(layer, heads) if name in values}
                for layer in of
            ]
            made[site.module] = Written(site.module, calls, row, n_rows)
        for site in self.layout.norms:
            made[site.module] = NormRows(site.module, self._norms[site.module], site.writes, row)
        for site in self.layout.projections:
            made[site.module] = ProjectionRows(site.module, site.writes[0], row, n_rows)
        return made

    @staticmethod
    def _of_attention(layer: str, heads: range) -> list[str]:
        return [f"{layer} attention bias", *(f"{layer} H{head}" for head in heads)]

    @cached_property
    def _norms(self) -> dict[nn.Module, list[FrozenNorm]]:
        """What each norm was, call by call."""
        found: dict[nn.Module, list[FrozenNorm]] = {}
        for site in self.layout.norms:
            found[site.module] = []
            for x, y in self.heard[site.module]:
                norm = None if x is None or y is None else frozen(site.module, x, y)
                if norm is None:
                    raise unknown_layout(self.model, f"{site.path} is no LayerNorm and no RMSNorm")
                found[site.module].append(norm)
        return found


def standing_in(network: Any, stand_ins: Mapping[nn.Module, nn.Module]) -> Any:
    """The network with some modules replaced wherever they stand.

    Args:
        network: any; it is not touched.
        stand_ins: module -> what to call instead.
    """
    return with_stand_ins(
        network,
        {
            path: stand_ins[module]
            for path, module in network.named_modules(remove_duplicate=False)
            if module in stand_ins
        },
    )


def _call(network: Any, inputs: dict[str, Any], probe: Probe | None) -> Any:
    if "use_cache" in inspect.signature(network.forward).parameters:
        inputs = inputs | {"use_cache": False}
    if network.config.is_encoder_decoder or probe is None:
        inputs.pop("token_type_ids", None)
    return network(**inputs, **({} if probe is None else {"mha_probe": probe}))
