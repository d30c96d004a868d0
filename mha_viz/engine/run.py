"""One forward pass: encoded texts in, the tensors of each stack of layers out."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mha_viz.core.copies import to_device
from mha_viz.engine.attention_function import IMPLEMENTATION
from mha_viz.engine.probe import KEEPABLE, EverythingKept, Layers, LayerTensors, Probe, ScoredLayer
from mha_viz.errors import ArgumentError, AttentionUnavailableError, OutOfMemoryError
from mha_viz.text.encoding import attending
from mha_viz.text.tokens import Encoded

Backend = Literal["mha_viz", "eager"]
Batch = Sequence[Encoded]  # of texts
Inputs = dict[str, Any]  # of a network, by name
OnLayer = Callable[[int], None]
Reduce = Callable[[LayerTensors], None]
REDUCIBLE = ("tiles", "metrics")  # of the weights of a long text, made while they are there
PARTS = ("encoder", "decoder", "cross")  # of a model with two stacks; others have one, "self"
_PER_LAYER = ("scale", "modules", "allowed", "scored")  # lists of a `Run`
INSTEAD = "Choose a BERT, GPT-2, Llama, T5 or another softmax-attention model."


@dataclass
class Run:
    """The result of one forward pass for one stack of layers; tensors are (batch, head, ...).

    `allowed` is which keys each layer let a query see, (batch or 1, query, key), None for all; it
    is empty where the family computed its attention itself. `has_sinks` says that rows sum to less
    than 1, since heads have learned a sink, which is not a key. `scored` stands for pattern and
    mask after a run by rows.
    """

    tensors: dict[str, Layers]
    hidden: Tensor | None  # None where the run ended when everything was kept
    scale: list[float] = field(default_factory=list)
    modules: list[nn.Module] = field(default_factory=list)
    allowed: list[Tensor | None] = field(default_factory=list)
    has_sinks: bool = False
    scored: list[ScoredLayer] = field(default_factory=list)

    @property
    def pattern(self) -> Layers:
        """The attention weights of each layer."""
        return self.tensors["pattern"]


def check_keep(keep: Sequence[str]) -> Sequence[str]:
    """Check the names of what a run is to keep; "all" stands for all of `KEEPABLE`."""
    if keep == "all":
        return KEEPABLE
    keepable = (*KEEPABLE, *REDUCIBLE)
    unknown = [name for name in keep if name not in keepable]
    if unknown or isinstance(keep, str) or "pattern" not in keep:
        raise ArgumentError(
            f'keep must be "all", or hold "pattern" and any of {", ".join(keepable[1:])}; '
            f"got {keep!r}."
        )
    return tuple(dict.fromkeys(keep))  # what is named twice is kept once


@torch.inference_mode()
def run(
    network: PreTrainedModel,
    backend: Backend,
    sources: Batch,
    targets: Batch | None = None,
    *,
    pad: int = 0,
    probe: Probe | None = None,
) -> dict[str, Run]:
    """Run a batch once and return what each part left behind. Changes nothing on the network.

    The network is in evaluation mode, with our attention ("mha_viz") or its own ("eager"), which
    has the pattern alone whatever the probe asks for; `pad` is the token that fills shorter texts
    up, hidden by the mask. `check_own` says whether a family's own weights mean anything.
    """
    inputs, probe = padded(network, sources, pad), probe or Probe()
    with within_memory(network):
        if targets is None:
            return {"self": _one_stack(network.base_model, backend, inputs, probe)}
        decoder_inputs = padded(network, targets, pad)
        if backend == "eager":
            return _two_stacks_eager(network.base_model, inputs, decoder_inputs)
        return _two_stacks(network.base_model, inputs, decoder_inputs, probe)


@torch.inference_mode()
def run_first_stack(
    network: PreTrainedModel, backend: Backend, sources: Batch, *, pad: int = 0, probe: Probe
) -> Run:
    """Run the only stack or an encoder alone, no further than its last attention; as `run`."""
    inputs = padded(network, sources, pad)
    stack = network.base_model
    if network.config.is_encoder_decoder:
        stack = network.get_encoder()
        inputs.pop("token_type_ids", None)
    with within_memory(network):
        return _one_stack(stack, backend, inputs, probe)


@contextmanager
def within_memory(network: PreTrainedModel) -> Iterator[None]:
    """Turn a lack of memory in a forward pass into an error that says what to do."""
    try:
        yield
    except RuntimeError as error:
        # CUDA's own exception is a RuntimeError, too; the CPU's allocator has none of its own.
        if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
            raise OutOfMemoryError(
                f"The model ran out of memory on {network.device} for this text: shorten it, or "
                "load the model on the CPU or in bfloat16."
            ) from error
        raise


def check_own(runs: dict[str, Run], sources: Batch, targets: Batch | None, family: str) -> None:
    """Check that every part's own weights are weights of its queries and keys."""
    for part, of_part in runs.items():
        check_own_weights(of_part.pattern, *attending(part, sources, targets), family)


