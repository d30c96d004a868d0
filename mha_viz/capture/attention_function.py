"""Our attention inside pretrained models, and the probe that tells one run what to leave behind.

Knows transformers' attention interface and our core; must not know files, text or screens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from mha_viz.core.attention import attention
from mha_viz.errors import AttentionUnavailableError

IMPLEMENTATION = "mha_viz"
KEEPABLE = ("pattern", "z", "query", "key")
# Arguments with which a family changes what attention means, and which our function does not know.
_UNSUPPORTED = ("s_aux", "sinks", "alibi")


@dataclass
class Probe:
    """What one forward pass leaves behind. It travels with the call, never on the shared model.

    Layers are numbered by call order: some families have no layer index, and ALBERT runs the
    same layer again and again.

    Args:
        keep: which of "pattern", "z", "query", "key" to keep.
        on_layer: called with the number of layers done so far; an exception it raises abandons
            the run, which is how a page stops work that nobody waits for any more.
    """

    keep: Sequence[str] = ("pattern",)
    on_layer: Callable[[int], None] | None = None
    kept: dict[str, list[Tensor]] = field(default_factory=dict)
    scale: list[float] = field(default_factory=list)
    modules: list[nn.Module] = field(default_factory=list)

    def take(self, module: nn.Module, scale: float, **tensors: Tensor | None) -> None:
        """Keep one layer's tensors, each (batch, head, ...)."""
        for name in self.keep:
            tensor = tensors[name]
            assert tensor is not None  # `_attend` asks for the pattern whenever it is to be kept
            self.kept.setdefault(name, []).append(tensor)
        self.modules.append(module)
        self.scale.append(scale)
        if self.on_layer is not None:
            self.on_layer(len(self.modules))


def register() -> None:
    """Make our function known to transformers; a model chooses it by name."""
    AttentionInterface.register(IMPLEMENTATION, _attend)
    # Without a mask function of that name GPT-2 and Llama would silently see the future.
    AttentionMaskInterface.register(IMPLEMENTATION, eager_mask)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    mha_probe: Probe | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """One layer's attention in the signature that transformers calls.

    Tensors are (batch, head, position, d_head); z goes back as (batch, position, head, d_head).
    Causality comes with the mask, as in the eager implementations; `is_causal` is not looked at.
    """
    for name in _UNSUPPORTED:
        if kwargs.get(name) is not None:
            raise AttentionUnavailableError(
                f"{type(module).__name__} changes its attention by {name!r}, which our attention "
                "function does not know."
            )
    if attention_mask is not None:
        attention_mask = attention_mask[..., : key.shape[-2]]  # a cache may be longer than used
    bias = attention_mask if position_bias is None else _sum(position_bias, attention_mask)
    probe = mha_probe
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    z, pattern = attention(
        query,
        key,
        value,
        mask=bias,
        scale=scale,
        softcap=softcap,
        dropout=dropout,
        need_pattern=probe is not None and "pattern" in probe.keep,
    )
    if probe is not None:
        probe.take(module, scale, pattern=pattern, z=z, query=query, key=key)
    return z.transpose(1, 2), pattern


def _sum(position_bias: Tensor, attention_mask: Tensor | None) -> Tensor:
    return position_bias if attention_mask is None else position_bias + attention_mask
