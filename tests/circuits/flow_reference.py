"""Information flow by plain loops over a network's own modules, for a few families."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mha_viz.engine.model import AttentionModel


@dataclass
class Parts:
    """A sum at every token: the whole, and each part by its name."""

    total: Tensor
    parts: dict[object, Tensor]


def heads(A: Tensor, x: Tensor, W_V: Tensor, W_O: Tensor) -> dict[object, Tensor]:
    """A[h, i, j] x_j W_V W_O for each head and source token; matrices are (in, out), all heads."""
    n_heads, n, _ = A.shape
    wide = W_O.shape[0] // n_heads
    group = n_heads * wide // W_V.shape[1]
    found: dict[object, Tensor] = {}
    for h in range(n_heads):
        mine, shared = slice(h * wide, (h + 1) * wide), h // group
        v = x @ W_V[:, shared * wide : (shared + 1) * wide]
        for j in range(n):
            found[h, j] = torch.stack([A[h, i, j] * (v[j] @ W_O[mine]) for i in range(n)])
    return found


def gpt2(model: AttentionModel, x: Tensor, layer: int, A: Tensor) -> list[Parts]:
    block = model.network.h[layer]
    d = x.shape[-1]
    W_V, b_V = block.attn.c_attn.weight[:, 2 * d :], block.attn.c_attn.bias[2 * d :]
    W_O, b_O = block.attn.c_proj.weight, block.attn.c_proj.bias
    parts = heads(A, block.ln_1(x), W_V, W_O)
    parts |= {"residual": x, "bias": (b_V @ W_O + b_O).expand_as(x)}
    mid = sum(parts.values())
    mlp = block.mlp(block.ln_2(mid))
    return [Parts(mid, parts), Parts(mid + mlp, {"residual": mid, "MLP": mlp})]


def llama(model: AttentionModel, x: Tensor, layer: int, A: Tensor) -> list[Parts]:
    block = model.network.layers[layer]
    attention = block.self_attn
    normed = block.input_layernorm(x)
    parts = heads(A, normed, attention.v_proj.weight.T, attention.o_proj.weight.T)
    parts["residual"] = x
    mid = sum(parts.values())
    mlp = block.mlp(block.post_attention_layernorm(mid))
    return [Parts(mid, parts), Parts(mid + mlp, {"residual": mid, "MLP": mlp})]


def gpt_neox(model: AttentionModel, x: Tensor, layer: int, A: Tensor) -> list[Parts]:
    block, n_heads = model.network.layers[layer], len(A)
    fused, dense = block.attention.query_key_value, block.attention.dense
    weight = fused.weight.unflatten(0, (n_heads, 3, -1))[:, 2].flatten(0, 1).T
    b_V = fused.bias.unflatten(0, (n_heads, 3, -1))[:, 2].flatten()
    parts = heads(A, block.input_layernorm(x), weight, dense.weight.T)
    parts["residual"] = x
    parts["bias"] = (b_V @ dense.weight.T + dense.bias).expand_as(x)
    parts["MLP"] = block.mlp(block.post_attention_layernorm(x))
    return [Parts(sum(parts.values()), parts)]


def through(norm: torch.nn.LayerNorm, parts: dict[object, Tensor]) -> dict[object, Tensor]:
    """Pass the parts of an input through a LayerNorm, with the scale of their sum."""
    whole = sum(parts.values())
    scale = (whole.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    found = {
        name: (part - part.mean(-1, keepdim=True)) / scale * norm.weight
        for name, part in parts.items()
    }
    return found | {"bias": found.get("bias", torch.zeros_like(whole)) + norm.bias}


def bert(model: AttentionModel, x: Tensor, layer: int, A: Tensor) -> list[Parts]:
    block = model.network.encoder.layer[layer]
    value, output = block.attention.self.value, block.attention.output
    W_O = output.dense.weight.T
    parts = heads(A, x, value.weight.T, W_O)
    parts |= {"residual": x, "bias": (value.bias @ W_O + output.dense.bias).expand_as(x)}
    parts = through(output.LayerNorm, parts)
    mid = sum(parts.values())
    mlp = block.output.dense(block.intermediate(mid))
    above = through(block.output.LayerNorm, {"residual": mid, "MLP": mlp})
    return [Parts(mid, parts), Parts(sum(above.values()), above)]


FAMILIES: dict[str, Callable[..., list[Parts]]] = {
    "gpt2": gpt2,
    "llama": llama,
    "gpt_neox": gpt_neox,
    "bert": bert,
}


@torch.no_grad()
def sums(model: AttentionModel, text: str) -> list[list[Parts]]:
    """Every sum of every layer, as the network itself would have it."""
    entering: list[Tensor] = []
    find = {"gpt2": lambda n: n.h, "bert": lambda n: n.encoder.layer}
    blocks = find.get(model.name, lambda n: n.layers)(model.network)
    hooks = [
        block.register_forward_pre_hook(lambda _, args: entering.append(args[0][0].clone()))
        for block in blocks
    ]
    pattern = model.trace(text, keep=("pattern",)).pattern
    for hook in hooks:
        hook.remove()
    x = entering[0]
    found = []
    for layer, A in enumerate(pattern.to(x.dtype)):
        found.append(FAMILIES[model.name](model, x, layer, A))
        x = found[-1][-1].total
        if layer + 1 < len(entering):
            assert (x - entering[layer + 1]).abs().max() <= 1e-4 * x.abs().max()
    return found


def share_by_loops(sum_: Parts, at: int, measure: str) -> dict[object, float]:
    """The shares of a sum's parts at one token, number by number."""
    y = sum_.total[at].tolist()
    size = {}
    for name, part in sum_.parts.items():
        z = part[at].tolist()
        if measure == "norm":
            size[name] = sum(a * a for a in z) ** 0.5
        else:
            away = sum(abs(b - a) for a, b in zip(z, y, strict=True))
            size[name] = max(0.0, sum(map(abs, y)) - away)
    if not sum(size.values()):
        return share_by_loops(sum_, at, "norm")
    return {name: value / sum(size.values()) for name, value in size.items()}
