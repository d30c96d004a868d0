"""Runs of one text piece by piece with a key-value cache, joined to one result."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import DynamicCache

from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import KEEPABLE, HeadEdits, Probe
from mha_viz.engine.projections import float32
from mha_viz.engine.run import OnLayer, Run, own_weights, within_memory
from mha_viz.errors import AttentionUnavailableError

# transformers 5.24 renamed the second to the first; networks of remote code may still have it.
CACHE_ARGUMENTS = ("cache", "past_key_values")


class CachedRun:
    """A causal network's run over a text that grows, and that tokens can be taken back from.

    Each piece reads the keys and values that are kept of the pieces before it; its rows of every
    head's pattern are kept as the network used them. All keys stay in the cache, also those that a
    sliding window has passed (its mask hides them): they are wanted when tokens are taken back.
    `edits` are what happens to heads, in every piece. Raises AttentionUnavailableError: it sees
    what comes later, or has no cache of keys and values.
    """

    def __init__(self, model: AttentionModel, edits: HeadEdits | None = None) -> None:
        self._cache_argument = _check_cached(model)
        self.model, self.edits = model, edits
        self._cache = DynamicCache()  # without the config, which would let go of what windows pass
        self._pieces: list[_Piece] = []
        self._probe = Probe()  # of the latest piece: scales and modules are those of all

    def __len__(self) -> int:
        """Return how many tokens have been run."""
        return self._pieces[-1].end if self._pieces else 0

    @torch.no_grad()
    def run(self, ids: Sequence[int], on_layer: OnLayer | None = None) -> Float[Tensor, " d_vocab"]:
        """Run the next tokens, and return the logits behind them; abandoned, it leaves nothing."""
        before = len(self)
        try:
            with within_memory(self.model.network):
                output, probe = self._pass(ids, on_layer)
                piece = _Piece.of(probe, before, before + len(ids))
            self._check(piece, probe)
        except BaseException:
            self._shorten_cache(before)  # some layers may have the new keys already
            raise
        self._pieces.append(piece)
        self._probe = probe
        return output.logits[0, -1]

    def cut(self, n: int) -> None:
        """Take back all tokens but the first `n`."""
        self._pieces = [piece.cut(n) for piece in self._pieces if piece.start < n]
        self._shorten_cache(n)

    def joined(self) -> Run:
        """Join what all pieces left, as one pass over the whole text would have left it."""
        n = len(self)
        tensors = {
            name: torch.cat([piece.tensors[name] for piece in self._pieces], dim=2)[:, None]
            for name in self._pieces[0].tensors
            if name != "pattern"
        }
        first = self._pieces[0].tensors["pattern"]
        pattern = first.new_zeros(*first.shape[:2], n, n)
        for piece in self._pieces:
            pattern[:, :, piece.start : piece.end, : piece.end] = piece.tensors["pattern"]
        run = Run({"pattern": pattern[:, None], **tensors}, None, self._probe.scale)
        ordinary = torch.ones(n, n, dtype=torch.bool).tril()
        masks = zip(*(piece.allowed for piece in self._pieces), strict=True)  # none: not given
        run.allowed = [_whole_mask(self._pieces, layer_masks, ordinary) for layer_masks in masks]
        run.has_sinks = self._probe.has_sinks
        return run

    def _pass(self, ids: Sequence[int], on_layer: OnLayer | None) -> tuple[Any, Probe]:
        network: Any = self.model.network
        inputs: dict[str, Any] = {
            "input_ids": torch.tensor([list(ids)], device=self.model.device),
            self._cache_argument: self._cache,
            "use_cache": True,
        }
        if "logits_to_keep" in inspect.signature(network.forward).parameters:
            inputs["logits_to_keep"] = 1
        probe = Probe(KEEPABLE, on_layer, self.model.n_layers, edits=self.edits)
        if self.model.backend == "mha_viz":
            return network(**inputs, mha_probe=probe), probe
        output = network(**inputs, output_attentions=True)
        probe.tensors = own_weights(output.attentions, network)
        return output, probe

    def _check(self, piece: _Piece, probe: Probe) -> None:
        """Check that the pass left rows over all tokens so far, one for each new token."""
        expected = self.model.n_layers, self.model.n_heads, piece.end - piece.start, piece.end
        shape = piece.tensors["pattern"].shape if "pattern" in piece.tensors else ()
        all_layers = self.model.backend == "eager" or len(probe.modules) == self.model.n_layers
        if not all_layers or shape != expected or self._cache.get_seq_length() != piece.end:
            raise AttentionUnavailableError(
                f"The {self.model.family} family does not read a cache of keys and values as one "
                "pass over the whole text would: use generate, whose record is such a pass."
            )

    def _shorten_cache(self, n: int) -> None:
        for layer in self._cache.layers:
            beyond = layer.get_seq_length() - n
            if beyond > 0:
                layer.crop(-beyond)


@dataclass(frozen=True)
class _Piece:
    """The result of a pass over the tokens from `start` to `end`; tensors (layer, head, ...)."""

    start: int
    end: int
    tensors: dict[str, Tensor]
    allowed: list[Tensor | None]  # of each layer (query, key); None: all up to the query's own

    @classmethod
    def of(cls, probe: Probe, start: int, end: int) -> _Piece:
        new = {"key": slice(start, end), "value": slice(start, end)}  # the rest is known
        tensors = {
            name: float32(layers, 0, new.get(name, slice(None)))
            for name, layers in probe.tensors.items()
        }
        allowed = [None if mask is None else mask[0].cpu() for mask in probe.allowed]
        return cls(start, end, tensors, allowed)

    def cut(self, n: int) -> _Piece:
        """Return the piece without what lies beyond the text's first `n` tokens."""
        if n >= self.end:
            return self
        rows = n - self.start
        tensors = {name: layers[:, :, :rows].clone() for name, layers in self.tensors.items()}
        tensors["pattern"] = tensors["pattern"][..., :n]
        allowed = [None if mask is None else mask[:rows, :n] for mask in self.allowed]
        return _Piece(self.start, n, tensors, allowed)


def _whole_mask(
    pieces: Sequence[_Piece], masks: Sequence[Tensor | None], ordinary: Tensor
) -> Tensor | None:
    """Join one layer's masks of all pieces; None where no piece has one."""
    if all(mask is None for mask in masks):
        return None
    joined = ordinary.clone()
    for piece, mask in zip(pieces, masks, strict=True):
        if mask is not None:
            joined[piece.start : piece.end, : piece.end] = mask
    return joined[None]


def _check_cached(model: AttentionModel) -> str:
    """Return the forward argument for the cache, once the model can run a text piece by piece."""
    network: Any = model.network
    if not model.causal:
        raise AttentionUnavailableError(
            f"{model.name} lets tokens see what comes after them, so that each new token would "
            "change all rows before it: load it as a decoder (is_decoder), or a causal model such "
            "as tiny-gpt2."
        )
    parameters = inspect.signature(network.forward).parameters
    cache_argument = next((name for name in CACHE_ARGUMENTS if name in parameters), None)
    if cache_argument is None or getattr(network, "_is_stateful", False):
        raise AttentionUnavailableError(
            f"The {model.family} family keeps no cache of keys and values that tokens could be "
            "taken back from: choose a GPT-2, Llama, Mistral or Gemma."
        )
    return cache_argument
