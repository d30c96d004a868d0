"""A network whose logits are linear in what it adds up, by hooks on transformers' eager attention.

Queries and keys, the scales of norms, the outputs of MLPs and the gates of a prediction head keep
what they were in a first pass; values and all sums respond.
"""

import torch
from torch import Tensor, nn

from mha_viz.engine.model import AttentionModel
from tests.circuits.plain_paths import PlainPaths


class FrozenNetwork(PlainPaths):
    """The network, frozen; and what one pass through it had, under gradients.

    Attributes:
        pattern: (layer, head, query, key). logits: (position, d_vocab).
        streams: what enters each layer. z: what W_O was given. mlp: the outputs of MLPs.
    """

    def __init__(self, model: AttentionModel, ids: list[int]) -> None:
        super().__init__(model.network)
        self.memory: dict[nn.Module, Tensor] = {}
        self.mlp, self.streams, self.z = ([None] * len(self.parts) for _ in range(3))
        for name, module in self.network.named_modules():
            if type(module).__name__.endswith("Norm"):
                module.register_forward_hook(self._norm)
            elif name.endswith("transform_act_fn"):
                module.register_forward_hook(self._gate)
        seeing = []
        for i, (_, _, projections, output, mlp) in enumerate(self.parts):
            for module in set(projections):
                module.register_forward_hook(self._projection(module is projections[2]))
            seeing.append((self.layers[i], self._see(self.streams, i), True))
            seeing.append((output, self._see(self.z, i), True))
            seeing.append((mlp, self._mlp(i), False))
        with torch.no_grad():
            first = self.network(torch.tensor([ids]), output_attentions=True)
            mlps = self.noted(ids)[1]
        self.memory |= zip(self.mlps, mlps, strict=True)
        self.pattern = torch.stack(first.attentions)[:, 0]
        with self.hooked(seeing):
            self.logits = self.network(torch.tensor([ids])).logits[0]
        assert torch.allclose(self.logits, first.logits[0], atol=1e-10)

    def contributions(self, position: int, token: int, versus: int) -> dict[str, list[Tensor]]:
        """Sources (head, query, key), MLPs and the streams before it (position,), by layer."""
        number = self.logits[position, token] - self.logits[position, versus]
        by_z, by_mlp, by_stream = (
            torch.autograd.grad(number, tensors, retain_graph=True)
            for tensors in (self.z, self.mlp, self.streams)
        )
        z = [each.reshape(-1, self.n_heads, self.d_head).transpose(0, 1) for each in by_z]
        values = map(self._values, range(len(self.parts)))
        products = [torch.einsum("hqd,hkd->hqk", *pair) for pair in zip(z, values, strict=True)]
        return {
            "sources": [(A * x).detach() for A, x in zip(self.pattern, products, strict=True)],
            "mlp": list(map(_shares, self.mlp, by_mlp)),
            "stream": list(map(_shares, self.streams, by_stream)),
        }

    def _values(self, layer: int) -> Tensor:
        """Values (head, position, d_head) without the norm's bias and without their own."""
        norm, _, projections, _, _ = self.parts[layer]
        x, last = self.streams[layer].detach(), projections[2]
        if norm is not None:
            x = norm(x) - getattr(norm, "bias", 0)
        values = x @ (last.weight if hasattr(last, "nf") else last.weight.T)
        return torch.stack(
            [values[0, :, self._value_columns(head)] for head in range(self.n_heads)]
        )

    def _value_columns(self, head: int) -> slice:
        start = self.column(2, head)
        return slice(start, start + self.d_head)

    # -- hooks -------------------------------------------------------------------------------------

    def _norm(self, module, args, output):
        x, centred = args[0], isinstance(module, nn.LayerNorm)
        x = x - x.mean(-1, keepdim=True) if centred else x
        eps = module.eps if centred else module.variance_epsilon
        scale = (x.square().mean(-1, keepdim=True) + eps).sqrt()
        y = x / self.memory.setdefault(module, scale) * module.weight
        return y + module.bias if centred else y

    def _gate(self, module, args, output):
        return args[0] * self.memory.setdefault(module, output / args[0])

    def _projection(self, is_of_values):
        """Queries and keys as they were; of a fused projection its values respond."""

        def hook(module, args, output):
            changed = self.memory.setdefault(module, output).clone()
            for head in range(self.n_heads) if is_of_values else ():
                columns = self._value_columns(head)
                changed[..., columns] = output[..., columns]
            return changed

        return hook

    def _mlp(self, layer):
        def hook(module, args, output):
            self.mlp[layer] = self.memory[module].clone().requires_grad_()
            return self.mlp[layer]

        return hook

    def _see(self, tensors, layer):
        def hook(module, args):
            tensors[layer] = args[0]

        return hook


def _shares(tensor: Tensor, gradient: Tensor) -> Tensor:
    return (tensor * gradient).sum(-1).flatten().detach()
