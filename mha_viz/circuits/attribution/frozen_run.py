"""One run of a model, recorded at some positions, and the same run again as a linear map."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import repeat
from typing import Any

import torch
from torch import Tensor, nn

from mha_viz.circuits.attribution.layout import (
    PROJECTION_BIAS,
    Layout,
    Site,
    layout_of,
    stack_of,
    unknown_layout,
)
from mha_viz.circuits.attribution.linear_maps import LinearNorm
from mha_viz.engine.layer_activations import (
    CallRecorder,
    ModuleProxy,
    replace_modules,
    with_replaced,
)
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import EverythingKept, Probe
from mha_viz.engine.projections import in_out
from mha_viz.engine.run import padded, within_memory
from mha_viz.errors import MhaVizError
from mha_viz.prediction.logits import OF_TEXTS, objective
from mha_viz.text.cleaning import visible
from mha_viz.text.tokens import Encoded


class Recorder(ModuleProxy):
    """A stand-in that records the first argument and output of every call at some positions."""

    gives_more = False  # than one tensor

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original, and record."""
        output = self.original(*args, **kwargs)
        hidden = args[0] if args else next(iter(kwargs.values()))
        self.__dict__["gives_more"] = isinstance(output, tuple)
        first = output[0] if isinstance(output, tuple) else output
        self.calls.append((self._at(hidden, hidden), self._at(first, hidden)))
        return output

    def _at(self, tensor: Any, hidden: Any) -> Tensor | None:
        """Select the positions on the tokens' axis; None for a tensor without one."""
        if not isinstance(tensor, Tensor):
            return None
        # Memory tells axes apart: what has the input's shape has its axes, whatever its memory.
        like = hidden if isinstance(hidden, Tensor) and hidden.shape == tensor.shape else tensor
        if tensor.ndim > 2 and len(tensor) == 1:
            tensor, like = tensor[0], like[0]
        axes = [axis for axis in range(tensor.ndim - 1) if tensor.shape[axis] == self.n_tokens]
        if not axes:
            return None
        # With as many heads as tokens both axes fit. Projections lay out token after token.
        axis = max(axes, key=like.stride)
        return tensor.index_select(axis, torch.tensor(list(self.positions), device=tensor.device))


class PositionRecorder(Recorder):
    """A stand-in for a projection that computes at some positions alone, and records."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Call the original at the positions."""
        chosen = hidden[..., list(self.positions), :]
        output: Tensor = self.original(chosen)
        self.calls.append((chosen.flatten(0, -2), output.flatten(0, -2)))
        return output


