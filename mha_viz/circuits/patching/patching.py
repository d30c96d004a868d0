"""The passes of path patching: a receiver's input, with a sender's output replaced.

A path goes from a sender to what a receiver reads. First the sender's z is replaced, in a run whose
other heads and MLPs are frozen (direct) or run on (total), and what every later head's query, key
and value become is kept. Then the clean run is made once more with one of these in its place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mha_viz.circuits.decompose.behaviour import Behaviour
from mha_viz.circuits.decompose.layout import mlp_paths
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.module_proxies import CallRecorder, OutputProxy
from mha_viz.engine.probe import Changed, HeadEdits, LayerAttention, Probe
from mha_viz.engine.projections import repeat_heads
from mha_viz.errors import AttentionUnavailableError
from mha_viz.prediction.replay import ReplayingPass, repeated
from mha_viz.prediction.targets import PredictionTargets

Head = tuple[int, int]
Input = Literal["query", "key", "value"]
INPUTS: tuple[Input, ...] = ("query", "key", "value")
MAX_INPUT_BYTES = 2**28  # of all that later heads read, with one sender after the other replaced
Z = Float[Tensor, "layer head query d_head"]


@dataclass(frozen=True, eq=False)
class ReceiverInputs:
    """The inputs of all later heads, with each sender of a layer replaced in turn."""

    first: int  # the layer that `inputs` begin with
    # query, key and value of each layer, (sender, head, position, width).
    inputs: dict[Input, list[Tensor]]
    logits: Float[Tensor, "sender target d_vocab"]  # (sender, target, d_vocab)

    def of(self, layer: int, name: Input) -> Float[Tensor, "sender head position width"]:
        """Return what the heads of a layer read."""
        return self.inputs[name][layer - self.first]


class PathRuns:
    """The clean run of one text, and runs in which paths carry another run's output.

    `other` is each head's z in the other run; one position stands for all. `logits` (target,
    d_vocab), `z` and `inputs`, by query head, are of the clean run.
    """

    def __init__(self, model: AttentionModel, targets: PredictionTargets, other: Z) -> None:
        self.model, self.targets, self.other = model, targets, other
        with torch.inference_mode(False), torch.no_grad():
            self._pass, self._mlps = ReplayingPass(model, targets), _FrozenMlps(model)
            self._attentions: list[LayerAttention] = []
            probe = Probe(("z", *INPUTS), attentions=self._attentions)
            self.logits = self._pass.logits(1, probe, inside=self._mlps.recorders())[0]
            self.z = torch.stack([layer[0] for layer in probe.kept["z"]])
            self.inputs = {name: self._by_query_head(probe.kept[name]) for name in INPUTS}
            self._replays = self._pass.record(lambda _: None)
        read = (layer for layers in self.inputs.values() for layer in layers)
        n_bytes = sum(layer.numel() * layer.element_size() for layer in read)
        self.n_settings = max(1, min(self._pass.n_settings, MAX_INPUT_BYTES // n_bytes))

    def differs(self, sender: Head) -> bool:
        """Tell whether the sender's z differs at all in the other run."""
        layer, head = sender
        return not torch.equal(self.z[layer, head], self._other_z(layer, [head])[0])

    def receiver_inputs(self, layer: int, heads: Sequence[int], direct: bool) -> ReceiverInputs:
        """Run the text with each of a layer's heads replaced in turn, at most `n_settings`.

        Direct runs freeze all other heads and the MLPs at their clean outputs.
        """
        start, n = layer if self._replays else 0, len(heads)
        frozen = self.z[start:] if direct else None
        change = _PatchedZ(frozen, layer - start, heads, self._other_z(layer, heads))
        probe = Probe(INPUTS, edits=HeadEdits(change=change))
        with torch.inference_mode(False), torch.no_grad():
            mlps = self._mlps.frozen(start, n) if direct else {}
            logits = self._pass.logits(n, probe, start, mlps)
            inputs = {name: self._by_query_head(probe.kept[name]) for name in INPUTS}
        return ReceiverInputs(start, inputs, logits)

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
        probe = Probe((name,), edits=HeadEdits(change=_PatchedZ(other)))
        with torch.inference_mode(False), torch.no_grad():
            self._pass.logits(1, probe, inside=self._mlps.frozen(0, 1))
            read = self._by_query_head(probe.kept[name])[layer][0]
            readers = [(0, head, name) for head in heads]
            change = _PatchedInputs(layer, readers, [read[head] for head in heads])
            return self._pass.logits(1, Probe((), edits=HeadEdits(inputs=change)))

    def gradients(self, behaviour: Behaviour, *, direct: bool) -> Z:
        """Differentiate a behaviour at the clean run by each head's z.

        One pass there and back; direct gradients go straight to the logits, others by all ways.
        """
        leaves = _Gradients(self.z if direct else None)
        mlps = self._mlps.frozen(0, 1) if direct else {}
        probe = Probe((), edits=HeadEdits(change=leaves.change))
        with torch.inference_mode(False), torch.enable_grad():
            return leaves.gradients(behaviour(self._pass.logits(1, probe, inside=mlps)).sum())

    def estimated_effects(
        self, gradient: Z, receivers: ReceiverInputs, layer: int
    ) -> Float[Tensor, "sender head input"]:
        """Estimate the effect of what a sender makes each head of a layer read, float64.

        The head's attention is computed again with what it would read. So the change of its z is
        exact, however flat its softmax is at the clean run, and only what follows is linear.
        """
        each = []
        with torch.inference_mode(False), torch.no_grad():
            for name in INPUTS:
                read = {one: self.inputs[one][layer] for one in INPUTS}
                read[name] = receivers.of(layer, name)
                n = len(read[name])
                tensors = (one.expand(n, -1, -1, -1) for one in read.values())
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

    def _by_query_head(self, layers: list[Tensor] | Tensor) -> list[Tensor]:
        return [repeat_heads(layer, self.model.n_heads) for layer in layers]


