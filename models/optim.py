"""Optimisers: Muon for hidden matrices, AdamW for the rest."""

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

# Jordan et al. 2024: a quintic whose iterates pull every singular value towards 1 within five
# rounds. They end between about 0.7 and 1.2, which is near enough for a step of descent.
QUINTIC = (3.4445, -4.7750, 2.0315)

# Of a rotary model, the parameters that make heads of its first layer look by position. They must
# grow to several times their first size, and there are few of them: they learn faster.
POSITIONAL = ("layers.0.self_attn.q_proj.bias", "layers.0.self_attn.k_proj.bias")


def orthogonalize(matrices: Tensor, rounds: int = 5, dtype: torch.dtype | None = None) -> Tensor:
    """Replace each matrix U S V^T of a stack (..., rows, columns) by nearly U V^T."""
    a, b, c = QUINTIC
    x = matrices.to(dtype) if dtype else matrices
    tall = x.size(-2) > x.size(-1)
    if tall:  # the Gram matrix is then taken on the short side
        x = x.mT
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(rounds):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    result: Tensor = (x.mT if tall else x).to(matrices.dtype)
    return result


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalised before it is applied.

    A group's `parts` says how many matrices lie side by side along the output axis of its
    parameters (3 for a fused q, k, v), each orthogonalised for itself, and `out_dim` which axis
    is the output: 0 in nn.Linear, 1 in the Conv1D of GPT-2.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.02,
        dtype: torch.dtype | None = None,
    ) -> None:
        defaults = dict(lr=lr, momentum=momentum, weight_decay=weight_decay, parts=1, out_dim=0)
        super().__init__(groups, defaults)
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step; matrices of one shape go through the iteration as one stack."""
        stacks: dict[tuple[int, ...], list[tuple[Tensor, Tensor, float]]] = defaultdict(list)
        for group in self.param_groups:
            dim, parts, momentum = group["out_dim"], group["parts"], group["momentum"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - momentum)
                update = p.grad.lerp(buffer, momentum)  # Nesterov
                p.mul_(1 - group["lr"] * group["weight_decay"])
                for target, piece in zip(
                    p.chunk(parts, dim), update.chunk(parts, dim), strict=True
                ):
                    outputs, inputs = piece.size(dim), piece.size(1 - dim)
                    scale = group["lr"] * max(1.0, outputs / inputs) ** 0.5
                    stacks[tuple(piece.shape)].append((target, piece, scale))
        for entries in stacks.values():
            updates = orthogonalize(torch.stack([e[1] for e in entries]), dtype=self.dtype)
            for (target, _, scale), update in zip(entries, updates, strict=True):
                target.sub_(update, alpha=scale)


def build_optimizers(
    model: nn.Module, muon_lr: float, adam_lr: float
) -> list[torch.optim.Optimizer]:
    """Optimisers for a model: `muon_lr` 0 means AdamW for everything."""
    hidden: list[dict[str, Any]] = []
    if muon_lr:
        for name, module in model.named_modules():
            inside = any(layers in name for layers in (".h.", ".encoder.layer.", ".layers."))
            if inside and isinstance(module, nn.Linear | Conv1D):
                parts = 3 if name.endswith("c_attn") else 1
                out_dim = 1 if isinstance(module, Conv1D) else 0
                hidden.append({"params": [module.weight], "parts": parts, "out_dim": out_dim})
    taken = {id(p) for group in hidden for p in group["params"]}
    positional = [p for name, p in model.named_parameters() if name.endswith(POSITIONAL)]
    taken |= {id(p) for p in positional}
    rest = [p for p in model.parameters() if p.requires_grad and id(p) not in taken]
    decay = 0.0 if muon_lr else 0.01
    groups: list[dict[str, Any]] = [
        {"params": [p for p in rest if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
    ]
    if positional:
        groups.append({"params": positional, "weight_decay": 0.0, "lr": 3 * adam_lr})
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(groups, lr=adam_lr, betas=(0.9, 0.98))
    ]
    if hidden:
        # bfloat16 halves the price of the iteration, which is a noisy one anyway
        optimizers.append(Muon(hidden, lr=muon_lr, dtype=torch.bfloat16))
    return optimizers
