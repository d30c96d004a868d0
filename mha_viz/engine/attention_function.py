"""Our attention inside pretrained models, in the signature that transformers calls."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from mha_viz.core.attention.attention import attention
from mha_viz.core.attention.scoring import Scoring
from mha_viz.engine.probe import HeadEdits, Probe
from mha_viz.errors import AttentionUnavailableError

IMPLEMENTATION = "mha_viz"
# Arguments with which a family changes what attention means, and which our function does not know.
_UNSUPPORTED = ("sinks", "alibi")

# A context variable is seen by the thread that set it and by no other.
_LIBRARY_PROBE: ContextVar[Probe | None] = ContextVar("mha_viz_library_probe", default=None)


@contextmanager
def probing_a_library(probe: Probe) -> Iterator[None]:
    """Lend this thread's calls a probe, where a library runs the model and takes no probe from us.

    The one exception to the probe as an argument: transformers' `generate` refuses arguments that
    it does not know.
    """
    token = _LIBRARY_PROBE.set(probe)
    try:
        yield
    finally:
        _LIBRARY_PROBE.reset(token)


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
    s_aux: Tensor | None = None,
    mha_probe: Probe | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute one layer's attention in the signature that transformers calls.

    Tensors are (batch, head, position, d_head); z goes back as (batch, position, head, d_head).
    Causality comes with the mask, as in the eager implementations; `is_causal` is not looked at.
    """
    for name in _UNSUPPORTED:
        if kwargs.get(name) is not None:
            raise AttentionUnavailableError(
                f"{type(module).__name__} changes its attention by {name!r}, which our attention "
                "function does not know."
            )
    made_of = attention_mask, position_bias
    if attention_mask is not None:
        attention_mask = attention_mask[..., : key.shape[-2]]  # a cache may be longer than used
    bias = attention_mask if position_bias is None else position_bias
    if position_bias is not None and attention_mask is not None:
        bias = position_bias + attention_mask
    probe = _LIBRARY_PROBE.get() if mha_probe is None else mha_probe
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    layer, gates, edits = (0, None, None) if probe is None else probe.next_edits()
    change = None if edits is None else edits.change
    z, query, key, value = _changed_inputs(edits, layer, query, key, value)
    pattern = None
    attend = partial(attention, mask=bias, scale=scale, softcap=softcap, sinks=s_aux)
    if probe is not None and probe.by_rows:
        scoring = Scoring(scale, softcap, s_aux)
        z = probe.attend_by_rows(attend, scoring, (query, key, value), bias, *made_of)
    elif z is None:
        needed = probe is not None and probe.needs_pattern
        out = None if probe is None or query.requires_grad else probe.room(query, key)
        z, pattern = attend(query, key, value, dropout=dropout, need_pattern=needed, out=out)
    if change is not None:
        z, pattern = change(layer, z, pattern, value, bias)
    if gates is not None:
        z = z * gates.to(z)[..., None, None]
    if probe is not None:
        if not probe.by_rows:
            probe.note_mask(bias, *made_of)
        probe.has_sinks |= s_aux is not None
        if probe.attentions is not None:
            probe.attentions.append(attend)
        probe.take(module, scale, pattern=pattern, z=z, query=query, key=key, value=value)
    # Contiguous as from the eager functions, for some families (JetMoE) take a view of it.
    return z.transpose(1, 2).contiguous(), pattern


def _changed_inputs(
    edits: HeadEdits | None, layer: int, *inputs: Tensor
) -> tuple[Tensor | None, Tensor, Tensor, Tensor]:
    """Return z where the edits give it, else None, and query, key and value under the edits."""
    query, key, value = inputs
    changed = inputs if edits is None or edits.inputs is None else edits.inputs(layer, *inputs)
    if isinstance(changed, Tensor):
        return changed, query, key, value
    query, key, value = changed
    return None, query, key, value
