"""The residual stream of one run as a sum of named components, at any place."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mha_viz.circuits.attribution.frozen_run import FrozenRun
from mha_viz.circuits.attribution.layout import (
    PROJECTION_BIAS,
    Component,
    components_of,
    unknown_layout,
)
from mha_viz.circuits.attribution.linear_maps import LinearMap
from mha_viz.core.amounts import of_bytes
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import EverythingKept, Probe
from mha_viz.engine.projections import repeat_heads
from mha_viz.engine.run import rounding
from mha_viz.errors import ArgumentError
from mha_viz.text.tokens import Encoded

MAX_BYTES = 2 * 10**9  # of the components at all places


class ResidualStream:
    """The residual stream of one run at some positions, as a sum of components.

    Embeddings, each head, each MLP and each bias are components. A head is its z times its slice of
    W_O, less what W_V's bias adds to it: rows of a pattern sum to 1, so that this is the same on
    every text, and it is counted in the layer's attention bias with b_O. (Where heads have a sink,
    rows sum to less, and the attention bias depends on the text.) Norms on the way keep the scale
    of this run: with it they are linear, centring included. What the network adds up of the
    components is not described here but done by the network itself, with a row for each component
    in place of a text; so pre- and post-norm families, parallel blocks, factors on the stream and
    rotary positions are exact. That the rows sum to what the run had is checked at every place.

    Source: the decomposition is Elhage et al. 2021; frozen scales are common practice, in post-norm
    models since Kobayashi et al. 2021.

    Attributes:
        model, encoded: what was run.
        positions: the tokens that the stream is taken apart at.
        components: in their order: embeddings, then for each layer its heads, attention bias, MLP
            and norm biases, then the final norm's bias.
        run: the run itself; `run.probe` has every layer's pattern, z and query at these positions,
            and all keys and values.
    """

    def __init__(
        self,
        model: AttentionModel,
        encoded: Encoded,
        positions: Sequence[int] | None = None,
        beyond: Sequence[nn.Module] = (),
    ) -> None:
        """Run the model once, at all positions if none are given.

        The modules of `beyond`, behind the stack, are recorded, too, and the whole network is then
        run; the last one, the unembedding, at these positions alone. ArgumentError: too many
        positions for the memory.
        """
        at = range(len(encoded.input_ids)) if positions is None else positions
        self.run = FrozenRun(model, encoded, at, beyond)
        self.model, self.encoded, self.positions = model, encoded, self.run.positions
        self.components: tuple[Component, ...] = components_of(self.run.layout, model.n_heads)
        n_streams = len(self.run.layout.layers) + 2
        numbers = n_streams * (len(self.components) + 1) * len(self.positions) * model.d_model
        if numbers * model.dtype.itemsize > MAX_BYTES:
            raise ArgumentError(
                f"The components at {len(self.positions)} positions would take "
                f"{of_bytes(numbers * model.dtype.itemsize)}: ask for fewer at once."
            )

    # -- the stream ------------------------------------------------------------------------------

    def entering(self, layer: int) -> Float[Tensor, "position d_model"]:
        """Return the stream that enters a layer; for n_layers the one that leaves the last."""
        return self.run.entering[layer]

    def at(self, layer: int) -> Float[Tensor, "component position d_model"]:
        """Return the components of what enters a layer; for n_layers of what leaves the last."""
        return self._at_all_layers[layer]

    @property
    def wide(self) -> torch.dtype:
        """The precision of sums: half precision is not for them."""
        return torch.promote_types(self.run.entering[0].dtype, torch.float32)

    @property
    def final(self) -> Float[Tensor, "component position d_model"]:
        """The components of the stack's output, after its final norm where it has one."""
        return self._rows[1]

    @cached_property
    def _at_all_layers(self) -> list[Tensor]:
        for rows, stream in zip(self._rows[0], self.run.entering, strict=True):
            self.check_sum(rows.sum(0), stream)
        return self._rows[0]

    @cached_property
    def _rows(self) -> tuple[list[Tensor], Tensor]:
        rows = {component.name: i for i, component in enumerate(self.components)}
        with torch.no_grad():
            return self.run.rows(self.values, rows)

    # -- what heads read -------------------------------------------------------------------------

    @torch.no_grad()
    def queries_and_keys(
        self, layer: int
    ) -> tuple[
        Float[Tensor, "component head position d_head"],
        Float[Tensor, "component n_kv_heads position d_head"],
    ]:
        """Split each head's queries and keys at these positions; the last part is the bias.

        After rotation by position, where a family has that; norms of queries and keys are frozen.
        """
        names = [*(component.name for component in self.components), PROJECTION_BIAS]
        probe = Probe(("query", "key"), n_layers=layer + 1, stop=True)
        with suppress(EverythingKept):
            self.run.rows(self.values, {name: i for i, name in enumerate(names)}, probe, [layer])
        query, key = probe.tensors["query"][layer], probe.tensors["key"][layer]
        self.check_sum(query.sum(0), self.run.attention("query", layer))
        self.check_sum(key.sum(0), self.run.attention("key", layer)[:, list(self.positions)])
        return query, key

    # -- what heads write ------------------------------------------------------------------------

    @cached_property
    def values(self) -> dict[str, Tensor]:
        """The output of each component where it enters the stream, (position, d), by its name.

        Biases of norms are not among them: they stand in the norms.
        """
        written = self._recorded_outputs()
        for layer in range(len(self.run.layout.layers)):
            heads, bias = self._attention(layer)
            written |= {f"L{layer} H{head}": value for head, value in enumerate(heads)}
            written[f"L{layer} attention bias"] = bias
        return written

    def source_shares(
        self, layer: int, direction: Float[Tensor, "position d_model"]
    ) -> Float[Tensor, "head position key"]:
        """Split each head's share in a number by the token that it reads it from.

        pattern * (v - b_V) . (W_O direction); over the keys they sum to the head's share.
        """
        W_O, moved = self.W_O(layer), self._values_moved(layer)
        through = torch.einsum("hkd,hdm,qm->hqk", moved, W_O, direction)
        return self.run.attention("pattern", layer) * through

    def carried(self, layer: int) -> Float[Tensor, "head key d_model"]:
        """Compute what each head would write if it looked at one token alone, without biases."""
        return torch.einsum("hkd,hdm->hkm", self._values_moved(layer), self.W_O(layer))

    def _values_moved(self, layer: int) -> Float[Tensor, "head key d_head"]:
        """Return the values that each query head takes, less the bias."""
        values = self.run.attention("value", layer) - self.b_V[layer][:, None]
        return repeat_heads(values[None], self.model.n_heads)[0]

    def _recorded_outputs(self) -> dict[str, Tensor]:
        """Return the outputs of embeddings and MLPs, by the components' names."""
        written: dict[str, Tensor] = {}
        for site in (*self.run.layout.embeddings, *self.run.layout.mlps):
            for name, (_, output) in zip(site.writes, self.run.calls[site.module], strict=False):
                if output is None:
                    raise unknown_layout(self.model, f"{site.path} gives no vector a token")
                written[name] = output
        return written

    def _attention(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return a layer's heads (head, position, d_model), and its bias (position, d_model)."""
        z, pattern = (self.run.attention(name, layer) for name in ("z", "pattern"))
        W_O = self.W_O(layer)
        b_V = repeat_heads(self.b_V[layer][None], len(z))[0]
        constant = pattern.sum(-1)[..., None] * b_V[:, None]
        heads = torch.einsum("hqd,hdm->hqm", z - constant, W_O)
        bias = torch.einsum("hqd,hdm->qm", constant, W_O)
        projection: Any = self.model.layers()[layer].modules()[2]
        return heads, bias if projection.bias is None else bias + projection.bias.detach()

    def W_O(self, layer: int) -> Float[Tensor, "head d_head d_model"]:
        """Return a layer's output weights, by head."""
        weights = self.model.layers()[layer].output()
        if weights is None:
            raise unknown_layout(self.model, f"layer {layer} has no W_O that splits by heads")
        return weights

    @cached_property
    def b_V(self) -> list[Float[Tensor, "n_kv_heads d_head"]]:
        """The values of each layer where the stream is zero."""
        probe = Probe(("value",))
        with torch.no_grad():
            self.run.rows(self._nothing(), {PROJECTION_BIAS: 0}, probe)
        return [value[0, :, 0] for value in probe.tensors["value"]]

    # -- derivatives of the linear run -----------------------------------------------------------

    def gradients(
        self, read: Callable[[Float[Tensor, "position d_model"]], Float[Tensor, ""]]
    ) -> list[Float[Tensor, "position d_model"]]:
        """Differentiate an affine function of the stack's output by what each attention writes.

        For a vector that a head of that layer writes, its product with this is its share. The last
        gradient is that by what leaves the last layer.
        """
        written, entering, _, final = self._linear_pass(())
        ends = [written[f"L{i} attention bias"] for i in range(len(entering) - 1)]
        with torch.enable_grad():
            gradients = torch.autograd.grad(read(final[0]), [*ends, entering[-1]])
        return [gradient.reshape(-1, gradient.shape[-1]) for gradient in gradients]

    def value_maps(self) -> list[LinearMap]:
        """Return the maps from what enters each layer to its values, without biases.

        From (1, position, d_model) to (1, n_kv_heads, position, d_head).
        """
        _, entering, values, _ = self._linear_pass(range(len(self.run.layout.layers)))
        return [LinearMap(x, y) for x, y in zip(entering, values, strict=False)]

    def _linear_pass(
        self, read: Sequence[int]
    ) -> tuple[dict[str, Tensor], list[Tensor], Sequence[Tensor], Tensor]:
        """Run the stack on zeros under gradients, with the values of some layers made of them.

        Return what is written, by name, what enters each layer, all values, and the output.
        """
        written = {name: zero.requires_grad_() for name, zero in self._nothing().items()}
        probe = Probe(("value",))
        with torch.enable_grad():
            entering, final = self.run.rows(written, dict.fromkeys(written, 0), probe, read)
        return written, entering, list(probe.tensors["value"]), final

    def _nothing(self) -> dict[str, Tensor]:
        """Return zeros in place of what embeddings, attention and MLPs write."""
        written = {n: torch.zeros_like(output) for n, output in self._recorded_outputs().items()}
        layers = range(len(self.run.layout.layers))
        like = self.run.entering[0]
        return written | {f"L{i} attention bias": torch.zeros_like(like) for i in layers}

    # -- checks ----------------------------------------------------------------------------------

    def check_sum(self, parts: Tensor, total: Tensor) -> None:
        """Raise AttentionUnavailableError unless the parts' sum is the whole but for rounding."""
        worst = float((parts - total).abs().max() / total.abs().max().clamp_min(1e-30))
        if not worst <= rounding(total.dtype):
            raise unknown_layout(
                self.model, f"its parts miss what the run had by {worst:.2g} of the largest number"
            )


def on_cpu(tensor: Tensor) -> Tensor:
    """Move a result to the CPU, in float32 or wider: half precision is not for sums and tables."""
    return tensor.detach().to("cpu", torch.promote_types(tensor.dtype, torch.float32))
