"""The passes of path patching: a receiver's input, with a sender's output replaced.

A path goes from a sender to what a receiver reads. First the sender's z is replaced, in a run whose
other heads and MLPs are frozen (direct) or run on (total), and what every later head's query, key
and value become is kept. Then the clean run is made once more with one of these in its place.

The clean run itself is made once: it keeps what each layer and module gave, for the other runs, and
its graph, for the gradients.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.effects.frozen_modules import FrozenModules
from mha_viz.circuits.effects.patched_run import (
    INPUTS,
    Input,
    Patch,
    head_edits,
    patch_cells,
    run_patched,
)
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import EverythingKept, LayerAttention, Probe
from mha_viz.engine.projections import repeat_heads
from mha_viz.prediction.replay import ReplayingPass
from mha_viz.prediction.targets import PredictionTargets

Head = tuple[int, int]
MAX_INPUT_BYTES = 2**28  # of all that later heads read, with one sender after the other replaced
Z = Float[Tensor, "layer head query d_head"]
Reads = Mapping[Input, Float[Tensor, "setting head position width"]]


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
        self._value_gradients: tuple[Z | None, dict[int, Tensor]] = (None, {})
        with torch.inference_mode(False), torch.set_grad_enabled(with_graph):
            edits = head_edits(self._leaves())
            probe = Probe(("z", *INPUTS), edits=edits, attentions=self._attentions)
            recorders = self._frozen.recorders()
            self._replays = self._pass.record(probe=probe, inside=recorders)
            logits = self._pass.plain
            if logits is None:
                logits = self._pass.logits(1, probe, inside=recorders)
        self._graph = [(probe.tensors["z"], logits)] * with_graph
        self.logits = logits[0].detach()
        self.z = torch.stack([layer[0].detach() for layer in probe.tensors["z"]])
        self.inputs = {name: self._by_query_head(probe.tensors[name]) for name in INPUTS}
        read = (layer for layers in self.inputs.values() for layer in layers)
        n_bytes = sum(layer.numel() * layer.element_size() for layer in read)
        self.n_settings = max(1, min(self._pass.n_settings, MAX_INPUT_BYTES // n_bytes))

    def differs(self, sender: Head) -> bool:
        """Tell whether the sender's z differs at all in the other run."""
        layer, head = sender
        return not torch.equal(self.z[layer, head], self._other_z(layer)[head])

    def receiver_inputs(
        self,
        senders: Sequence[Head],
        direct: bool,
        readers: Sequence[int] = (),
        to_logits: bool = True,
        together: bool = False,
    ) -> tuple[Mapping[int, Reads], Float[Tensor, "setting target d_vocab"] | None]:
        """Run the text with each sender replaced in turn, at most `n_settings`; or all at once.

        Senders in turn are heads of one layer. Direct runs freeze all other heads and the MLPs at
        their clean outputs: of the layers behind the sender's they compute norms, queries, keys and
        values alone. Returns query, key and value of the layers `readers`, (setting, head,
        position, width), and the logits; without `to_logits` a run ends with the last reader, and
        there are none.
        """
        layers = {layer for layer, _ in senders}
        start, n = min(layers) if self._replays else 0, 1 if together else len(senders)
        inputs: dict[int, Reads] = {}
        mask = torch.zeros(n, *self.z.shape[:2], dtype=torch.bool)
        for i, head in enumerate(senders):
            mask[(0 if together else i, *head)] = True

        def read(layer: int, *tensors: Tensor) -> tuple[Tensor, ...] | Tensor:
            if layer in readers:
                inputs[layer] = dict(zip(INPUTS, self._by_query_head(tensors), strict=True))
                if layer == max(readers) and not to_logits:
                    raise EverythingKept
            return self.z[layer].expand(n, -1, -1, -1) if direct else tensors

        every, logits = range(start, self.model.n_layers), None
        patches = [Patch(layer, "inputs", partial(read, layer)) for layer in every]
        for layer in layers:
            other, at = self._other_z(layer)[None, None], mask[:, None, layer, :, None]
            patches.append(patch_cells(layer, "z", other, at))
        with torch.inference_mode(False), torch.no_grad(), suppress(EverythingKept):
            patches += self._frozen.patches(start, n, layers) if direct else []
            logits = run_patched(self._pass, n, patches, start)
        return inputs, logits

    def patch_receiver(
        self, layer: int, readers: Sequence[tuple[int, Input]], read: Sequence[Tensor]
    ) -> Float[Tensor, "setting target d_vocab"]:
        """Compute the clean run's logits, with one head's input replaced in each setting.

        `readers` names the head and its input, and `read` gives what replaces it, (position,
        width).
        """
        heads, names = zip(*readers, strict=True)
        at = torch.nn.functional.one_hot(torch.tensor(heads), self.model.n_heads).bool()
        patches = []
        for name in dict.fromkeys(names):
            is_input = [other == name for other in names]
            some = read[names.index(name)]  # for other settings; widths of inputs may differ
            value = torch.stack(
                [tensor if is_it else some for tensor, is_it in zip(read, is_input, strict=True)]
            )
            mask = (at & torch.tensor(is_input)[:, None])[:, None, :, None]
            patches.append(patch_cells(layer, name, value[:, None, None], mask))
        return self._patched(len(at), layer, patches)

    def patch_paths(
        self, senders: Sequence[Head], layer: int, heads: Sequence[int], name: Input
    ) -> Float[Tensor, "1 target d_vocab"]:
        """Compute the clean run's logits, with the direct paths between several heads patched.

        The receivers are heads of a layer later than all senders; one input of each changes.
        """
        inputs, _ = self.receiver_inputs(senders, True, [layer], to_logits=False, together=True)
        mask = torch.zeros(1, 1, self.model.n_heads, 1, dtype=torch.bool)
        mask[:, :, list(heads)] = True
        patch = patch_cells(layer, name, inputs[layer][name][None], mask)
        return self._patched(1, layer, [patch])

    def gradients(
        self, behaviour: Callable[[Tensor], Tensor], *, direct: bool, first: int = 0
    ) -> Z:
        """Differentiate a behaviour at the clean run by each head's z, from layer `first` on.

        Direct gradients go straight to the logits, others by all ways: back through the clean run,
        whose graph serves once. Those of layers before `first` are 0.
        """
        with torch.inference_mode(False), torch.enable_grad():
            if self._graph and not direct:
                z, logits = self._graph.pop()
            else:
                probe, patches = Probe(("z",)), self._leaves()
                if direct:
                    patches += self._frozen.patches(0, 1)
                    patches += [
                        Patch(layer, "inputs", lambda *_, z=z[None]: z)
                        for layer, z in enumerate(self.z)
                    ]
                logits = run_patched(self._pass, 1, patches, probe=probe)
                z = probe.tensors["z"]
            slopes = torch.autograd.grad(behaviour(logits).sum(), list(z[first:]))
        return torch.cat([torch.zeros_like(layer) for layer in z[:first]] + [*slopes])

    def estimated_effects(
        self, gradient: Z, reads: Reads, layer: int
    ) -> Float[Tensor, "sender head input"]:
        """Estimate the effect of what a sender makes each head of a layer read, float64.

        The head's attention is computed again with the query or key that it would read. So the
        change of its z is exact, however flat its softmax is at the clean run, and only what
        follows is linear. In its values z is linear itself: their gradient says as much.
        """
        each = []
        clean = {name: self.inputs[name][layer] for name in INPUTS}
        with torch.inference_mode(False), torch.no_grad():
            for name in INPUTS[:2]:
                read = clean | {name: reads[name]}
                tensors = (tensor.expand(len(reads[name]), -1, -1, -1) for tensor in read.values())
                z = self._attentions[layer].z(*tensors)
                each.append(((z - self.z[layer]) * gradient[layer]).double().sum((-1, -2)))
            moved = reads["value"] - clean["value"]
            each.append((moved * self._value_gradient(gradient, layer)).double().sum((-1, -2)))
        return torch.stack(each, -1)

    def _value_gradient(self, gradient: Z, layer: int) -> Float[Tensor, "1 head key d_head"]:
        """Differentiate by a layer's values what has this gradient by its z; kept for one such."""
        if self._value_gradients[0] is not gradient:
            self._value_gradients = gradient, {}
        by_layer = self._value_gradients[1]
        if layer not in by_layer:
            with torch.inference_mode(False), torch.enable_grad():
                query, key, value = (self.inputs[name][layer].detach() for name in INPUTS)
                value.requires_grad_()
                z = self._attentions[layer].z(query, key, value)
                (by_layer[layer],) = torch.autograd.grad(z, value, gradient[layer][None].to(z))
        return by_layer[layer]

    def estimated_logit_effects(self, gradient: Z, layer: int) -> Float[Tensor, " head"]:
        """Estimate to first order each head's effect on the logits, float64."""
        change = self._other_z(layer) - self.z[layer]
        return (change * gradient[layer]).double().sum((-1, -2))

    def _leaves(self) -> list[Patch]:
        """Make patches that change nothing, and by which a run can be differentiated at each z."""
        add_zero = partial(torch.add, torch.zeros((), requires_grad=True))
        return [Patch(layer, "z", add_zero) for layer in range(self.model.n_layers)]

    def _patched(self, n_settings: int, layer: int, patches: Sequence[Patch]) -> Tensor:
        with torch.inference_mode(False), torch.no_grad():
            return run_patched(self._pass, n_settings, patches, layer if self._replays else 0)

    def _other_z(self, layer: int) -> Float[Tensor, "head query d_head"]:
        return self.other[layer].to(self.z).expand_as(self.z[layer])

    def _by_query_head(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        return [repeat_heads(tensor.detach(), self.model.n_heads) for tensor in tensors]
