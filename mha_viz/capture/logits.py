"""What a model predicts: encoded texts in, a number for every word of the vocabulary out.

Knows transformers' models with a prediction head and our probe; must not know text or screens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from mha_viz.capture.attention_function import Probe
from mha_viz.capture.run import _inputs
from mha_viz.capture.tokens import Encoded
from mha_viz.errors import AttentionUnavailableError

Objective = Literal["causal", "masked"]


def objective(network: PreTrainedModel) -> Objective | None:
    """How the network predicts tokens: the "causal" next one, the "masked" one, or None: not."""
    name = type(network).__name__
    if name.endswith(("ForCausalLM", "LMHeadModel")):
        return "causal"
    return "masked" if name.endswith(("ForMaskedLM", "ForPreTraining")) else None


def logits(
    network: PreTrainedModel, texts: Sequence[Encoded], probe: Probe | None = None, *, pad: int = 0
) -> Float[Tensor, "batch position d_vocab"]:
    """One forward pass to its end; padded positions hold numbers that mean nothing.

    Gradients flow where torch records them (to `probe.gates`); call it in inference mode else.

    Raises:
        AttentionUnavailableError: the checkpoint has no prediction head.
    """
    if objective(network) is None:
        raise AttentionUnavailableError(
            f"This checkpoint is a {type(network).__name__}: it has no head that predicts tokens. "
            "Load one saved with its language-model head (…ForCausalLM, …ForMaskedLM)."
        )
    inputs = _inputs(network, texts, pad)
    if probe is not None:
        inputs["mha_probe"] = probe
    found: Tensor = network(**inputs).logits
    return found
