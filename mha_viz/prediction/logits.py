"""Logits of a model, [MASK] of masked models, and the losses of a text's own tokens."""

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.engine.run import padded
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from mha_viz.text.tokens import Encoded, encode

# What a network predicts. Language models: the token that follows ("causal") or is hidden
# ("masked"). Whole texts: one "class" of several, each label on its own ("multi_label"), or a
# number ("regression"). "token_class": a class of each token; "answer": where an answer starts and
# ends.
Objective = Literal[
    "causal", "masked", "class", "multi_label", "regression", "token_class", "answer"
]
OF_TEXTS = ("class", "multi_label", "regression")
_PREDICTED = {
    "class": "a class",
    "multi_label": "labels of a text",
    "regression": "a number",
    "token_class": "a class of each token",
    "answer": "where an answer starts and ends",
}
_CLASSIFIERS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForQuestionAnsweringSimple",
)
# Heads of XLNet, XLM and FlauBERT that search for an answer, and LXMERT's that names one.
_SEARCHES = ("SQuADHead", "PoolerAnswerClass", "VisualAnswerHead")


def objective(network: PreTrainedModel) -> Objective | None:
    """Return what the network predicts; None where that is nothing this package knows."""
    name, config = type(network).__name__, network.config
    if name.endswith(("ForCausalLM", "LMHeadModel")):
        return "causal"
    if name == "ElectraForPreTraining":
        return None  # it detects replaced tokens
    if name.endswith(("ForMaskedLM", "ForPreTraining")):
        return "masked"
    if config.is_encoder_decoder:
        return None
    if name.endswith("ForSequenceClassification"):
        return _objective_of_texts(config)
    if name.endswith("ForTokenClassification"):
        return "token_class"
    searches = any(type(module).__name__.endswith(_SEARCHES) for module in network.children())
    return "answer" if name.endswith(_CLASSIFIERS[2:]) and not searches else None


def _objective_of_texts(config: PreTrainedConfig) -> Objective | None:
    """Return what the scores of a ...ForSequenceClassification are, as its training loss has it."""
    problem, n_labels = getattr(config, "problem_type", None), config.num_labels
    if problem == "multi_label_classification":
        return "multi_label"
    if n_labels == 1:
        return None if problem == "single_label_classification" else "regression"
    return None if problem == "regression" else "class"


def logits(
    network: PreTrainedModel,
    texts: Sequence[Encoded],
    probe: Probe | None = None,
    *,
    pad: int = 0,
    last: bool = False,
) -> Float[Tensor, "batch predicted outcome"]:
    """Run one whole forward pass; what stands at padded positions has no meaning.

    Classifiers give other axes than positions and tokens (see `outcome_logits`).

    Gradients flow where torch records them (to the gates of `probe.edits`); call it in inference
    mode otherwise. `last` computes the last position alone, where the family can, in less memory.
    """
    kind = check_predicts(network, classes=True)
    if kind in OF_TEXTS:
        network, pad = _padding_of_classifier(network, texts)
    inputs = padded(network, texts, pad)
    parameters = inspect.signature(network.forward).parameters
    if "use_cache" in parameters:
        inputs["use_cache"] = False
    if last and "logits_to_keep" in parameters:
        inputs["logits_to_keep"] = 1
    if probe is not None:
        inputs["mha_probe"] = probe
    output = network(**inputs)
    if probe is not None and not probe.modules:
        raise AttentionUnavailableError(
            f"{type(network).__name__} did not call our attention function: its heads cannot be "
            "changed here."
        )
    return outcome_logits(kind, output, inputs.get("attention_mask"))


def outcome_logits(
    kind: Objective, output: Any, mask: Int[Tensor, "batch position"] | None = None
) -> Float[Tensor, "row predicted outcome"]:
    """Return what a network gave, so that softmax over the last axis gives probabilities.

    A place and its outcomes are: a token and the vocabulary, or its classes; 0 and the classes of a
    text; a label and no or yes (softmax of 0 and a logit is its sigmoid); start or end of an answer
    and the tokens without padding. Of a regression the only outcome is the number itself.
    """
    if kind == "answer":
        end_logits = torch.stack([output.start_logits, output.end_logits], 1)
        return (
            end_logits if mask is None else end_logits.masked_fill(mask[:, None] == 0, -torch.inf)
        )
    if kind == "multi_label":
        return torch.stack([torch.zeros_like(output.logits), output.logits], -1)
    if kind in OF_TEXTS:
        return output.logits[:, None]
    of_tokens: Tensor | None = getattr(output, "prediction_logits", None)
    return output.logits if of_tokens is None else of_tokens