def _one_stack(network: Any, backend: Backend, inputs: Inputs, probe: Probe) -> Run:
    if "use_cache" in inspect.signature(network.forward).parameters:
        inputs["use_cache"] = False
    if backend == "eager":
        output = network(**inputs, output_attentions=True)
        return Run(own_weights(output.attentions, network), _result(output))
    try:
        hidden = _result(network(**inputs, mha_probe=probe))
    except EverythingKept:
        hidden = None
    return _left_by(probe, hidden, network)


def _two_stacks(
    network: Any, inputs: Inputs, decoder_inputs: Inputs, probe: Probe
) -> dict[str, Run]:
    """Run the encoder by itself, then the decoder, which attends to itself and to it."""
    inputs.pop("token_type_ids", None)
    first, on_layer = replace(probe, parts=PARTS[:1]), probe.on_layer
    encoded = network.get_encoder()(**inputs, mha_probe=first)
    encoder = _left_by(first, encoded.last_hidden_state, network)
    n_before = len(first.modules)
    counted = None if on_layer is None else lambda n: on_layer(n_before + n)
    second = replace(probe, parts=PARTS[1:], on_layer=counted)
    arguments = _decoder_arguments(inputs, decoder_inputs)
    output = network(encoder_outputs=encoded, **arguments, mha_probe=second)
    both = _left_by(second, _result(output), network)
    if len(second.modules) % 2:
        raise AttentionUnavailableError(
            f"{network.config.model_type}: the decoder's layers do not alternate self and cross "
            "attention."
        )
    decoder, cross = (
        replace(
            both,
            tensors={name: layers[offset::2] for name, layers in both.tensors.items()},
            **{name: getattr(both, name)[offset::2] for name in _PER_LAYER},
        )
        for offset in (0, 1)
    )
    return dict(zip(PARTS, (encoder, decoder, cross), strict=True))


def _two_stacks_eager(network: Any, inputs: Inputs, decoder_inputs: Inputs) -> dict[str, Run]:
    inputs.pop("token_type_ids", None)
    output = network(**inputs | _decoder_arguments(inputs, decoder_inputs), output_attentions=True)
    lists = (output.encoder_attentions, output.decoder_attentions, output.cross_attentions)
    return {
        part: Run(own_weights(patterns, network), _result(output))
        for part, patterns in zip(PARTS, lists, strict=True)
    }


def _decoder_arguments(inputs: Inputs, decoder_inputs: Inputs) -> Inputs:
    return {
        "decoder_input_ids": decoder_inputs["input_ids"],
        "decoder_attention_mask": decoder_inputs.get("attention_mask"),
        "attention_mask": inputs.get("attention_mask"),
        "use_cache": False,
    }


def _left_by(probe: Probe, hidden: Tensor | None, network: Any) -> Run:
    if not probe.modules:
        raise AttentionUnavailableError(
            f"{network.config.model_type} did not call our attention function for any layer"
        )
    if len(probe.modules) < probe.n_layers:
        raise AttentionUnavailableError(
            f"{network.config.model_type} called our attention function for {len(probe.modules)} "
            f"of its {probe.n_layers} layers only"
        )
    about = (probe.scale, probe.modules, probe.allowed, probe.has_sinks, probe.scored)
    return Run(probe.tensors, hidden, *about)