# -- what happens to MLPs and heads in these runs -------------------------------------------------


class _FrozenMlps:
    """The MLPs of a model, recorded in one run and frozen in others."""

    def __init__(self, model: AttentionModel) -> None:
        self.model, self._paths = model, mlp_paths(model)
        self._calls: dict[str, list[tuple[Any, Any]]] = {path: [] for path in self._paths}

    def recorders(self) -> dict[str, nn.Module]:
        """Make stand-ins that record each MLP's output."""
        get = self.model.network.get_submodule
        return {path: CallRecorder(get(path), calls=calls) for path, calls in self._calls.items()}

    def frozen(self, start: int, n_settings: int) -> dict[str, nn.Module]:
        """Make stand-ins that give the recorded outputs, whatever their input.

        `start` is the first layer that is run; each row is repeated `n_settings` times in the
        batch.
        """
        calls = sum(map(len, self._calls.values()))
        if calls != len(self._paths):
            raise AttentionUnavailableError(
                f"{self.model.name} keeps the MLPs between its heads in a way that is not known "
                "here, so that a path cannot be cut out of the rest: take a BERT, GPT-2, Llama or "
                "one of their relatives."
            )
        outputs: dict[str, list[Any]] = {}
        for layer, path in enumerate(self._paths):
            turn = self._paths[:layer].count(path)
            if layer >= start:
                given = repeated(self._calls[path][turn][1], n_settings)
                outputs.setdefault(path, []).append(given)
        get = self.model.network.get_submodule
        return {path: OutputProxy(get(path), outputs=iter(one)) for path, one in outputs.items()}


@dataclass
class _PatchedZ:
    """A change of z: heads may be frozen, and in setting i head i of a layer has another z."""

    frozen: Z | None
    layer: int = -1
    heads: Sequence[int] = ()
    z: Float[Tensor, "setting query d_head"] | None = None

    def __call__(self, layer: int, z: Tensor, pattern: Tensor | None, *_: Any) -> Changed:
        if self.frozen is not None:
            z = self.frozen[layer].expand_as(z)
        if layer == self.layer:
            z = z.clone()
            assert self.z is not None  # given with the layer
            z[range(len(self.heads)), list(self.heads)] = self.z
        return z, pattern


@dataclass
class _PatchedInputs:
    """A change of inputs: some heads of a layer read another query, key or value."""

    layer: int
    readers: Sequence[tuple[int, int, Input]]  # setting, head, and which of its inputs
    inputs: Sequence[Float[Tensor, "position width"]]

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        if layer != self.layer:
            return query, key, value
        # Heads that share a key head are given one each, of which only the receiver's changes.
        both = (repeat_heads(shared, query.shape[1]) for shared in (key, value))
        tensors = [one.clone() for one in (query, *both)]
        for name, tensor in zip(INPUTS, tensors, strict=True):
            of_name = [i for i, (_, _, which) in enumerate(self.readers) if which == name]
            if of_name:
                rows, heads, _ = zip(*(self.readers[i] for i in of_name), strict=True)
                tensor[rows, heads] = torch.stack([self.inputs[i] for i in of_name])
        query, key, value = tensors
        return query, key, value


@dataclass
class _Gradients:
    """Zeros added to what every head gives, to differentiate by."""

    frozen: Z | None = None
    added: list[Tensor] = field(default_factory=list)

    def change(self, layer: int, z: Tensor, pattern: Tensor | None, *_: Any) -> Changed:
        z = z if self.frozen is None else self.frozen[layer][None]
        self.added.append(torch.zeros_like(z, requires_grad=True))
        return z + self.added[-1], pattern

    def gradients(self, at: Tensor) -> Z:
        """Differentiate with respect to each layer's zeros, without the batch axis."""
        return torch.stack([gradient[0] for gradient in torch.autograd.grad(at, self.added)])
