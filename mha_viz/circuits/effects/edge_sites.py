"""Modules at the ends of edges: those of a pre-norm network, found by what one run gave them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mha_viz.circuits.attribution.layout import Site, layout_of
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
    """All modules at the ends of edges, found in a first run of a text."""

    def __init__(self, model: AttentionModel, runs: ReplayingPass) -> None:
        self.model, self._layout, self._layers = model, layout_of(model), model.layers()
        self._paths = {module: path for path, module in model.network.named_modules()}
        self._attention = [self._paths[layer.module] for layer in self._layers]
        inside = tuple(f"{path}." for path in self._attention)
        self._norms = [site for site in self._layout.norms if not site.path.startswith(inside)]
        calls, probe, _ = self._run(runs)
        self._norms = [site for site in self._norms if len(calls[site.path]) == 1]
        last = [site for site in self._norms if site.writes[0].startswith("final")]
        if len(last) != 1:
            raise no_edges(model, "no single norm is behind the last layer")
        self.final = last[0]
        self.layers = [self._layer(calls, probe, layer) for layer in range(model.n_layers)]
        # The same tensor, not the same numbers: an attention that writes zeros changes none.
        same = [
            calls[layer.norm.path][0][0][0] is calls[layer.mlp_norm.path][0][0][0]
            for layer in self.layers
        ]
        if any(same) and not all(same):
            raise no_edges(model, "some of its layers are parallel, others are not")
        self.parallel = all(same)

    def record(self, runs: ReplayingPass) -> Recording:
        """Run texts, and keep both ends of every edge."""
        calls, probe, logits = self._run(runs)
        z = list(probe.kept["z"])
        rows, _, position, _ = z[0].shape
        shape = rows, position, -1

        def given(site: Site) -> Tensor:
            return calls[site.path][0][0][0].reshape(shape)

        return Recording(
            logits=logits,
            attention=[given(layer.norm) for layer in self.layers],
            mlp=[given(layer.mlp_norm) for layer in self.layers],
            final=given(self.final),
            z=z,
            mlp_output=[first(calls[layer.mlp.path][0][2]).reshape(shape) for layer in self.layers],
            heads=list(zip(*(probe.kept[name] for name in INPUTS), strict=True)),
            calls=[calls[path][0][:2] for path in self._attention],
        )

    def _run(self, runs: ReplayingPass) -> tuple[dict[str, list[Any]], Probe, Tensor]:
        paths = [site.path for site in (*self._norms, *self._layout.mlps)] + self._attention
        calls: dict[str, list[Any]] = {path: [] for path in paths}
        network, probe = self.model.network, Probe(("z", *INPUTS))
        recorders = {
            path: CallKept(network.get_submodule(path), calls=calls[path]) for path in paths
        }
        with torch.inference_mode(False), torch.no_grad():
            logits = runs.logits(1, probe, inside=recorders)[0]
        return calls, probe, logits

    def _layer(self, calls: dict[str, list[Any]], probe: Probe, layer: int) -> LayerSites:
        """Find the modules of a layer; AttentionUnavailableError where they are not as known."""
        args, kwargs, _ = calls[self._attention[layer]][0]
        hidden = args[0] if args else kwargs["hidden_states"]
        start, modules = f"{self._layout.layers[layer]}.", self._layers[layer].readers()
        norms = {
            site: calls[site.path][0][2] for site in self._norms if site.path.startswith(start)
        }
        # Two norms of one stream give the same numbers before they are trained.
        before = [site for site, output in norms.items() if output is hidden]
        before = before or [site for site, output in norms.items() if output.equal(hidden)]
        later = [site for site in norms if site not in before]
        mlps = [site for site in self._layout.mlps if site.path.startswith(start)]
        W_O = self._layers[layer].output()
        if len(before) != 1 or len(later) > 1 or len(mlps) != 1 or W_O is None:
            raise no_edges(
                self.model,
                f"layer {layer} has not just one norm before attention and at most one before the "
                "MLP, so that what is read is not a sum of what was written",
            )
        attention, mlp_norm = self._layers[layer].module, (later or before)[0]
        fused = modules[0] is modules[1]
        for by_head in (False, True):
            projections = tuple(
                Projection(self._paths[module], module, None if fused else i, by_head)
                for i, module in enumerate(modules[:1] if fused else modules)
            )
            sites = LayerSites(attention, before[0], mlp_norm, mlps[0], projections, W_O)
            if self._gives_values(sites, hidden, probe.kept["value"][layer]):
                return sites
        raise no_edges(self.model, f"its values in layer {layer} do not split by heads")

    def _gives_values(self, sites: LayerSites, hidden: Tensor, value: Tensor) -> bool:
        """Tell whether the weights, split by heads, make the values of the run."""
        try:
            made_values = sites.read(hidden[None])[:, :, 2].transpose(1, 2)
        except RuntimeError:  # widths of another split
            return False
        value = repeat_heads(value, made_values.shape[1])
        apart = float((made_values - value).abs().max())
        return apart <= rounding(value.dtype) * float(value.abs().max())


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