class AffineRows(ModuleProxy):
    """A stand-in that is linear on rows; each constant that it adds has a row of its own.

    `calls` has for each call the linear map of all rows, and the constants by the components'
    names. With `gives_more` the original returns a tuple, whose first member this is.
    """

    gives_more = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Map the rows, and add each constant to its row, if it has one."""
        linear, constants = next(self.calls)
        rows = linear(*args, **kwargs)
        for name, value in constants.items():
            if name in self.row:
                by_row = rows.view(self.n_rows, -1, rows.shape[-1])
                by_row[self.row[name]] += value.reshape(-1, rows.shape[-1])
        return (rows, None) if self.gives_more else rows


@dataclass
class AtPositions(Probe):
    """A probe that keeps some queries of every layer, and the values and keys of all tokens."""

    positions: Sequence[int] = ()  # of the queries
    # what each layer adds to its scores by distance (T5), for these queries.
    position_bias: list[Tensor | None] = field(default_factory=list)

    def note_mask(self, bias: Tensor | None, *made_of: Tensor | None) -> None:
        """Record the position bias, too."""
        super().note_mask(bias, *made_of)
        by_distance = made_of[1]
        at = None if by_distance is None else by_distance[..., list(self.positions), :]
        self.position_bias.append(at)

    def take(self, module: nn.Module, scale: float, **tensors: Tensor | None) -> None:
        """Keep the chosen queries alone."""
        for name in ("pattern", "z", "query"):
            of_all_queries = tensors[name]
            assert of_all_queries is not None  # all is kept
            tensors[name] = of_all_queries[..., list(self.positions), :]
        super().take(module, scale, **tensors)


class FrozenRun:
    """One recorded run, in which norms keep their scale and components their output.

    `probe` keeps every layer's pattern, z and query at the positions, and all keys and values;
    `calls` the inputs and outputs of every module that writes; `entering` what enters each layer,
    and at the end what leaves the last one.
    """

    def __init__(
        self,
        model: AttentionModel,
        encoded: Encoded,
        positions: Sequence[int],
        beyond: Sequence[nn.Module] = (),
    ) -> None:
        """Run the model once, as `ResidualStream` does."""
        n = len(encoded.input_ids)
        self.model, self.encoded, self.positions = model, encoded, tuple(positions)
        self.layout: Layout = layout_of(model)
        modules = [site.module for site in self.layout.sites] + list(beyond)

        # A classifier of texts picks the position itself, behind its last module.
        narrowed = () if objective(model.network) in OF_TEXTS else beyond[-1:]

        def recorder(module: nn.Module) -> Recorder:
            kind = PositionRecorder if module in narrowed else Recorder
            return kind(module, calls=[], positions=self.positions, n_tokens=n)

        self._recorders = {module: recorder(module) for module in modules}
        self.probe = AtPositions(
            ("pattern", "z", "query", "key", "value"), positions=self.positions
        )
        with _in_layout(model), torch.no_grad(), within_memory(model.network):
            recording = with_replaced(model.network, self._recorders)
            layers = {path: recorder(recording.get_submodule(path)) for path in self.layout.layers}
            network = replace_modules(recording, layers)
            inputs = padded(model.network, [encoded], 0)
            self.output = _call(network if beyond else stack_of(network), inputs, self.probe)
        self.calls = {module: recorder.calls for module, recorder in self._recorders.items()}
        self._check_calls()
        self.entering = self.layout.entering({path: layer.calls for path, layer in layers.items()})
        self.last_gives_more: bool = layers[self.layout.layers[-1]].gives_more

    def attention(self, name: str, layer: int) -> Tensor:
        """Return one layer's pattern, z, query, key or value, heads first."""
        return self.probe.tensors[name][layer][0]

    def rows(
        self,
        values: Mapping[str, Tensor],
        row: Mapping[str, int],
        probe: Probe | None = None,
        read: Sequence[int] = (),
    ) -> tuple[list[Tensor], Tensor]:
        """Run the stack with a row for each component; return each layer's input and the output.

        `read` are the layers whose queries, keys and values are made of the rows: those of others
        are their biases alone.
        """
        n_rows = 1 + max(row.values())
        affine = {
            site.module: AffineRows(
                site.module,
                calls=calls,
                gives_more=self._recorders[site.module].gives_more,
                row=row,
                n_rows=n_rows,
            )
            for site, calls in self._affine(values, n_rows, read)
        }
        linear_network = with_replaced(self.model.network, affine)
        layer_calls: dict[str, list[Any]] = {path: [] for path in self.layout.layers}
        layers = {
            path: CallRecorder(linear_network.get_submodule(path), calls=calls)
            for path, calls in layer_calls.items()
        }
        ids = torch.tensor([[self.encoded.input_ids[i] for i in self.positions]])
        inputs = {"input_ids": ids.repeat(n_rows, 1).to(self.model.device)}
        stack = stack_of(replace_modules(linear_network, layers))
        if "position_ids" in inspect.signature(stack.forward).parameters:
            position_ids = torch.tensor([self.positions]).repeat(n_rows, 1)
            inputs["position_ids"] = position_ids.to(self.model.device)
        with _in_layout(self.model), within_memory(self.model.network):
            output = _call(stack, inputs, probe)
        return self.layout.entering(layer_calls), output.last_hidden_state

    def _affine(
        self, values: Mapping[str, Tensor], n_rows: int, read: Sequence[int]
    ) -> Iterator[tuple[Site, Iterator[tuple[Callable[..., Tensor], dict[str, Tensor]]]]]:
        """Yield each module with the map and the constants of each of its calls."""
        layout = self.layout
        for site in layout.embeddings + layout.mlps + layout.outputs:
            of_heads = site in layout.outputs
            names = [self._of_attention(name) if of_heads else [name] for name in site.writes]
            written = [
                {name_of_row: values[name_of_row] for name_of_row in call if name_of_row in values}
                for call in names
            ]
            rows = n_rows if isinstance(site.module, nn.Embedding) else None
            yield site, iter([(partial(_nothing, call, rows), call) for call in written if call])
        for site in layout.norms:
            norms = zip(self._norms[site.module], site.writes, strict=False)
            yield site, iter([(_by_norm(norm), _bias(norm, name)) for norm, name in norms])
        of_readers = tuple(f"{layout.layers[layer]}." for layer in read)
        for site in layout.projections:
            (name,) = site.writes
            # Of what a layer's attention reads nothing reaches the stream: heads write as before.
            unread = name == PROJECTION_BIAS and not site.path.startswith(of_readers)
            yield site, repeat((partial(_project, site.module, unread), _bias(site.module, name)))

    def _of_attention(self, bias: str) -> list[str]:
        """Name what a layer's attention writes: its bias and its heads."""
        heads = range(self.model.n_heads)
        return [bias, *(f"{bias.split(' ')[0]} H{head}" for head in heads)]

    def _check_calls(self) -> None:
        """Refuse a network in which a module is called more or less often than known."""
        layout = self.layout
        for site in (*layout.embeddings, *layout.outputs, *layout.mlps, *layout.norms):
            calls = len(self.calls[site.module])
            if calls not in (0, len(site.writes)):
                why = f"{site.path} is called {calls} times in a pass, not {len(site.writes)}"
                raise unknown_layout(self.model, why)

    @cached_property
    def _norms(self) -> dict[nn.Module, list[LinearNorm]]:
        return {
            site.module: [self.norm(site, x, y) for x, y in self.calls[site.module]]
            for site in self.layout.norms
        }

    def norm(self, site: Site, x: Tensor | None, y: Tensor | None) -> LinearNorm:
        """Return the linear map that a norm was; AttentionUnavailableError for another kind."""
        norm = None if x is None or y is None else LinearNorm.of_run(site.module, x, y)
        if norm is None:
            raise unknown_layout(self.model, f"{site.path} is no LayerNorm and no RMSNorm")
        return norm


