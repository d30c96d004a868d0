"""Logits of a model: encoded texts in, a number for every token of the vocabulary out."""

import inspect
from collections.abc import Sequence
from typing import Literal

from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from mha_viz.engine.probe import Probe
from mha_viz.engine.run import padded
from mha_viz.errors import AttentionUnavailableError
from mha_viz.text.tokens import Encoded

Objective = Literal["causal", "masked"]


def objective(network: PreTrainedModel) -> Objective | None:
    """Return what the network predicts: "causal" (the next token), "masked", or None."""
    name = type(network).__name__
    if name.endswith(("ForCausalLM", "LMHeadModel")):
        return "causal"
    if name == "ElectraForPreTraining":
        return None  # it detects replaced tokens
    return "masked" if name.endswith(("ForMaskedLM", "ForPreTraining")) else None


def logits(
    network: PreTrainedModel,
    texts: Sequence[Encoded],
    probe: Probe | None = None,
    *,
    pad: int = 0,
    last: bool = False,
) -> Float[Tensor, "batch position d_vocab"]:
    """Run one whole forward pass; what stands at padded positions has no meaning.

    Gradients flow where torch records them (to the gates of `probe.edits`); call it in inference
    mode otherwise. `last` computes the last position alone, where the family can, in less memory.
    """
    check_predicts(network)
    inputs = padded(network, texts, pad)
    known = inspect.signature(network.forward).parameters
    if "use_cache" in known:
        inputs["use_cache"] = False
    if last and "logits_to_keep" in known:
        inputs["logits_to_keep"] = 1
    if probe is not None:
        inputs["mha_probe"] = probe
    output = network(**inputs)
    if probe is not None and not probe.modules:
        raise AttentionUnavailableError(
            f"{type(network).__name__} did not call our attention function: its heads cannot be "
            "changed here."
        )
    found: Tensor | None = getattr(output, "prediction_logits", None)
    return output.logits if found is None else found


def check_predicts(network: PreTrainedModel) -> Objective:
    """Return the `objective` of a network that predicts tokens."""
    found = objective(network)
    if found is not None:
        return found
    name = type(network).__name__
    if network.config.is_encoder_decoder:
        raise AttentionUnavailableError(
            f"This checkpoint is an encoder-decoder ({name}); predictions are for causal and "
            "masked language models. Its attention can be traced under gates: "
            "model.trace(text, text_pair, gates=...)."
        )
    raise AttentionUnavailableError(
        f"This checkpoint is a {name}: it has no head that predicts tokens. Load one saved with "
        "its language-model head (…ForCausalLM, …ForMaskedLM); of this one the attention can be "
        "traced under gates: model.trace(text, gates=...)."
    )
