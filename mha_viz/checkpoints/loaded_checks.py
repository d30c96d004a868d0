"""Checks of a loaded network, and notes on what they mean for its attention."""

from collections.abc import Sequence
from math import isfinite, isnan

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mha_viz.engine.projections import is_plain
from mha_viz.errors import BrokenCheckpointError


def check_names(
    network: PreTrainedModel, name: str, missing: set[str], unknown: Sequence[str]
) -> None:
    """Refuse weights that mostly have other names than the network's: it would be random."""
    parameters = {name for name, _ in network.base_model.named_parameters()}
    prefix = "" if network.base_model is network else f"{network.base_model_prefix}."
    n_missing = sum(f"{prefix}{name}" in missing for name in parameters)
    if unknown and n_missing > len(parameters) / 2:
        raise BrokenCheckpointError(
            f"{n_missing} of {len(parameters)} weights of {name} have other names in the file than "
            f"in the {network.config.model_type} family (such as {unknown[0]}): they would be "
            "random. Save the network itself with save_pretrained, without what was put around it "
            "for its training (of DistributedDataParallel or Lightning)."
        )


def missing_notes(network: PreTrainedModel, missing: set[str]) -> list[str]:
    """Say what weights missing from the file mean for someone who looks at attention."""
    parameters = {name for name, _ in network.named_parameters()}  # buffers are computed anew
    computed = {
        f"{name}.weight"
        for name, module in network.named_modules()
        if "Sinusoidal" in type(module).__name__
    }
    missing = missing - computed
    poolers = {name for name in parameters if "pooler" in name.split(".")}
    new = sorted((missing & parameters) - poolers)
    prefix = "" if network.base_model is network else f"{network.base_model_prefix}."
    body = [name for name in new if name.startswith(prefix)]
    head = [name for name in new if not name.startswith(prefix)]
    if type(network).__name__.endswith("ForSequenceClassification"):
        head += sorted(missing & poolers)  # its class is read behind the pooler
    notes = []
    if body:
        notes.append(
            f"{len(body)} weight tensor(s) are missing from the checkpoint and were newly "
            f"initialised at random (such as {body[0]}): heads that depend on them mean nothing."
        )
    if head:
        notes.append(
            f"The checkpoint has no weights for the layer that predicts ({head[0]}): "
            "its predictions mean nothing. Attention does not depend on them."
        )
    return notes


def check_stacks(network: PreTrainedModel, name: str) -> None:
    """Check that what its config calls an encoder-decoder has both stacks."""
    body = network.base_model
    if network.config.is_encoder_decoder and body in (body.get_encoder(), body.get_decoder()):
        raise BrokenCheckpointError(
            f"config.json of {name} says that it is an encoder-decoder, but the "
            f"{network.config.model_type} family is one stack: set is_encoder_decoder to false."
        )


def check_finite(network: PreTrainedModel, name: str) -> None:
    """Check that all weights are finite numbers, and that nothing else is NaN.

    What is no weight may be infinite: Gemma 4 stores limits of activations that are none.
    """
    weights = {name for name, _ in network.named_parameters(remove_duplicate=False)}
    for key, weight in network.state_dict().items():
        # The extremes of numbers with NaN are NaN; isfinite would take copies of the weight.
        # Quantised parts keep dtypes among their numbers.
        plain = is_plain(weight) and weight.numel()
        is_right = isfinite if key in weights else lambda end: not isnan(end)
        if plain and not all(is_right(end) for end in weight.aminmax()):
            raise BrokenCheckpointError(
                f"{name} has NaN or infinite numbers in {key}: every picture of it would be "
                "meaningless. The training has diverged, or the file is damaged."
            )


def tokenizer_notes(
    tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig
) -> tuple[str, ...]:
    """Return a note where a tokenizer has more tokens than its model; none otherwise."""
    size = getattr(config.get_text_config(), "vocab_size", None)
    if not isinstance(size, int) or len(tokenizer) <= size:
        return ()
    return (
        f"The tokenizer knows {len(tokenizer):,} tokens but the model only {size:,}: they do "
        "not belong together. Text with an unknown token is refused.",
    )


def language_notes(network: PreTrainedModel) -> tuple[str, ...]:
    """Choose a language for a network that reads none without (X-MOD); return a note about it."""
    languages = getattr(network.config, "languages", None)
    choose = getattr(network, "set_default_language", None)
    if choose is None or not languages or network.config.default_language is not None:
        return ()
    choose(languages[0])
    return (
        f"The {network.config.model_type} family reads a text in a language that it is told: "
        f"“{languages[0]}”, the first in its config, is chosen. For another: "
        "model.network.set_default_language(...).",
    )