def padded(network: PreTrainedModel, texts: Batch, pad: int) -> Inputs:
    """Return a network's inputs: right-padded tensors, with a mask only where there is padding."""
    shape = len(texts), max(len(text.input_ids) for text in texts)
    ids = torch.full(shape, pad, dtype=torch.long)
    types, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, text in enumerate(texts):
        n = len(text.input_ids)
        ids[row, :n] = torch.tensor(text.input_ids)
        mask[row, :n] = 1
        if text.token_type_ids is not None:
            types[row, :n] = torch.tensor(text.token_type_ids)
    inputs = {"input_ids": to_device(ids, network.device)}
    has_types = any(text.token_type_ids is not None for text in texts)
    if has_types and getattr(network.config.get_text_config(), "type_vocab_size", None):
        inputs["token_type_ids"] = to_device(types, network.device)
    if not bool(mask.all()):
        inputs["attention_mask"] = to_device(mask, network.device)
    return inputs


def _result(output: Any) -> Tensor:
    """Return the final hidden states, or logits where the body is the head itself, as in T5."""
    hidden: Tensor | None = getattr(output, "last_hidden_state", None)
    return output.logits if hidden is None else hidden


def own_weights(attentions: Any, network: PreTrainedModel) -> dict[str, Layers]:
    """Return the attentions of a run, checked to have four axes in each layer."""
    pieces = [name for layer in attentions or () if isinstance(layer, dict) for name in layer]
    if pieces:
        raise AttentionUnavailableError(
            f"The {network.config.model_type} family gives the weights of a layer in pieces "
            f"({', '.join(dict.fromkeys(pieces))}), which have no weight for every query and key "
            f"of the text: they cannot be shown over its tokens. {INSTEAD}"
        )
    if attentions and all(layer is not None and layer.ndim == 4 for layer in attentions):
        return {"pattern": list(attentions)}
    family, built = network.config.model_type, network.config._attn_implementation
    if built not in ("eager", IMPLEMENTATION):
        raise AttentionUnavailableError(
            f"This {type(network).__name__} was built with {built!r} attention, which gives no "
            "attention weights, and takes no other any more: build it with "
            'attn_implementation="eager".'
        )
    if getattr(network.config, "attention_type", "") == "block_sparse":
        raise AttentionUnavailableError(
            f"This {type(network).__name__} computes attention in blocks and gives no weights: "
            "build it with attention_type='original_full'."
        )
    raise AttentionUnavailableError(
        f"The {family} family gives no attention weights (batch, head, query, key), neither "
        f"through our attention function nor through output_attentions. {INSTEAD}"
    )


def check_own_weights(layers: Layers, queries: Batch, keys: Batch, family: str) -> None:
    """Check weights over each text's own tokens: the length of each axis, and row sums of 1.

    Longformer's last axis holds offsets in a window, Funnel and CANINE shorten their texts from
    layer to layer, SqueezeBERT gives scores: drawn by query and key, all of these would mislead.
    """
    check_shapes(layers, queries, keys, family)
    for layer in layers:
        for row, (query, key) in enumerate(zip(queries, keys, strict=True)):
            weights = layer[row, :, : len(query.input_ids), : len(key.input_ids)].float()
            _check_rows(weights, rounding(layer.dtype), family)


def check_shapes(layers: Layers, queries: Batch, keys: Batch, family: str) -> None:
    """Check that each layer has a weight for every query and key of the texts."""
    n, m = (max(len(text.input_ids) for text in texts) for texts in (queries, keys))
    expected = torch.Size((len(queries), layers[0].shape[1], n, m))
    for layer in layers:
        if layer.shape != expected:
            raise AttentionUnavailableError(
                f"The {family} family gives attention weights of shape {tuple(layer.shape)} where "
                f"a weight for every query and key has shape {tuple(expected)} (batch, head, "
                f"query, key): they cannot be shown over the text's tokens. {INSTEAD}"
            )


def rounding(dtype: torch.dtype) -> float:
    """Return how far apart two ways to compute the same weights may be in a precision."""
    return 1e-4 if torch.finfo(dtype).bits >= 32 else 0.03


def _check_rows(weights: Tensor, tolerance: float, family: str) -> None:
    sums = weights.sum(-1)
    wrong = ~((sums - 1).abs() <= tolerance)  # NaN, too
    if bool(wrong.any()) or bool((weights < -tolerance).any()):
        fault = (
            f"sum to {float(sums[wrong][0]):.4g}, not to 1"
            if bool(wrong.any())
            else f"hold {float(weights.min()):.4g}, which no weight is"
        )
        raise AttentionUnavailableError(
            f"What the {family} family gives as attention weights are none by query and key: a "
            f"row's weights over the text's tokens {fault}. {INSTEAD}"
        )
