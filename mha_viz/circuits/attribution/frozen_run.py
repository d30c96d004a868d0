"""One run of a model, recorded at some positions, and the same run again as a linear map."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from mha_viz.circuits.attribution import frozen
from mha_viz.circuits.attribution.layout import (
    PROJECTION_BIAS,
    Layout,
    layout_of,
    stack_of,
    unknown_layout,
)
from mha_viz.engine.layer_activations import CallRecorder, replace_modules, with_replaced
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import EverythingKept, Probe
from mha_viz.engine.run import padded, within_memory
from mha_viz.errors import MhaVizError
from mha_viz.prediction.logits import OF_TEXTS, objective
from mha_viz.text.cleaning import visible
from mha_viz.text.tokens import Encoded


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
            whole = tensors[name]
            assert whole is not None  # all is kept
            tensors[name] = whole[..., list(self.positions), :]
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

        def recorder(module: nn.Module) -> frozen.Recorder:
            kind = frozen.PositionRecorder if module in narrowed else frozen.Recorder
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
        self.entering = self.layout.entering({path: one.calls for path, one in layers.items()})
        self.last_gives_more: bool = layers[self.layout.layers[-1]].gives_more

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
        made = with_replaced(self.model.network, self._replacements(values, row, n_rows, read))
        layer_calls: dict[str, list[Any]] = {path: [] for path in self.layout.layers}
        layers = {
            path: CallRecorder(made.get_submodule(path), calls=calls)
            for path, calls in layer_calls.items()
        }
        ids = torch.tensor([[self.encoded.input_ids[i] for i in self.positions]])
        inputs = {"input_ids": ids.repeat(n_rows, 1).to(self.model.device)}
        stack = stack_of(replace_modules(made, layers))
        if "position_ids" in inspect.signature(stack.forward).parameters:
            places = torch.tensor([self.positions]).repeat(n_rows, 1)
            inputs["position_ids"] = places.to(self.model.device)
        with _in_layout(self.model), within_memory(self.model.network):
            output = _call(stack, inputs, probe)
        return self.layout.entering(layer_calls), output.last_hidden_state

    def _replacements(
        self, values: Mapping[str, Tensor], row: Mapping[str, int], n_rows: int, read: Sequence[int]
    ) -> dict[nn.Module, nn.Module]:
        made: dict[nn.Module, nn.Module] = {}
        heads, rows = range(self.model.n_heads), {"row": row, "n_rows": n_rows}
        for site in (*self.layout.embeddings, *self.layout.mlps):
            calls = [{name: values[name]} for name in site.writes if name in values]
            more = self._recorders[site.module].gives_more
            made[site.module] = frozen.ComponentRows(
                site.module, calls=iter(calls), gives_more=more, **rows
            )
        for site in self.layout.outputs:
            of = [name.split(" ")[0] for name in site.writes]
            written = [
                [f"{layer} attention bias", *(f"{layer} H{head}" for head in heads)] for layer in of
            ]
            calls = [{name: values[name] for name in one if name in values} for one in written]
            made[site.module] = frozen.ComponentRows(site.module, calls=iter(calls), **rows)
        for site in self.layout.norms:
            norms = zip(self._norms[site.module], site.writes, strict=False)
            made[site.module] = frozen.NormRows(site.module, calls=norms, **rows)
        of_readers = tuple(f"{self.layout.layers[layer]}." for layer in read)
        for site in self.layout.projections:
            (name,) = site.writes
            unread = name == PROJECTION_BIAS and not site.path.startswith(of_readers)
            made[site.module] = frozen.ProjectionRows(site.module, name=name, unread=unread, **rows)
        return made

    def _check_calls(self) -> None:
        """Refuse a network in which a module is called more or less often than known."""
        layout = self.layout
        for site in (*layout.embeddings, *layout.outputs, *layout.mlps, *layout.norms):
            calls = len(self.calls[site.module])
            if calls not in (0, len(site.writes)):
                why = f"{site.path} is called {calls} times in a pass, not {len(site.writes)}"
                raise unknown_layout(self.model, why)

    @cached_property
    def _norms(self) -> dict[nn.Module, list[frozen.FrozenNorm]]:
        found: dict[nn.Module, list[frozen.FrozenNorm]] = {}
        for site in self.layout.norms:
            found[site.module] = []
            for x, y in self.calls[site.module]:
                norm = None if x is None or y is None else frozen.frozen(site.module, x, y)
                if norm is None:
                    raise unknown_layout(self.model, f"{site.path} is no LayerNorm and no RMSNorm")
                found[site.module].append(norm)
        return found


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