def _padding_of_classifier(
    network: PreTrainedModel, texts: Sequence[Encoded]
) -> tuple[PreTrainedModel, int]:
    """Return the network and the token that fills up a batch of texts.

    Decoders read the class at the last token that is not the config's padding. Where the config
    names none, a copy of the network takes for it a token that is in none of the texts.
    """
    config = network.config.get_text_config()
    pad = getattr(config, "pad_token_id", None)
    if pad is not None and 0 <= pad < config.vocab_size:
        return network, int(pad)
    if len(texts) == 1:
        return network, 0  # nothing is filled up
    used = {number for text in texts for number in text.input_ids}
    free = next((number for number in range(config.vocab_size) if number not in used), None)
    if free is None:
        raise ArgumentError(
            "The config of this classifier names no padding token, and these texts use the whole "
            "vocabulary: give one text at a time, or set config.pad_token_id."
        )
    twin = copy.copy(network)
    twin.config = copy.deepcopy(network.config)
    twin.config.get_text_config().pad_token_id = free
    return twin, free


def check_predicts(network: PreTrainedModel, *, classes: bool = False) -> Objective:
    """Return the `objective` of a network that predicts tokens; with `classes` of classifiers too.

    Raises AttentionUnavailableError for every other network.
    """
    kind = objective(network)
    name = type(network).__name__
    if kind is not None and (classes or kind not in _PREDICTED):
        return kind
    if kind is not None:
        raise AttentionUnavailableError(
            f"This checkpoint is a {name}: it predicts {_PREDICTED[kind]}, and this needs "
            "predicted tokens. predict, ablate, head_importance and logit_attribution take it."
        )
    raise AttentionUnavailableError(why_no_prediction(network))


def why_no_prediction(network: PreTrainedModel) -> str:
    """Say why a network's predictions cannot be read, and what can be done."""
    name, config = type(network).__name__, network.config
    saved = (name, *(getattr(config, "architectures", None) or ()))
    classifier = next(
        (architecture for architecture in saved if architecture.endswith(_CLASSIFIERS)), None
    )
    if config.is_encoder_decoder and classifier:
        return (
            f"This checkpoint is a {classifier} of an encoder-decoder family: the text goes "
            "through two stacks, with cross attention between them, and here heads of one stack "
            "are changed. Load a model of one stack that was trained for the same task (BERT, "
            "RoBERTa, GPT-2); of this one the attention can be traced, with the text in both "
            "stacks: model.trace(text, text)."
        )
    if config.is_encoder_decoder:
        return (
            f"This checkpoint is an encoder-decoder ({name}); predictions are for causal and "
            "masked language models and for classifiers of one stack. Its attention can be traced "
            "under gates: model.trace(text, text_pair, gates=...)."
        )
    if name.endswith("ForSequenceClassification"):
        return (
            f"This checkpoint is a {name} with problem_type={config.problem_type!r} and "
            f"{config.num_labels} label(s), which is no class of several, no set of labels and no "
            "single number: set problem_type and num_labels in its config to what it was trained "
            "for. Its attention can be traced under gates: model.trace(text, gates=...)."
        )
    if name.endswith(_CLASSIFIERS):
        return (
            f"This checkpoint is a {name}, which searches for answers and gives no logit for each "
            "token's start and end. Its attention can be traced under gates: "
            "model.trace(text, gates=...)."
        )
    return (
        f"This checkpoint is a {name}: it has no head that predicts tokens or classes. Load one "
        "saved with its head (…ForCausalLM, …ForMaskedLM, …ForSequenceClassification); of this one "
        "the attention can be traced under gates: model.trace(text, gates=...)."
    )


Forward = Callable[[Sequence[Encoded]], Tensor]
_NUMBERS_AT_ONCE = 2**24  # logits of a batch of masked texts, and of a piece of a long text


