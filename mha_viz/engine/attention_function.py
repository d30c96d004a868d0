"""Our attention inside pretrained models, in the signature that transformers calls."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from mha_viz.core.attention.dot_product import z as mix
from mha_viz.core.attention.scoring import Scoring
from mha_viz.engine.probe import HeadEdits, LayerAttention, Probe
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
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute one layer's attention in the signature that transformers calls.

    Tensors are (batch, head, position, d_head); z goes back as (batch, position, head, d_head).
    Causality comes with the mask, as in the eager implementations; `is_causal` is not looked at.
    """
    given_probe = options.get("mha_probe")
    probe: Probe | None = _LIBRARY_PROBE.get() if given_probe is None else given_probe
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    bias, *made_of = _bias(module, attention_mask, options, key.shape[-2])
    attend = LayerAttention(Scoring(scale, options.get("softcap"), options.get("s_aux")), bias)
    layer, gates, edits = (0, None, None) if probe is None else probe.next_edits()
    z, query, key, value = _changed_inputs(edits, layer, query, key, value)
    pattern = None
    if probe is not None and probe.by_rows:
        z = probe.attend_by_rows(attend, (query, key, value), *made_of)
    elif z is None:
        attend.check(query, key, value)
        if probe is not None and probe.needs_pattern:
            room = None if query.requires_grad else probe.room(query, key)
            pattern = attend.weights(query, key, room)
            z = mix(F.dropout(pattern, dropout) if dropout else pattern, value)
        else:
            z = attend.z(query, key, value, dropout=dropout)
    if edits is not None and edits.change is not None:
        z, pattern = edits.change(layer, z, pattern, value, bias)
    if gates is not None:
        z = z * gates.to(z)[..., None, None]
    if probe is not None:
        if not probe.by_rows:
            probe.note_mask(bias, *made_of)
        probe.has_sinks |= attend.scoring.sinks is not None
        if probe.attentions is not None:
            probe.attentions.append(attend)
        probe.take(module, scale, pattern=pattern, z=z, query=query, key=key, value=value)
    # Contiguous as from the eager functions, for some families (JetMoE) take a view of it.
    return z.transpose(1, 2).contiguous(), pattern


def _bias(
    module: nn.Module, mask: Tensor | None, options: Mapping[str, Any], n_keys: int
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return what is added to the scores, and the mask and position bias that it is made of."""
    for name in _UNSUPPORTED:
        if options.get(name) is not None:
            raise AttentionUnavailableError(
                f"{type(module).__name__} changes its attention by {name!r}, which our attention "
                "function does not know."
            )
    position_bias = options.get("position_bias")
    cut = None if mask is None else mask[..., :n_keys]  # a cache may be longer than used
    if position_bias is None or cut is None:
        return cut if position_bias is None else position_bias, mask, position_bias
    return position_bias + cut, mask, position_bias


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