def _nothing(written: Mapping[str, Tensor], n_rows: int | None, *args: Any, **kw: Any) -> Tensor:
    """Return zeros in the shape of a writer's output; its input is ignored."""
    like = next(iter(written.values()))
    if n_rows is not None:  # of an embedding, whose positions may have no rows
        return like.new_zeros(n_rows, *like.shape)
    # OPT takes the tokens of all rows together.
    return like.new_zeros(*args[0].shape[:-1], like.shape[-1])


def _by_norm(norm: LinearNorm) -> Callable[[Tensor], Tensor]:
    return lambda x: norm.carry(x.reshape(-1, *norm.factor.shape)).reshape(x.shape)


def _project(module: Any, unread: bool, x: Tensor) -> Tensor:
    W = in_out(module)
    return x.new_zeros(*x.shape[:-1], W.shape[1]) if unread else x @ W


def _bias(module: Any, name: str) -> dict[str, Tensor]:
    return {} if module.bias is None else {name: module.bias}


@contextmanager
def _in_layout(model: AttentionModel) -> Iterator[None]:
    """Turn an error of a family's own code, with other modules or rows in it, into one of ours."""
    try:
        yield
    except (EverythingKept, MhaVizError):
        raise
    except Exception as error:
        reason = visible(f"{type(error).__name__}: {error}")[:200]
        why = f"a pass that records each component, or has a row for it, ends in {reason!r}"
        raise unknown_layout(model, why) from error


def _call(network: Any, inputs: dict[str, Any], probe: Probe | None) -> Any:
    if "use_cache" in inspect.signature(network.forward).parameters:
        inputs = inputs | {"use_cache": False}
    if network.config.is_encoder_decoder or probe is None:
        inputs.pop("token_type_ids", None)
    return network(**inputs, **({} if probe is None else {"mha_probe": probe}))