def mask_word_at(model: AttentionModel, text: str, word: int) -> str:
    """Replace one word by the model's [MASK], however many tokens it had.

    Raises ArgumentError: no such word; a tokenizer without offsets or without a mask.

    >>> import mha_viz as mv
    >>> mask_word_at(mv.load("tiny-bert"), "The cat sat", 1)
    'The [MASK] sat'
    """
    mask = mask_token(model)
    encoded = encode(model.tokenizer, text, max_length=model.n_ctx)
    parts = [token for token in encoded.tokens if token.word == word]
    if not parts:
        n = 1 + max(token.word for token in encoded.tokens if token.word is not None)
        raise ArgumentError(f"word must lie in 0..{n - 1}, got {word}.")
    start, end = parts[0].start, parts[-1].end
    if start is None or end is None:
        raise ArgumentError(
            f"The tokenizer of {model.name} does not tell where its tokens stand: mask a token by "
            "predict(..., position=)."
        )
    return encoded.text[:start] + mask + encoded.text[end:]


def mask_token(model: AttentionModel) -> str:
    """Return the spelling of [MASK] in the model's tokenizer; ArgumentError where there is none."""
    mask = model.tokenizer.mask_token
    if mask is None or check_predicts(model.network) != "masked":
        raise ArgumentError(f"{model.name} has no [MASK]: it predicts what follows a token.")
    return str(mask)


def replace_mask(model: AttentionModel, text: str) -> str:
    """Spell a typed [MASK] as a masked model does (RoBERTa: <mask>); a causal one has none."""
    masked = objective(model.network) == "masked" and isinstance(text, str)
    return text.replace("[MASK]", mask_token(model)) if masked else text


def mask_token_at(model: AttentionModel, encoded: Encoded, position: int) -> Encoded:
    """Mask one of a text's encoded tokens; the text stays as it was typed."""
    ids, tokens = list(encoded.input_ids), list(encoded.tokens)
    number = model.tokenizer.mask_token_id
    ids[position] = number
    tokens[position] = replace(tokens[position], text="[MASK]", id=number)
    return replace(encoded, input_ids=ids, tokens=tuple(tokens))


def causal_losses(
    text_logits: Float[Tensor, "position d_vocab"], encoded: Encoded
) -> tuple[float | None, ...]:
    """Return -ln p of each token given those before it, nats; None for the first."""
    if len(encoded.input_ids) == 1:
        return (None,)
    ids = torch.tensor(encoded.input_ids[1:], device=text_logits.device)
    return (None, *_losses(text_logits[:-1], ids).tolist())


def masked_losses(
    model: AttentionModel, encoded: Encoded, forward: Forward
) -> tuple[float | None, ...]:
    """Return -ln p of each token with it alone masked, nats; None for special tokens and masks."""
    mask, n = model.tokenizer.mask_token_id, len(encoded.tokens)
    positions = [
        i
        for i, token in enumerate(encoded.tokens)
        if not token.is_special and encoded.input_ids[i] != mask
    ]
    size = min(32, max(1, _NUMBERS_AT_ONCE // (n * model.d_vocab)))
    losses: list[float | None] = [None] * n
    for start in range(0, len(positions), size):
        batch = positions[start : start + size]
        batch_logits = forward([mask_token_at(model, encoded, i) for i in batch])
        rows = torch.arange(len(batch), device=batch_logits.device)
        at = torch.tensor(batch, device=batch_logits.device)
        ids = torch.tensor([encoded.input_ids[i] for i in batch], device=batch_logits.device)
        for i, loss in zip(batch, _losses(batch_logits[rows, at], ids).tolist(), strict=True):
            losses[i] = loss
    return tuple(losses)


def _losses(
    text_logits: Float[Tensor, "row d_vocab"], ids: Int[Tensor, " row"]
) -> Float[Tensor, " row"]:
    """Return -ln softmax(found)[ids] row by row; never two copies of a long text's logits."""
    rows = max(1, _NUMBERS_AT_ONCE // text_logits.shape[-1])
    pieces = zip(text_logits.split(rows), ids.split(rows), strict=True)
    return torch.cat(
        [torch.nn.functional.cross_entropy(f.float(), i, reduction="none") for f, i in pieces]
    )
