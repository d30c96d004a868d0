"""Contributions to a logit difference by autograd, on transformers' own eager network.

Hooks freeze it: queries and keys, the scales of norms, the outputs of MLPs and the gates of a
prediction head keep what they were in a first pass; values and all sums respond.
"""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mha_viz.engine.model import AttentionModel


@dataclass(frozen=True)
class Names:
    """Paths of a family's modules; those of a layer stand below its block."""

    blocks: str
    query_key_value: tuple[str, ...]  # one that is fused, or three
    output: str
    mlp: str  # its output is the MLP's
    reads: str | None  # the norm before attention


FAMILIES = {
    "gpt2": Names("transformer.h", ("attn.c_attn",), "attn.c_proj", "mlp", "ln_1"),
    "llama": Names(
        "model.layers",
        ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        *("self_attn.o_proj", "mlp", "input_layernorm"),
    ),
    "gpt_neox": Names(
        "gpt_neox.layers",
        ("attention.query_key_value",),
        *("attention.dense", "mlp", "input_layernorm"),
    ),
    "bert": Names(
        "bert.encoder.layer",
        ("attention.self.query", "attention.self.key", "attention.self.value"),
        *("attention.output.dense", "output.dense", None),
    ),
}


class FrozenNetwork:
    """The network, frozen; and what one pass through it had, under gradients.

    Attributes:
        entering: the stream before each block, (position, d_model).
        z: what W_O was given, by head, (head, position, d_head); values likewise, without biases.
        mlp: outputs of MLPs. pattern: (layer, head, query, key). logits: (position, d_vocab).
    """

    def __init__(self, name: str, model: AttentionModel, ids: list[int]) -> None:
        self.names, self.n_heads = FAMILIES[name], model.n_heads
        self.network = copy.deepcopy(model.network).eval()
        self.network.set_attn_implementation("eager")
        self.memory: dict[str, Tensor] = {}
        self.freezing = False
        self.seen: dict[str, Tensor] = {}
        for path, module in self.network.named_modules():
            if type(module).__name__.endswith("Norm"):
                module.register_forward_hook(self._norm(path))
            elif path.endswith("transform_act_fn"):
                module.register_forward_hook(self._gate(path))
        self.blocks = list(self.network.get_submodule(self.names.blocks))
        for i, block in enumerate(self.blocks):
            block.register_forward_pre_hook(self._entering(i), with_kwargs=True)
            parts = self.names.query_key_value
            for part in parts:
                fixed = part not in parts[-1:] or len(parts) == 1
                block.get_submodule(part).register_forward_hook(
                    self._projection(f"{i}.{part}", i, fixed)
                )
            block.get_submodule(self.names.output).register_forward_pre_hook(self._z(i))
            block.get_submodule(self.names.mlp).register_forward_hook(self._mlp(i))
        ids_of = torch.tensor([ids])
        with torch.no_grad():
            first = self.network(input_ids=ids_of, output_attentions=True)
        self.pattern = torch.stack(first.attentions)[:, 0]
        self.freezing = True
        self.logits = self.network(input_ids=ids_of).logits[0]
        assert torch.allclose(self.logits, first.logits[0], atol=1e-10)
        layers = range(len(self.blocks))
        self.entering, self.mlp = (
            [self.seen[f"{what} {i}"] for i in layers] for what in ("x", "m")
        )
        self.z = [self._by_head(self.seen[f"z {i}"]) for i in layers]
        self.values = [self._by_head(self._values(i)) for i in layers]

    def contributions(self, position: int, token: int, versus: int) -> dict[str, list[Tensor]]:
        """By layer: sources (head, query, key), MLPs and the streams before it (position,)."""
        number = self.logits[position, token] - self.logits[position, versus]
        layers = range(len(self.blocks))
        z, m, x = ([self.seen[f"{what} {i}"] for i in layers] for what in "zmx")
        by_z, by_m, by_x = (
            torch.autograd.grad(number, one, retain_graph=True) for one in (z, m, x)
        )
        found: dict[str, list[Tensor]] = {"sources": [], "mlp": [], "stream": []}
        for i in layers:
            gradient = self._by_head(by_z[i].reshape(z[i].shape))
            values = self.values[i].repeat_interleave(self.n_heads // len(self.values[i]), 0)
            share = self.pattern[i] * torch.einsum("hqd,hkd->hqk", gradient, values)
            found["sources"].append(share.detach())
            found["mlp"].append((by_m[i] * m[i]).sum(-1).flatten().detach())
            found["stream"].append((by_x[i] * x[i]).sum(-1).flatten().detach())
        return found

    def _by_head(self, tensor: Tensor) -> Tensor:
        """(..., position, head * d_head) as (head, position, d_head)."""
        d_head = self.seen["z 0"].shape[-1] // self.n_heads
        return tensor.reshape(-1, tensor.shape[-1]).unflatten(-1, (-1, d_head)).transpose(0, 1)

    def _values(self, layer: int) -> Tensor:
        """W_V of the stream that a layer's norm gave, without its bias and without W_V's."""
        block = self.blocks[layer]
        x = self.seen[f"x {layer}"].detach()
        if self.names.reads is not None:
            norm = block.get_submodule(self.names.reads)
            bias = getattr(norm, "bias", None)
            x = norm(x) - (0 if bias is None else bias)
        last = block.get_submodule(self.names.query_key_value[-1])
        weight = last.weight if not isinstance(last, nn.Linear) else last.weight.T
        if len(self.names.query_key_value) == 1:
            d = x.shape[-1]
            fused = (x @ weight)[..., : 3 * d]
            return fused[..., 2 * d :] if not isinstance(last, nn.Linear) else self._neox(fused, 2)
        return x @ weight

    def _neox(self, fused: Tensor, which: int) -> Tensor:
        return fused.unflatten(-1, (self.n_heads, 3, -1))[..., which, :].flatten(-2)

    # -- hooks -------------------------------------------------------------------------------------

    def _norm(self, path):
        def hook(module, args, output):
            x = args[0]
            centred = isinstance(module, nn.LayerNorm)
            shape = x - x.mean(-1, keepdim=True) if centred else x
            if not self.freezing:
                eps = module.eps if centred else module.variance_epsilon
                self.memory[path] = (shape.square().mean(-1, keepdim=True) + eps).sqrt()
            y = shape / self.memory[path] * module.weight
            return y + module.bias if centred else y

        return hook

    def _gate(self, path):
        def hook(module, args, output):
            if not self.freezing:
                self.memory[path] = output / args[0]
            return args[0] * self.memory[path]

        return hook

    def _entering(self, layer):
        def hook(module, args, kwargs):
            x = args[0] if args else kwargs["hidden_states"]
            self.seen[f"x {layer}"] = x

        return hook

    def _projection(self, path, layer, fixed):
        """Queries and keys as they were; of a fused projection its values respond."""

        def hook(module, args, output):
            if not self.freezing:
                self.memory[path] = output.detach().clone()
                return None
            if not fixed:
                return None
            before = self.memory[path]
            if len(self.names.query_key_value) > 1:
                return before
            if not isinstance(module, nn.Linear):
                d = output.shape[-1] // 3
                return torch.cat([before[..., : 2 * d], output[..., 2 * d :]], -1)
            old, new = (one.unflatten(-1, (self.n_heads, 3, -1)) for one in (before, output))
            return torch.cat([old[..., :2, :], new[..., 2:, :]], -2).flatten(-3)

        return hook

    def _z(self, layer):
        def hook(module, args):
            self.seen[f"z {layer}"] = args[0]

        return hook

    def _mlp(self, layer):
        def hook(module, args, output):
            if not self.freezing:
                self.memory[f"mlp {layer}"] = output.detach().clone()
                return None
            found = self.memory[f"mlp {layer}"].clone().requires_grad_()
            self.seen[f"m {layer}"] = found
            return found

        return hook
