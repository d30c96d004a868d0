"""One forward pass: encoded texts in, what each stack of layers left behind out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mha_viz.engine.attention_function import (
    KEEPABLE,
    EverythingKept,
    HeadEdits,
    Layers,
    LayerTensors,
    Probe,
)
from mha_viz.engine.own_weights import check_own_weights, own_weights
from mha_viz.errors import ArgumentError, AttentionUnavailableError, OutOfMemoryError
from mha_viz.text.encoding import attending
from mha_viz.text.tokens import Encoded

Backend = Literal["mha_viz", "eager"]
OnLayer = Callable[[int], None]
Reduce = Callable[[LayerTensors], None]
PARTS = ("encoder", "decoder", "cross")  # of a model with two stacks; others have one, "self"


@dataclass
class Run:
    """What one forward pass left of one stack of layers; tensors are (batch, head, ...).

    `allowed` is which keys each layer let a query see, (batch or 1, query, key), None for all; it
    is empty where the family computed its attention itself. `has_sinks` says that rows sum to less
    than 1, since heads have learned a sink that is no key.
    """

    kept: dict[str, Layers]
    hidden: Tensor | None  # None where the run ended when everything was kept
    scale: list[float] = field(default_factory=list)
    modules: list[nn.Module] = field(default_factory=list)
    allowed: list[Tensor | None] = field(default_factory=list)
    has_sinks: bool = False

    @property
    def pattern(self) -> Layers:
        """The attention weights of each layer."""
        return self.kept["pattern"]


def check_keep(keep: Sequence[str]) -> Sequence[str]:
    """The names of what a run is to keep, checked; "all" stands for all of `KEEPABLE`.

    Args:
        keep: "all", or "pattern" and any more of `KEEPABLE`.

    Raises:
        ArgumentError: an unknown thing, or no pattern.
    """
    if keep == "all":
        return KEEPABLE
    unknown = [name for name in keep if name not in KEEPABLE]
    if unknown or isinstance(keep, str) or "pattern" not in keep:
        raise ArgumentError(
            f'keep must be "all", or hold "pattern" and any of {", ".join(KEEPABLE[1:])}; '
            f"got {keep!r}."
        )
    return tuple(dict.fromkeys(keep))  # what is named twice is kept once


@torch.inference_mode()
def run(
    network: PreTrainedModel,
    backend: Backend,
    sources: Sequence[Encoded],
    targets: Sequence[Encoded] | None = None,
    *,
    pad: int = 0,
    keep: Sequence[str] = ("pattern",),
    on_layer: OnLayer | None = None,
    n_layers: int = 0,
    edits: HeadEdits | None = None,
) -> dict[str, Run]:
    """One forward pass over a batch -> what each part left behind. Changes nothing on the network.

    What a family's own weights mean is not looked at here: see `check_own`.

    Args:
        network: in evaluation mode, with our attention ("mha_viz") or its own ("eager").
        backend: whose attention weights to take.
        sources: the texts.
        targets: the decoder's texts, of an encoder-decoder.
        pad: the token that fills shorter texts up, hidden by the mask.
        keep: what the probe keeps; "eager" has the pattern alone.
        on_layer: see `Probe`; "eager" does not call it.
        n_layers: of a single stack, where known: the pass then ends with the last layer's
            attention, and there is no hidden state.
        edits: what happens to the heads of one part; "eager" cannot change any.

    Raises:
        AttentionUnavailableError: the family gives no attention weights this way.
        OutOfMemoryError: out of memory.
    """
    inputs = padded(network, sources, pad)
    with within_memory(network):
        if targets is None:
            probe = Probe(tuple(keep), on_layer, n_layers, stop=n_layers > 0, edits=edits)
            return {"self": _one_stack(network.base_model, backend, inputs, probe)}
        decoder_inputs = padded(network, targets, pad)
        if backend == "eager":
            return _two_stacks_eager(network.base_model, inputs, decoder_inputs)
        return _two_stacks(network.base_model, inputs, decoder_inputs, keep, on_layer, edits)


@torch.inference_mode()
def run_first_stack(
    network: PreTrainedModel,
    backend: Backend,
    sources: Sequence[Encoded],
    *,
    pad: int = 0,
    n_layers: int,
    keep: Sequence[str] = (),
    reduce: Reduce | None = None,
) -> Run:
    """As `run`, of the only stack or of an encoder alone, and no further than its last attention.

    Args:
        network: as for `run`.
        backend: as for `run`; "eager" keeps its weights, whatever is asked for.
        sources: the texts.
        pad: as for `run`.
        n_layers: of that stack.
        keep: what the probe keeps; nothing where all is reduced on the spot.
        reduce: handed each layer as soon as it is computed; "eager" does not call it.

    Raises:
        AttentionUnavailableError, OutOfMemoryError: as `run`.
    """
    inputs = padded(network, sources, pad)
    probe = Probe(tuple(keep), n_layers=n_layers, stop=True, reduce=reduce)
    stack = network.base_model
    if network.config.is_encoder_decoder:
        stack = network.get_encoder()
        inputs.pop("token_type_ids", None)
    with within_memory(network):
        return _one_stack(stack, backend, inputs, probe)


@contextmanager
def within_memory(network: PreTrainedModel) -> Iterator[None]:
    """Around a forward pass: a lack of memory becomes an error that says what to do.

    Args:
        network: that is run.

    Raises:
        OutOfMemoryError: out of memory.
    """
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


def check_own(
    left: dict[str, Run],
    sources: Sequence[Encoded],
    targets: Sequence[Encoded] | None,
    family: str,
) -> None:
    """Check that every part's own weights are weights of its queries and keys.

    Args:
        left: what a run with backend "eager" left behind.
        sources: the texts.
        targets: the decoder's texts, of an encoder-decoder.
        family: transformers' model_type.

    Raises:
        AttentionUnavailableError: they are something else.
    """
    for part, one in left.items():
        check_own_weights(one.pattern, *attending(part, sources, targets), family)


def _one_stack(network: Any, backend: Backend, inputs: dict[str, Any], probe: Probe) -> Run:
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
    network: Any,
    inputs: dict[str, Any],
    decoder_inputs: dict[str, Any],
    keep: Sequence[str],
    on_layer: OnLayer | None,
    edits: HeadEdits | None,
) -> dict[str, Run]:
    """Encoder first, by itself; then the decoder, whose layers attend to themselves and to it."""
    inputs.pop("token_type_ids", None)
    first = Probe(tuple(keep), on_layer, edits=edits, parts=PARTS[:1])
    encoded = network.get_encoder()(**inputs, mha_probe=first)
    encoder = _left_by(first, encoded.last_hidden_state, network)
    done = len(first.modules)
    further = None if on_layer is None else lambda n: on_layer(done + n)
    second = Probe(tuple(keep), further, edits=edits, parts=PARTS[1:])
    arguments = _decoder_arguments(inputs, decoder_inputs)
    output = network(encoder_outputs=encoded, **arguments, mha_probe=second)
    both = _left_by(second, _result(output), network)
    if len(second.modules) % 2:
        raise AttentionUnavailableError(
            f"{network.config.model_type}: the decoder's layers do not alternate self and cross "
            "attention."
        )
    decoder, cross = (
        Run(
            {name: layers[offset::2] for name, layers in both.kept.items()},
            both.hidden,
            both.scale[offset::2],
            both.modules[offset::2],
            both.allowed[offset::2],
            both.has_sinks,
        )
        for offset in (0, 1)
    )
    return dict(zip(PARTS, (encoder, decoder, cross), strict=True))


def _two_stacks_eager(
    network: Any, inputs: dict[str, Any], decoder_inputs: dict[str, Any]
) -> dict[str, Run]:
    inputs.pop("token_type_ids", None)
    arguments = inputs | _decoder_arguments(inputs, decoder_inputs)
    output = network(**arguments, output_attentions=True)
    lists = (output.encoder_attentions, output.decoder_attentions, output.cross_attentions)
    return {
        part: Run(own_weights(patterns, network), _result(output))
        for part, patterns in zip(PARTS, lists, strict=True)
    }


def _decoder_arguments(inputs: dict[str, Any], decoder_inputs: dict[str, Any]) -> dict[str, Any]:
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
    return Run(probe.kept, hidden, probe.scale, probe.modules, probe.allowed, probe.has_sinks)


def padded(network: PreTrainedModel, texts: Sequence[Encoded], pad: int) -> dict[str, Any]:
    """The inputs of a network: right-padded tensors, with a mask only where there is padding.

    Args:
        network: any; the tensors are on its device.
        texts: encoded texts, at least one.
        pad: the token that fills shorter texts up.
    """
    shape = len(texts), max(len(text.input_ids) for text in texts)
    ids = torch.full(shape, pad, dtype=torch.long)
    types, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, text in enumerate(texts):
        n = len(text.input_ids)
        ids[row, :n] = torch.tensor(text.input_ids)
        mask[row, :n] = 1
        if text.token_type_ids is not None:
            types[row, :n] = torch.tensor(text.token_type_ids)
    inputs = {"input_ids": ids.to(network.device)}
    has_types = any(text.token_type_ids is not None for text in texts)
    if has_types and getattr(network.config.get_text_config(), "type_vocab_size", None):
        inputs["token_type_ids"] = types.to(network.device)
    if not bool(mask.all()):
        inputs["attention_mask"] = mask.to(network.device)
    return inputs


def _result(output: Any) -> Tensor:
    """What the network gives in the end: hidden states, or logits where its body is its head.

    T5 with a language-model head has no base model of its own.
    """
    hidden: Tensor | None = getattr(output, "last_hidden_state", None)
    return output.logits if hidden is None else hidden
