"""Edges by hooks on transformers' own eager attention, one text and one edge after the other.

Nothing of mha_viz runs here. A receiver is made to read another stream by hooks: on the norm before
an MLP or the logits, or on the projection of one head's query, key or value.
"""

from functools import partial

import torch

from tests.circuits.plain_paths import EagerNetwork

INPUTS = ("query", "key", "value")


class PlainEdges(EagerNetwork):
    """GPT-2, Llama or GPT-NeoX; receivers are named as in the project."""

    def run(self, ids, reads=None, also=()):
        """Logits (position, d_vocab); `reads` names receivers, and what makes their stream."""
        hooks = [hook for name, make in (reads or {}).items() for hook in self._reading(name, make)]
        with self.hooked([*also, *hooks]):
            return self.network(torch.tensor([ids])).logits[0]

    def _reading(self, receiver, make):
        """Hooks that give one receiver make(the stream)."""
        name = receiver.split()
        if receiver == "logits" or name[0] == "MLP":
            norm = self.final if receiver == "logits" else self.parts[int(name[1])][1]
            return [(norm, lambda _, args: (make(args[0]), *args[1:]), True)]
        layer, head, which = int(name[0][1:]), int(name[1][1:]), INPUTS.index(name[2])
        norm, _, projections, _, _ = self.parts[layer]
        start, module, stream = self.column(which, head), projections[which], []

        def note(_, args):
            stream[:] = [args[0]]

        def project(_, args, output):
            normed = type(norm).forward(norm, make(stream[0]))
            own = type(module).forward(module, normed)
            at = torch.arange(output.shape[-1])
            return torch.where((at >= start) & (at < start + self.d_head), own, output)

        return [(norm, note, True), (module, project, False)]

    def noting(self, written, read):
        """Hooks that put down what every sender writes and what every norm reads."""

        def keep(into, name):
            def note(_, args, output=None):
                into[name] = args[0] if output is None else output

            return note

        def heads(layer, projection):
            weight = projection.weight if hasattr(projection, "nf") else projection.weight.T

            def note(_, args):
                for head in range(self.n_heads):
                    at = slice(head * self.d_head, (head + 1) * self.d_head)
                    written[f"L{layer} H{head}"] = args[0][..., at] @ weight[at]
                read[f"z {layer}"] = args[0]

            return note

        hooks = [(self.final, keep(read, "logits"), True)]
        hooks.append((self.parts[0][0], keep(written, "embedding"), True))
        for i, (norm, mlp_norm, _, projection, mlp) in enumerate(self.parts):
            hooks.append((norm, keep(read, f"L{i}"), True))
            hooks.append((mlp_norm, keep(read, f"MLP {i}"), True))
            hooks.append((projection, heads(i, projection), True))
            hooks.append((mlp, keep(written, f"MLP {i}"), False))
        return hooks

    def noted(self, ids):
        """Note what each sender writes, and what is read before each norm."""
        written, read = {}, {}
        with torch.no_grad():
            self.run(ids, also=self.noting(written, read))
        return written, read

    def gradient(self, ids, receiver, number, embedding=None):
        """Differentiate number(logits) by what one receiver reads."""
        zeros = []

        def make(stream):
            zeros.append(torch.zeros_like(stream, requires_grad=True))
            return stream + zeros[0]

        also = []
        if embedding is not None:  # in place of what enters the first layer
            also.append((self.layers[0], lambda _, args: (embedding, *args[1:]), True))
        with torch.enable_grad():
            total = number(self.run(ids, {receiver: make}, also))
            return torch.autograd.grad(total, zeros[0])[0]

    def z_gradient(self, ids, layer, number):
        """Differentiate number(logits) by the z of all heads of a layer."""
        zeros = []

        def add(_, args):
            zeros.append(torch.zeros_like(args[0], requires_grad=True))
            return args[0] + zeros[0]

        with torch.enable_grad():
            total = number(self.run(ids, also=[(self.parts[layer][3], add, True)]))
            return torch.autograd.grad(total, zeros[0])[0]

    def circuit(self, clean, corrupt, kept, receivers):
        """Logits while every edge (sender, receiver) that is not kept has the corrupt value."""
        other, stream = self.noted(corrupt)
        now = {}

        def make(receiver, _):
            found = stream[receiver if receiver in stream else receiver.split()[0]]
            for sender in other:
                if (sender, receiver) in kept:
                    found = found + now[sender] - other[sender]
            return found

        with torch.no_grad():
            reads = {receiver: partial(make, receiver) for receiver in receivers}
            return self.run(clean, reads, also=self.noting(now, {}))
