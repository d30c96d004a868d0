"""The modules that hold W_Q, W_K, W_V and W_O in each family, and how to read them as ours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from transformers.pytorch_utils import Conv1D

from mha_viz.core.attention.multi_head import AttentionWeights
from mha_viz.engine.probe import Layers
from mha_viz.engine.run import Run
from mha_viz.errors import NotKeptError

# Paths relative to the attention module that calls our function. A leading "^" is its parent,
# where BERT and its relatives keep the output projection.
_QUERY = ("query", "q_proj", "q_lin", "q", "self.query", "attn.q")
_KEY = ("key", "k_proj", "k_lin", "k")
_VALUE = ("value", "v_proj", "v_lin", "v")
_FUSED = ("c_attn", "Wqkv", "query_key_value", "qkv_proj")
_OUTPUT = ("o_proj", "out_proj", "out_lin", "c_proj", "Wo", "wo", "o", "dense", "^output.dense")


@dataclass(eq=False)
class LayerProjections:
    """The projections around one attention module, whatever its family calls them."""

    # `module`, `parent`: the module that called our function, and the one above it
    module: nn.Module
    parent: nn.Module | None
    # `n_heads`, `n_kv_heads`: query heads and key heads
    n_heads: int
    n_kv_heads: int
    scale: float  # what the layer multiplies query . key with

    @classmethod
    def of(cls, network: nn.Module, run: Run) -> "list[LayerProjections]":
        """Return those of every layer of a run; none where our function did not run."""
        above: dict[nn.Module, nn.Module] = {}
        for parent in network.modules():
            for child in parent.children():
                above.setdefault(child, parent)  # the first one, where a module is shared

        def of_layer(i: int, module: nn.Module) -> "LayerProjections":
            n_heads, n_kv_heads = run.pattern[i].shape[1], run.tensors["key"][i].shape[1]
            return cls(module, above.get(module), n_heads, n_kv_heads, run.scale[i])

        return [of_layer(i, module) for i, module in enumerate(run.modules)]

    def find(self, names: tuple[str, ...]) -> nn.Linear | Conv1D | None:
        """Return the first projection under one of these paths; None where there is none."""
        for name in names:
            module: object = self.parent if name.startswith("^") else self.module
            for step in name.lstrip("^").split("."):
                module = getattr(module, step, None)
            if isinstance(module, nn.Linear | Conv1D) and is_plain(module.weight):
                return module
        return None

    def readers(self) -> tuple[nn.Linear | Conv1D, ...]:
        """Return the modules that make queries, keys and values.

        One module stands there three times where projections are fused. Each maps
        (batch, token, d_in) to (batch, token, d_out).
        """
        separate = [self.find(names) for names in (_QUERY, _KEY, _VALUE)]
        candidates = separate if None not in separate else [self.find(_FUSED)] * 3
        modules = tuple(module for module in candidates if module is not None)
        if len(modules) < 3:
            raise self._unknown()
        return modules

    @property
    def is_by_head(self) -> bool:
        """Return whether one module makes each head's query, key and value side by side (NeoX)."""
        return self.find(("query_key_value",)) is not None

    def modules(self) -> tuple[nn.Module, nn.Module, nn.Module]:
        """Return the modules that make queries, keys and the output."""
        query, key, _ = self.readers()
        output = self.find_output()
        if output is None:
            raise self._unknown()
        return query, key, output

    def find_output(self) -> nn.Linear | Conv1D | None:
        """Return the projection of W_O; None where it is not known."""
        return self.find(_OUTPUT)

    def output(self) -> Tensor | None:
        """Return W_O as (head, d_head, d_model), a view of the model's own weights."""
        projection = self.find_output()
        if projection is None:
            return None
        matrix = in_out(projection)
        if matrix.shape[0] % self.n_heads:
            return None
        return matrix.unflatten(0, (self.n_heads, -1))

    def all(self) -> AttentionWeights:
        """Return all four matrices and their biases, split by heads."""
        output = self.find_output()
        if output is None:
            raise self._unknown()
        parts: dict[str, Any] = {}
        heads = (self.n_heads, self.n_kv_heads, self.n_kv_heads)
        for name, n, (matrix, bias) in zip("QKV", heads, self._query_key_value(), strict=True):
            # (d_model, n * d_head)
            parts[f"W_{name}"] = matrix.unflatten(1, (n, -1)).transpose(0, 1)
            parts[f"b_{name}"] = None if bias is None else bias.unflatten(0, (n, -1))
        W_O = in_out(output).unflatten(0, (self.n_heads, -1))
        return AttentionWeights(**parts, W_O=W_O, b_O=_bias(output), scale=self.scale)

    def for_query_heads(self, name: str) -> Tensor:
        """Return one of `MATRICES` as (n_heads, in, out), key heads repeated."""
        weight: Tensor = getattr(self.all(), name).to("cpu", torch.float32)
        return repeat_heads(weight[None], self.n_heads)[0]

    def _unknown(self) -> NotKeptError:
        return NotKeptError(
            f"{type(self.module).__name__} keeps its projections quantised, or under names that "
            "are not known here; W_Q, W_K, W_V and W_O can be read from BERT, GPT-2, Llama and "
            "most of their relatives."
        )

    def _query_key_value(self) -> tuple[tuple[Tensor, Tensor | None], ...]:
        separate = [self.find(names) for names in (_QUERY, _KEY, _VALUE)]
        if all(projection is not None for projection in separate):
            return tuple((in_out(p), _bias(p)) for p in separate if p is not None)
        fused = self.find(_FUSED)
        if fused is None or self.is_by_head:  # only the plain [q | k | v] layout is read here
            raise self._unknown()
        matrix, bias = in_out(fused), _bias(fused)
        d_head = matrix.shape[1] // (self.n_heads + 2 * self.n_kv_heads)
        widths = [n * d_head for n in (self.n_heads, self.n_kv_heads, self.n_kv_heads)]
        biases = (None,) * 3 if bias is None else bias.split(widths)
        return tuple(zip(matrix.split(widths, dim=1), biases, strict=True))


