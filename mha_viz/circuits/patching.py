"""The passes of path patching: what a head reads when another one says what it says elsewhere.

A path goes from a sender to what a receiver reads. First the sender's z is replaced, in a run
whose other heads and MLPs are held (direct) or run on (total), and what every later head's query,
key and value become is kept. Then the clean run is made once more with one of these in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.behaviour import Behaviour
from mha_viz.circuits.held import HeldMlps
from mha_viz.engine.attention_function import HeadEdits, LayerAttention, Probe
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.projections import repeat_heads
from mha_viz.prediction.replay import ReplayingPass
from mha_viz.prediction.targets import PredictionTargets

Head = tuple[int, int]
Input = Literal["query", "key", "value"]
INPUTS: tuple[Input, ...] = ("query", "key", "value")
MAX_RECEIVED_BYTES = 2**28  # of all that later heads read, with one sender after the other replaced
Z = Float[Tensor, "layer head query d_head"]


@dataclass(frozen=True, eq=False)
class Received:
    """What a sender's other z makes of everything later, for each sender of a layer.

    Args:
        first: the layer that `inputs` begin with.
        inputs: query, key and value of each layer, (sender, head, position, width).
        logits: (sender, target, d_vocab).
    """

    first: int
    inputs: dict[Input, list[Tensor]]
    logits: Float[Tensor, "sender target d_vocab"]

    def of(self, layer: int, name: Input) -> Float[Tensor, "sender head position width"]:
        """What the heads of a layer read."""
        return self.inputs[name][layer - self.first]


class PathRuns:
    """The clean run of one text, and the runs in which paths carry what another run says.

    Args:
        model: a causal or masked model of one stack, through our attention function.
        targets: the clean text and where it is asked.
        other: each head's z in the other run; one position stands for all.

    Attributes:
        logits: (target, d_vocab), of the clean run.
        z, inputs: of the clean run; the queries, keys and values by query head.
    """

    def __init__(self, model: AttentionModel, targets: PredictionTargets, other: Z) -> None:
        self.model, self.other = model, other
        with torch.inference_mode(False), torch.no_grad():
            self._pass, self._mlps = ReplayingPass(model, targets), HeldMlps(model)
            self._attentions: list[LayerAttention] = []
            probe = Probe(("z", *INPUTS), attentions=self._attentions)
            self.logits = self._pass.logits(1, probe, inside=self._mlps.listening())[0]
            self.z = torch.stack([layer[0] for layer in probe.kept["z"]])
            self.inputs = {name: self._by_query_head(probe.kept[name]) for name in INPUTS}
            self._replays = self._pass.record(lambda _: None)
        read = (layer for layers in self.inputs.values() for layer in layers)
        n_bytes = sum(layer.numel() * layer.element_size() for layer in read)
        self.n_settings = max(1, min(self._pass.n_settings, MAX_RECEIVED_BYTES // n_bytes))

    def says_otherwise(self, sender: Head) -> bool:
        """Whether the sender's z differs at all in the other run."""
        layer, head = sender
        return not torch.equal(self.z[layer, head], self._other_z(layer, [head])[0])

    def received(self, layer: int, heads: Sequence[int], direct: bool) -> Received:
        """What later heads read, and the logits, with each of a layer's heads in turn replaced.

        Args:
            layer: of the senders.
            heads: the senders, one setting of the pass for each; `n_settings` at most.
            direct: hold all other heads and the MLPs at what they gave in the clean run.
        """
        start, n = layer if self._replays else 0, len(heads)
        change = _Replaced(layer - start, heads, self._other_z(layer, heads))
        if direct:
            change.held = self.z[start:]
        probe = Probe(INPUTS, edits=HeadEdits(change=change))
        with torch.inference_mode(False), torch.no_grad():
            held = self._mlps.held(start, n) if direct else {}
            logits = self._pass.logits(n, probe, start, held)
            inputs = {name: self._by_query_head(probe.kept[name]) for name in INPUTS}
        return Received(start, inputs, logits)

    def answered(
        self, layer: int, readers: Sequence[tuple[int, Input]], read: Sequence[Tensor]
    ) -> Float[Tensor, "setting target d_vocab"]:
        """The clean run's logits, with what one head of a layer reads replaced in each setting.

        Args:
            layer: of the receivers.
            readers: of each setting the head and which of its inputs; `n_settings` at most.
            read: the input, (position, width).
        """
        start = layer if self._replays else 0
        change = _ReadInstead(layer - start, readers, read)
        with torch.inference_mode(False), torch.no_grad():
            return self._pass.logits(len(readers), Probe((), edits=HeadEdits(inputs=change)), start)

    def cut(
        self, senders: Sequence[Head], layer: int, heads: Sequence[int], name: Input
    ) -> Float[Tensor, "setting target d_vocab"]:
        """The clean run's logits, with the paths from several senders to several heads cut at once.

        Args:
            senders: whose z is the other run's; all other heads and the MLPs are held.
            layer: of the receivers, later than all senders.
            heads: the receivers.
            name: which of their inputs hears of it.
        """
        other = self.z.clone()
        for at, head in senders:
            other[at, head] = self._other_z(at, [head])[0]
        probe = Probe((name,), edits=HeadEdits(change=_AllGiven(other)))
        with torch.inference_mode(False), torch.no_grad():
            self._pass.logits(1, probe, inside=self._mlps.held(0, 1))
            read = self._by_query_head(probe.kept[name])[layer][0]
            edits = HeadEdits(inputs=_AllReadInstead(layer, heads, name, read))
            return self._pass.logits(1, Probe((), edits=edits))

    def slopes(self, behaviour: Behaviour, *, direct: bool) -> Z:
        """Differentiate a behaviour at the clean run: one pass there and back.

        Args:
            behaviour: of the clean run.
            direct: on the way straight to the logits; else by all ways.

        Returns:
            With respect to each head's z, (layer, head, query, d_head).
        """
        leaves = _Leaves(self.z if direct else None)
        held = self._mlps.held(0, 1) if direct else {}
        probe = Probe((), edits=HeadEdits(change=leaves.change))
        with torch.inference_mode(False), torch.enable_grad():
            return leaves.slopes(behaviour(self._pass.logits(1, probe, inside=held)).sum())

    def expected(
        self, slope: Z, received: Received, layer: int
    ) -> Float[Tensor, "sender head input"]:
        """Estimate the effect of what a sender makes each head of a layer read, float64.

        The head's attention is computed again with what it would read. So the change of its z is
        exact, however flat its softmax is at the clean run, and only what follows is linear.

        Args:
            slope: of the behaviour by all ways, from `slopes`.
            received: from senders of one layer.
            layer: of the receivers.
        """
        each = []
        with torch.inference_mode(False), torch.no_grad():
            for name in INPUTS:
                read = {one: self.inputs[one][layer] for one in INPUTS}
                read[name] = received.of(layer, name)
                n = len(read[name])
                tensors = (one.expand(n, -1, -1, -1) for one in read.values())
                z, _ = self._attentions[layer](*tensors, need_pattern=False)
                each.append(((z - self.z[layer]) * slope[layer]).double().sum((-1, -2)))
        return torch.stack(each, -1)

    def expected_at_logits(self, slope: Z, layer: int) -> Float[Tensor, " head"]:
        """First-order effect of each head's other z on the logits, float64."""
        heads = range(self.z.shape[1])
        change = self._other_z(layer, heads) - self.z[layer]
        return (change * slope[layer]).double().sum((-1, -2))

    def _other_z(self, layer: int, heads: Sequence[int]) -> Float[Tensor, "head query d_head"]:
        return self.other[layer, list(heads)].to(self.z).expand(-1, self.z.shape[2], -1)

    def _by_query_head(self, layers: list[Tensor] | Tensor) -> list[Tensor]:
        return [repeat_heads(layer, self.model.n_heads) for layer in layers]


