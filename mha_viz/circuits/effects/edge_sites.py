"""Modules at the ends of edges of a pre-norm network, and what they read and wrote in a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mha_viz.circuits.attribution.layout import Layout, Site, layout_of
from mha_viz.circuits.attribution.stream_norms import LayerNorms, stream_norms
from mha_viz.circuits.effects.patched_run import INPUTS
from mha_viz.engine.layer_activations import ModuleProxy
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.engine.projections import in_out, repeat_heads
from mha_viz.engine.run import rounding
from mha_viz.errors import AttentionUnavailableError
from mha_viz.prediction.replay import ReplayingPass


class CallKept(ModuleProxy):
    """A proxy that adds all arguments and the output of each call to its list `calls`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original."""
        output = self.original(*args, **kwargs)
        self.calls.append((args, kwargs, output))
        return output


@dataclass(frozen=True, eq=False)
class Projection:
    """One module that makes queries, keys or values of a layer, or all of them at once."""

    path: str
    module: nn.Linear | Conv1D
    input: int | None  # which of `INPUTS`; None for all
    by_head: bool = False  # whether all of one head stand together (GPT-NeoX)

    def laid_out(self, read: Float[Tensor, "row position 3 head width"]) -> Tensor:
        """Return queries, keys and values in the order that this module gives them."""
        if self.input is not None:
            return read[:, :, self.input].flatten(2)
        return (read.transpose(2, 3) if self.by_head else read).flatten(2)

    def weights(
        self, n_heads: int, width: int
    ) -> Float[Tensor, "input head d_model_and_bias width"]:
        """Return the weights by input and query head; the last row of each is its bias."""
        bias = self.module.bias
        matrix = in_out(self.module)
        row = matrix.new_zeros(1, matrix.shape[1]) if bias is None else bias.detach()[None]
        affine = torch.cat([matrix, row])
        if self.input is not None:
            heads = affine.unflatten(1, (-1, width)).movedim(1, 0)
            return repeat_heads(heads[None], n_heads)
        shape, order = ((3, n_heads, width), (1, 2, 0, 3))
        if self.by_head:
            shape, order = ((n_heads, 3, width), (2, 1, 0, 3))
        return affine.unflatten(1, shape).permute(order)


@dataclass(frozen=True, eq=False)
class LayerSites:
    """The modules of one layer at the ends of edges.

    Its readers are the queries of all heads, then their keys, then their values.
    """

    attention: nn.Module
    norm: Site  # before queries, keys and values
    mlp_norm: Site  # before the MLP; may be the same
    mlp: Site
    projections: tuple[Projection, ...]
    W_O: Float[Tensor, "head width d_model"]

    def read(
        self, normed: Float[Tensor, "reader row position d_model"]
    ) -> Float[Tensor, "row position 3 head width"]:
        """Project what each query, key and value reads; one reader stands for all of them."""
        matrix, bias = self._weights()
        if len(normed) == 1:
            read = torch.einsum("brd,hdw->brhw", normed[0], matrix)
        else:
            read = torch.einsum("hbrd,hdw->brhw", normed, matrix)
        return (read + bias).unflatten(2, (3, -1))

    def back(
        self, gradient: Float[Tensor, "row position 3 head width"]
    ) -> Float[Tensor, "reader row position d_model"]:
        """Take gradients at queries, keys and values to what each of them reads."""
        return torch.einsum("brhw,hdw->hbrd", gradient.flatten(2, 3), self._weights()[0])

    def _weights(self) -> tuple[Tensor, Tensor]:
        """Return matrices (reader, d_model, width) and biases (reader, width)."""
        n_heads, width = self.W_O.shape[:2]
        parts = torch.cat(
            [projection.weights(n_heads, width) for projection in self.projections]
        ).flatten(0, 1)
        return parts[:, :-1], parts[:, -1]


@dataclass(frozen=True, eq=False)
class Recording:
    """One run of texts of one length: what was read and written, (row, position, ...)."""

    logits: Float[Tensor, "target d_vocab"]
    attention: list[Tensor]  # of each layer the stream that its attention reads
    mlp: list[Tensor]  # that its MLP reads
    final: Tensor  # that the logits are made of
    z: list[Tensor]  # (row, head, position, width)
    mlp_output: list[Tensor]
    heads: list[tuple[Tensor, Tensor, Tensor]]  # query, key and value
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]]  # arguments of each layer's attention

    def change_to(
        self, other: "Recording", sites: Sequence[LayerSites]
    ) -> Float[Tensor, "sender row position d_model"]:
        """Subtract what each sender writes here from what it writes in another run."""
        changes = [(other.attention[0] - self.attention[0])[None]]
        for layer, site in enumerate(sites):
            z = other.z[layer] - self.z[layer]
            changes.append(torch.einsum("bhrw,hwd->hbrd", z, site.W_O))
            changes.append((other.mlp_output[layer] - self.mlp_output[layer])[None])
        return torch.cat(changes)


class EdgeSites:
    """All modules at the ends of edges of a pre-norm network."""

    def __init__(self, model: AttentionModel) -> None:
        norms, layout = stream_norms(model), layout_of(model)
        self.model, self._projections = model, model.layers()
        self._paths = {module: path for path, module in model.network.named_modules()}
        if len(norms.final) != 1 or norms.final[0] is None:
            raise no_edges(model, "no single norm is behind the last layer")
        self.final: Site = norms.final[0]
        # A layer whose attention writes nothing is like both kinds.
        kinds = {layer.parallel for layer in norms.layers} - {None}
        if len(kinds) > 1:
            raise no_edges(model, "some of its layers are parallel, others are not")
        self.parallel = kinds == {True}
        self.layers = [self._layer(layout, norms.layers[i], i) for i in range(model.n_layers)]

    def record(self, runs: ReplayingPass) -> Recording:
        """Run texts, and keep both ends of every edge."""
        attentions = [self._paths[layer.attention] for layer in self.layers]
        sites = {self.final} | {
            site for layer in self.layers for site in (layer.norm, layer.mlp_norm, layer.mlp)
        }
        network, probe = self.model.network, Probe(("z", *INPUTS))
        calls: dict[str, list[Any]] = {
            path: [] for path in (*(site.path for site in sites), *attentions)
        }
        recorders = {
            path: CallKept(network.get_submodule(path), calls=calls[path]) for path in calls
        }
        with torch.inference_mode(False), torch.no_grad():
            logits = runs.logits(1, probe, inside=recorders)[0]
        z = list(probe.tensors["z"])
        rows, _, position, _ = z[0].shape
        shape = rows, position, -1

        def input_of(site: Site) -> Tensor:
            return calls[site.path][0][0][0].reshape(shape)

        return Recording(
            logits=logits,
            attention=[input_of(layer.norm) for layer in self.layers],
            mlp=[input_of(layer.mlp_norm) for layer in self.layers],
            final=input_of(self.final),
            z=z,
            mlp_output=[first(calls[layer.mlp.path][0][2]).reshape(shape) for layer in self.layers],
            heads=list(zip(*(probe.tensors[name] for name in INPUTS), strict=True)),
            calls=[calls[path][0][:2] for path in attentions],
        )

    @torch.no_grad()
    def check_values(self, recording: Recording) -> None:
        """Raise AttentionUnavailableError unless the weights make the values of a run."""
        for layer, site in enumerate(self.layers):
            values = recording.heads[layer][2]
            normed = site.norm.module(recording.attention[layer])
            made_values = site.read(normed[None])[:, :, 2].transpose(1, 2)
            apart = made_values - repeat_heads(values, made_values.shape[1])
            if float(apart.abs().max()) > rounding(values.dtype) * float(values.abs().max()):
                raise no_edges(self.model, f"its values in layer {layer} do not split by heads")

    def _layer(self, layout: Layout, norms: LayerNorms, layer: int) -> LayerSites:
        """Return the modules of a layer; AttentionUnavailableError where they are not as known."""
        projections, start = self._projections[layer], f"{layout.layers[layer]}."
        mlps = [site for site in layout.mlps if site.path.startswith(start)]
        beside = norms.writing is None and not norms.passing and norms.factor == 1
        W_O, reading, mlp_norm = projections.output(), norms.reading, norms.mlp
        if not beside or reading is None or mlp_norm is None or len(mlps) != 1 or W_O is None:
            raise no_edges(
                self.model,
                f"layer {layer} has not just one norm before attention and at most one before the "
                "MLP, so that what is read is not a sum of what was written",
            )
        modules = projections.readers()
        fused = modules[0] is modules[1]
        if fused and in_out(modules[0]).shape[1] != 3 * W_O[..., 0].numel():
            raise no_edges(self.model, f"its values in layer {layer} do not split by heads")
        readers = tuple(
            Projection(self._paths[module], module, None if fused else i, projections.is_by_head)
            for i, module in enumerate(modules[:1] if fused else modules)
        )
        return LayerSites(projections.module, reading, mlp_norm, mlps[0], readers, W_O)


def first(output: Any) -> Tensor:
    """Return a module's output, or the first of several."""
    tensor: Tensor = output[0] if isinstance(output, tuple) else output
    return tensor


def no_edges(model: AttentionModel, why: str) -> AttentionUnavailableError:
    """Make the error for a family whose edges are not known."""
    return AttentionUnavailableError(
        f"The edges of the {model.family} family cannot be told apart here: {why}. Choose a GPT-2, "
        "GPT-NeoX, Llama or one of their relatives."
    )