def is_plain(weight: Any) -> bool:
    """Return whether weights are floating point numbers, and no codes that stand for some."""
    plain = isinstance(weight, Tensor) and not is_traceable_wrapper_subclass(weight)
    return plain and weight.is_floating_point()


def in_out(projection: nn.Linear | Conv1D) -> Tensor:
    """Return the weights as (d_in, d_out): Conv1D stores them so, Linear transposed."""
    weight: Tensor = projection.weight.detach()
    return weight if isinstance(projection, Conv1D) else weight.T


def _bias(projection: nn.Linear | Conv1D) -> Tensor | None:
    bias: Tensor | None = projection.bias
    return None if bias is None else bias.detach()


def repeat_heads(tensor: Tensor, n_heads: int) -> Tensor:
    """Repeat the key heads of (layer, n_kv_heads, ...) for the query heads that share them."""
    group = n_heads // tensor.shape[1]
    return tensor if group == 1 else tensor.repeat_interleave(group, dim=1)


def float32(layers: Layers, row: int, *axes: slice, device: torch.device | str = "cpu") -> Tensor:
    """Return one text of a batch: (layer, head, ...), float32 on a device, contiguous.

    What is all that already is not copied. Layers may be on several devices.
    """
    index: tuple[Any, ...] = (row, slice(None), *axes)
    if isinstance(layers, Tensor):
        part = layers[(slice(None), *index)]
    else:
        part = stacked([layer[index] for layer in layers], torch.device(device))
    return part.to(device, torch.float32).contiguous()


def stacked(
    layers: Sequence[Tensor], device: torch.device, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return layers as one tensor, where they are or else, in that dtype, on the device.

    To the processor each layer is copied straight to its place. From a graphics card that place is
    page-locked, which the card writes to by itself, several times as fast.
    """
    if all(source.device == device for source in layers):
        return torch.stack(list(layers))
    of_card = device.type == "cpu" and layers[0].is_cuda
    shape = (len(layers), *layers[0].shape)
    target = torch.empty(shape, dtype=dtype, device=device, pin_memory=of_card)
    for row, source in zip(target, layers, strict=True):
        row.copy_(source, non_blocking=of_card)
    for card in {source.device for source in layers if of_card}:
        torch.cuda.synchronize(card)
    return target