# -- what happens to heads in these runs -----------------------------------------------------------


@dataclass
class _Replaced:
    """In setting i head i of a layer gives another z; all other heads may be held."""

    layer: int
    heads: Sequence[int]
    z: Float[Tensor, "setting query d_head"]
    held: Z | None = None

    def __call__(
        self, layer: int, z: Tensor, pattern: Tensor | None, value: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        if self.held is not None:
            z = self.held[layer].expand_as(z)
        if layer == self.layer:
            z = z.clone()
            z[range(len(self.heads)), list(self.heads)] = self.z
        return z, pattern


@dataclass
class _ReadInstead:
    """In setting i one head of a layer reads another query, key or value."""

    layer: int
    readers: Sequence[tuple[int, Input]]
    read: Sequence[Tensor]

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        if layer != self.layer:
            return query, key, value
        # Heads that share a key head are given one each, of which only the receiver's changes.
        both = (repeat_heads(shared, query.shape[1]) for shared in (key, value))
        tensors = [one.clone() for one in (query, *both)]
        for name, tensor in zip(INPUTS, tensors, strict=True):
            rows = [row for row, (_, which) in enumerate(self.readers) if which == name]
            if rows:
                heads = [self.readers[row][0] for row in rows]
                tensor[rows, heads] = torch.stack([self.read[row] for row in rows])
        query, key, value = tensors
        return query, key, value


@dataclass
class _AllGiven:
    """Every head gives the z that is written here."""

    z: Z

    def __call__(
        self, layer: int, z: Tensor, pattern: Tensor | None, value: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        return self.z[layer].expand_as(z), pattern


@dataclass
class _AllReadInstead:
    """Several heads of a layer read another query, key or value at once."""

    layer: int
    heads: Sequence[int]
    name: Input
    read: Float[Tensor, "head position width"]

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        if layer != self.layer:
            return query, key, value
        n = query.shape[1]
        tensors = [query.clone(), repeat_heads(key, n).clone(), repeat_heads(value, n).clone()]
        heads = list(self.heads)
        tensors[INPUTS.index(self.name)][:, heads] = self.read[heads]
        query, key, value = tensors
        return query, key, value


@dataclass
class _Leaves:
    """Zeros added to what every head gives, for the derivatives at that place."""

    held: Z | None = None
    added: list[Tensor] = field(default_factory=list)

    def change(
        self, layer: int, z: Tensor, pattern: Tensor | None, value: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        z = z if self.held is None else self.held[layer][None]
        self.added.append(torch.zeros_like(z, requires_grad=True))
        return z + self.added[-1], pattern

    def slopes(self, at: Tensor) -> Z:
        """Of each layer, without the batch axis."""
        return torch.stack([slope[0] for slope in torch.autograd.grad(at, self.added)])
