"""The passes of path patching: a receiver's input, with a sender's output replaced.

A path goes from a sender to what a receiver reads. First the sender's z is replaced, in a run whose
other heads and MLPs are frozen (direct) or run on (total), and what every later head's query, key
and value become is kept. Then the clean run is made once more with one of these in its place.

The clean run itself is made once: it keeps what each layer and module gave, for the other runs, and
its graph, for the gradients.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mha_viz.circuits.attribution.layout import layer_and_mlp_paths
from mha_viz.engine.layer_activations import CallRecorder, ModuleProxy
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Changed, EverythingKept, HeadEdits, LayerAttention, Probe
from mha_viz.engine.projections import repeat_heads
from mha_viz.errors import AttentionUnavailableError
from mha_viz.prediction.replay import ReplayingPass, repeated
from mha_viz.prediction.targets import PredictionTargets

Head = tuple[int, int]
Input = Literal["query", "key", "value"]
INPUTS: tuple[Input, ...] = ("query", "key", "value")
MAX_INPUT_BYTES = 2**28  # of all that later heads read, with one sender after the other replaced
Z = Float[Tensor, "layer head query d_head"]


class PathRuns:
    """The clean run of one text, and runs in which paths carry another run's output.

    `other` is each head's z in the other run; one position stands for all. `logits` (target,
    d_vocab), `z` and `inputs`, by query head, are of the clean run.
    """

    def __init__(
        self, model: AttentionModel, targets: PredictionTargets, other: Z, with_graph: bool = True
    ) -> None:
        self.model, self.targets, self.other = model, targets, other
        self._pass, self._frozen = ReplayingPass(model, targets), FrozenModules(model)
        self._attentions: list[LayerAttention] = []
        leaves, recorders = _Gradients(), self._frozen.recorders()
        edits = HeadEdits(change=leaves.change)
        probe = Probe(("z", *INPUTS), edits=edits, attentions=self._attentions)
        with torch.inference_mode(False), torch.set_grad_enabled(with_graph):
            self._replays = self._pass.record(probe=probe, inside=recorders)
            logits = self._pass.plain
            if logits is None:
                logits = self._pass.logits(1, probe, inside=recorders)
        self._graph = [(leaves, logits)] * with_graph
        self.logits = logits[0].detach()
        self.z = torch.stack([layer[0].detach() for layer in probe.kept["z"]])
        self.inputs = {name: self._by_query_head(probe.kept[name]) for name in INPUTS}
        read = (layer for layers in self.inputs.values() for layer in layers)
        n_bytes = sum(layer.numel() * layer.element_size() for layer in read)
        self.n_settings = max(1, min(self._pass.n_settings, MAX_INPUT_BYTES // n_bytes))

    def differs(self, sender: Head) -> bool:
        """Tell whether the sender's z differs at all in the other run."""
        layer, head = sender
        return not torch.equal(self.z[layer, head], self._other_z(layer, [head])[0])

    def receiver_inputs(
        self,
        layer: int,
        heads: Sequence[int],
        direct: bool,
        readers: Sequence[int] = (),
        to_logits: bool = True,
    ) -> tuple[Mapping[int, Mapping[Input, Tensor]], Float[Tensor, "sender target d_vocab"] | None]:
        """Run the text with each of a layer's heads replaced in turn, at most `n_settings`.

        Direct runs freeze all other heads and the MLPs at their clean outputs: of the layers behind
        the sender's they compute norms, queries, keys and values alone. Returns query, key and
        value of the layers `readers`, (sender, head, position, width), and the logits; without
        `to_logits` a run ends with the last reader, and there are none.
        """
        start, n = layer if self._replays else 0, len(heads)
        inputs: dict[int, Mapping[Input, Tensor]] = {}
        other = self._other_z(layer, heads)

        def sent(at: int, z: Tensor) -> Tensor:
            """Replace z of the i-th of the heads in setting i."""
            if at == layer:
                z = z.clone()
                z[range(n), list(heads)] = other
            return z

        def read(at: int, *tensors: Tensor) -> tuple[Tensor, ...] | Tensor:
            now = start + at
            if now in readers:
                inputs[now] = dict(zip(INPUTS, self._by_query_head(tensors), strict=True))
                if now == max(readers) and not to_logits:
                    raise EverythingKept
            return sent(now, self.z[now].expand(n, -1, -1, -1)) if direct else tensors

        def change(at: int, z: Tensor, pattern: Tensor | None, *_: Any) -> Changed:
            return sent(start + at, z), pattern

        edits = HeadEdits(change=None if direct else change, inputs=read)
        probe, logits = Probe((), edits=edits), None
        with torch.inference_mode(False), torch.no_grad(), suppress(EverythingKept):
            inside = self._frozen.frozen(start, n, layer) if direct else {}
            logits = self._pass.logits(n, probe, start, inside)
        return inputs, logits

    def patch_receiver(
        self, layer: int, readers: Sequence[tuple[int, Input]], read: Sequence[Tensor]
    ) -> Float[Tensor, "setting target d_vocab"]:
        """Compute the clean run's logits, with one head's input replaced in each setting.

        `readers` names the head and its input, and `read` gives what replaces it, (position,
        width).
        """
        start = layer if self._replays else 0
        numbered = [(setting, head, name) for setting, (head, name) in enumerate(readers)]
        change = _PatchedInputs(layer - start, numbered, read)
        with torch.inference_mode(False), torch.no_grad():
            return self._pass.logits(len(readers), Probe((), edits=HeadEdits(inputs=change)), start)

    def patch_paths(
        self, senders: Sequence[Head], layer: int, heads: Sequence[int], name: Input
    ) -> Float[Tensor, "setting target d_vocab"]:
        """Compute the clean run's logits, with the paths between several heads patched at once.

        The senders' z is the other run's; all other heads and the MLPs are frozen. The receivers
        are heads of a layer later than all senders, of which one input changes.
        """
        other = self.z.clone()
        for at, head in senders:
            other[at, head] = self._other_z(at, [head])[0]
        probe = Probe((name,), edits=HeadEdits(inputs=lambda at, *_: other[at][None]))
        with torch.inference_mode(False), torch.no_grad():
            self._pass.logits(1, probe, inside=self._frozen.frozen(0, 1))
            read = self._by_query_head(probe.kept[name])[layer][0]
            readers = [(0, head, name) for head in heads]
            change = _PatchedInputs(layer, readers, [read[head] for head in heads])
            return self._pass.logits(1, Probe((), edits=HeadEdits(inputs=change)))

    def gradients(
        self, behaviour: Callable[[Tensor], Tensor], *, direct: bool, first: int = 0
    ) -> Z:
        """Differentiate a behaviour at the clean run by each head's z, from layer `first` on.

        Direct gradients go straight to the logits, others by all ways: back through the clean run,
        whose graph serves once. Those of layers before `first` are 0.
        """
        with torch.inference_mode(False), torch.enable_grad():
            if self._graph and not direct:
                leaves, logits = self._graph.pop()
            else:
                leaves = _Gradients()
                edits = HeadEdits(change=leaves.change)
                if direct:
                    frozen = self.z[:, None]
                    edits = HeadEdits(inputs=lambda at, *_: leaves.change(at, frozen[at], None)[0])
                mlps = self._frozen.frozen(0, 1) if direct else {}
                logits = self._pass.logits(1, Probe((), edits=edits), inside=mlps)
            return leaves.gradients(behaviour(logits).sum(), first)

    def estimated_effects(
        self, gradient: Z, reads: Mapping[Input, Tensor], layer: int
    ) -> Float[Tensor, "sender head input"]:
        """Estimate the effect of what a sender makes each head of a layer read, float64.

        The head's attention is computed again with what it would read. So the change of its z is
        exact, however flat its softmax is at the clean run, and only what follows is linear.
        """
        each = []
        with torch.inference_mode(False), torch.no_grad():
            for name in INPUTS:
                read = {one: self.inputs[one][layer] for one in INPUTS} | {name: reads[name]}
                tensors = (one.expand(len(reads[name]), -1, -1, -1) for one in read.values())
                z, _ = self._attentions[layer](*tensors, need_pattern=False)
                each.append(((z - self.z[layer]) * gradient[layer]).double().sum((-1, -2)))
        return torch.stack(each, -1)

    def estimated_logit_effects(self, gradient: Z, layer: int) -> Float[Tensor, " head"]:
        """Estimate to first order each head's effect on the logits, float64."""
        heads = range(self.z.shape[1])
        change = self._other_z(layer, heads) - self.z[layer]
        return (change * gradient[layer]).double().sum((-1, -2))

    def _other_z(self, layer: int, heads: Sequence[int]) -> Float[Tensor, "head query d_head"]:
        return self.other[layer, list(heads)].to(self.z).expand(-1, self.z.shape[2], -1)

    def _by_query_head(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        return [repeat_heads(one.detach(), self.model.n_heads) for one in tensors]


# -- what happens to modules and heads in these runs ----------------------------------------------


class FrozenModules:
    """The MLPs and output projections of a model, recorded in one run and frozen in others."""

    def __init__(self, model: AttentionModel) -> None:
        self.model = model
        paths = {module: path for path, module in model.network.named_modules()}
        layers, self._mlps = layer_and_mlp_paths(model)  # ALBERT's are all the same one
        # W_O, and what computes for the MLP alone: the first projection of BERT's stands beside it.
        self._others: list[list[str]] = []
        get = model.network.get_submodule
        for layer, whole, mlp in zip(model.layers(), layers, self._mlps, strict=True):
            inside = {*layer.module.modules(), *get(mlp).modules()}
            others = {*get(whole).modules()} - inside | {layer.find_output()}
            linear = [one for one in others if isinstance(one, nn.Linear | Conv1D)]
            self._others.append([paths[one] for one in linear])
        every = {*self._mlps, *(path for some in self._others for path in some)}
        self._calls: dict[str, list[tuple[Any, Any]]] = {path: [] for path in every}

    def recorders(self) -> dict[str, nn.Module]:
        """Make stand-ins that record each module's output."""
        get = self.model.network.get_submodule
        return {path: CallRecorder(get(path), calls=calls) for path, calls in self._calls.items()}

    def frozen(
        self, start: int, n_settings: int, sender: int | None = None
    ) -> dict[str, nn.Module]:
        """Make stand-ins that give the recorded outputs, whatever their input.

        `start` is the first layer that is run; each row is repeated `n_settings` times in the
        batch. With a sender's layer the output projections of all others are frozen, too.
        """
        if not self.model.attends_in_all_layers:
            raise AttentionUnavailableError(
                f"{self.model.name} has layers without attention, which answer to what passes them,"
                ' so that no path is direct: measure total effects by path_effects(way="total").'
            )
        if sum(len(self._calls[path]) for path in {*self._mlps}) != len(self._mlps):
            raise AttentionUnavailableError(
                f"{self.model.name} keeps the MLPs between its heads in a way that is not known "
                "here, so that a path cannot be cut out of the rest: take a BERT, GPT-2, Llama or "
                "one of their relatives."
            )
        outputs: dict[str, list[Any]] = {}
        for layer in range(start, len(self._mlps)):
            path = self._mlps[layer]
            turn = self._mlps[:layer].count(path)
            given = self._calls[path][turn][1]
            outputs.setdefault(path, []).append(repeated(given, n_settings))
            for path in self._others[layer] if sender is not None else ():
                # One row, which is added to each row of the stream; None: what it makes itself.
                given = None if layer == sender else repeated(self._calls[path][turn][1], 1)
                outputs.setdefault(path, []).append(given)
        get = self.model.network.get_submodule
        return {path: _Frozen(get(path), outputs=iter(one)) for path, one in outputs.items()}


class _Frozen(ModuleProxy):
    """A module that gives one of its `outputs` after the other; where it is None, its own."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the next output."""
        output = next(self.outputs)
        return self.original(*args, **kwargs) if output is None else output


@dataclass
class _PatchedInputs:
    """A change of inputs: some heads of a layer read another query, key or value."""

    layer: int
    readers: Sequence[tuple[int, int, Input]]  # setting, head, and which of its inputs
    inputs: Sequence[Float[Tensor, "position width"]]

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        if layer != self.layer:
            return query, key, value
        # Heads that share a key head are given one each, of which only the receiver's changes.
        both = (repeat_heads(shared, query.shape[1]) for shared in (key, value))
        tensors = tuple(one.clone() for one in (query, *both))
        for (row, head, name), read in zip(self.readers, self.inputs, strict=True):
            tensors[INPUTS.index(name)][row, head] = read
        return tensors


@dataclass
class _Gradients:
    """Zeros added to what every head gives, to differentiate by."""

    added: list[Tensor] = field(default_factory=list)

    def change(self, layer: int, z: Tensor, pattern: Tensor | None, *_: Any) -> Changed:
        self.added.append(torch.zeros_like(z, requires_grad=True))
        return z + self.added[-1], pattern

    def gradients(self, at: Tensor, first: int) -> Z:
        """Differentiate with respect to each layer's zeros, without the batch axis."""
        found = torch.autograd.grad(at, self.added[first:])
        return torch.cat([torch.zeros_like(at) for at in self.added[:first]] + [*found])
