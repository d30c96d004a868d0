"""AttentionModel: a network with its tokenizer, and the ways to run a text through it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mha_viz.core.metrics.outputs import OutputWeights
from mha_viz.core.multi_head import AttentionWeights
from mha_viz.core.names import MATRICES
from mha_viz.core.record import AttentionRecord
from mha_viz.engine.attention_function import HeadEdits
from mha_viz.engine.backend import choose_backend
from mha_viz.engine.head_changes import Gates, head_edits
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.positions import longest_text
from mha_viz.engine.projections import LayerProjections
from mha_viz.engine.recording import record_of, run_texts
from mha_viz.engine.run import PARTS, Backend, OnLayer, check_keep
from mha_viz.errors import ArgumentError, AttentionUnavailableError
from mha_viz.text.encoding import Reader, decoder_text, encode_texts, takes_pair
from mha_viz.text.tokens import Encoded, encode

MAX_PATTERN_BYTES = 2 * 2**30  # of one record; longer texts are cut, and a note says so
_SAMPLE = "A short text, to see whether both ways agree."


class AttentionModel:
    """A loaded model whose attention weights can be asked for. Safe to share between threads.

    Args:
        network: a transformers model, of a checkpoint or in memory, built with any attention. It
            is put into evaluation mode, and takes its attention from our function from then on
            where its family allows: its outputs stay the same but for rounding, and its weights
            come from `trace`, no longer from `output_attentions`.
        tokenizer: its tokenizer.
        name: what `load` was given.
        notes: what a user should know about this checkpoint.

    Attributes:
        parts: ("self",), or ("encoder", "decoder", "cross") for an encoder-decoder.
        backend: "mha_viz" where our attention function computes it, "eager" where the family has
            no interface and its own weights are read instead (then nothing else can be kept).
        n_layers, n_heads, n_kv_heads, d_head, d_model, n_ctx, causal: sizes of the first part.

    Raises:
        AttentionUnavailableError: neither way gives attention weights.

    >>> import transformers
    >>> import mha_viz as mv
    >>> sizes = transformers.BertConfig(hidden_size=20, num_hidden_layers=2, num_attention_heads=5)
    >>> network = transformers.BertModel(sizes)
    >>> tokenizer = mv.load("tiny-bert").tokenizer
    >>> mv.AttentionModel(network, tokenizer, name="new").trace("The cat sat").pattern.shape
    torch.Size([2, 5, 5, 5])
    """

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.network = network.eval()  # dropout would make every run another one
        self.tokenizer, self.name = tokenizer, name
        self.config = network.config.get_text_config()
        self.family: str = network.config.model_type
        self.parts: tuple[str, ...] = PARTS if network.config.is_encoder_decoder else ("self",)
        self.d_vocab = int(getattr(self.config, "vocab_size", len(tokenizer)))
        self.n_ctx = longest_text(network, tokenizer)
        self.backend: Backend
        self.notes = notes + self._choose_backend()

    # -- what it is ------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """Where the network's weights are."""
        return self.network.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision that it runs in."""
        return self.network.dtype

    @property
    def accepts_pair(self) -> bool:
        """Whether it takes a second text: a second segment, or the decoder's text."""
        return takes_pair(self.reader)

    @property
    def reader(self) -> Reader:
        """What a text must fit: tokenizer, positions, vocabulary."""
        return Reader(
            self.tokenizer,
            self.name,
            self.n_ctx,
            self.d_vocab,
            two_texts=len(self.parts) > 1,
            start=getattr(self.network.config, "decoder_start_token_id", None),
        )

    def check_part(self, part: str) -> None:
        """Raise ArgumentError unless it is one of `parts`."""
        if part not in self.parts:
            known = ", ".join(self.parts)
            raise ArgumentError(f"{self.name} has the part(s) {known}, got {part!r}.")

    def cut_texts(self, n_bytes: int, n_tokens: int | None = None) -> None:
        """Limit texts from now on, so that a full record of one takes at most so many bytes.

        A longer text is cut, like one that does not fit the model, and the record's notes say so.

        Args:
            n_bytes: of pattern, z, query, key and value together.
            n_tokens: that a text may have at most; None is as many as the model takes.
        """
        # Each head has n x n weights and, with our attention, n rows of z, query, key and value.
        # An encoder-decoder runs all its parts, whichever of them is asked for.
        cells = n_bytes / (4 * self.n_layers * self.n_heads * len(self.parts))
        half = 2 * self.d_head if self.backend == "mha_viz" else 0
        self.n_ctx = max(1, min(self.n_ctx, int((half**2 + cells) ** 0.5 - half)))
        self.n_ctx = min(self.n_ctx, n_tokens or self.n_ctx)

    def __repr__(self) -> str:
        return (
            f"AttentionModel({self.name!r}, family={self.family!r}, layers={self.n_layers}, "
            f"heads={self.n_heads}, d_model={self.d_model}, n_ctx={self.n_ctx}, "
            f"device={str(self.device)!r})"
        )

    # -- running a text --------------------------------------------------------------------------

    def trace(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        part: str | None = None,
        keep: Sequence[str] = ("pattern", "z"),
        on_layer: OnLayer | None = None,
        gates: Gates | None = None,
        intervention: Intervention | None = None,
    ) -> AttentionRecord:
        """Run one text and keep every head's attention.

        Args:
            text: any text; what does not fit n_ctx is cut off, and the record's notes say so.
            text_pair: second segment (BERT-style) or the decoder's text (T5, BART).
            part: which stack of an encoder-decoder; the first one if not given.
            keep: "pattern" and any of "z", "query", "key", "value"; or "all".
            on_layer: called after each layer with the number done; raise in it to abandon. Not
                called where `backend` is "eager".
            gates: factors (layer, head) on the z of that part's heads, as in `predict`.
            intervention: what happens to some heads, of its own `part`; the record shows it.

        Returns:
            AttentionRecord with float32 pattern (layer, head, query, key).

        Raises:
            TextError: empty text, or a pair for a model that takes one text.
            ArgumentError: an unknown part, an unknown thing to keep, or such heads.
        """
        part = self.parts[0] if part is None else part
        self.check_part(part)
        texts = encode_texts(self.reader, text, text_pair)
        edits = head_edits(self, gates, intervention, part=part, texts=texts)
        left = self.trace_encoded(*texts, keep=keep, on_layer=on_layer, only=part, edits=edits)
        return left[part]

    def trace_parts(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        keep: Sequence[str] = ("pattern", "z"),
        on_layer: OnLayer | None = None,
    ) -> dict[str, AttentionRecord]:
        """Run as `trace` does and return all parts: encoder, decoder and cross attention.

        In cross attention the queries are the decoder's tokens and the keys the encoder's.

        Args:
            text: the encoder's text.
            text_pair: the decoder's text.
            keep: as for `trace`.
            on_layer: as for `trace`; it counts through both stacks.

        Returns:
            A record for each of `parts`.

        Raises:
            TextError, ArgumentError: as `trace`.
        """
        return self.trace_encoded(
            *encode_texts(self.reader, text, text_pair), keep=keep, on_layer=on_layer
        )

    def trace_encoded(
        self,
        source: Encoded,
        target: Encoded | None = None,
        *,
        keep: Sequence[str] = ("pattern", "z"),
        on_layer: OnLayer | None = None,
        only: str | None = None,
        edits: HeadEdits | None = None,
    ) -> dict[str, AttentionRecord]:
        """Run as `trace_parts` does, with texts that are encoded already.

        Args:
            source: the text, or the encoder's.
            target: the decoder's text.
            keep: as for `trace`.
            on_layer: as for `trace`.
            only: the one part to return; all of them if not given.
            edits: what happens to heads, by `head_edits`.
        """
        keep = check_keep(keep)
        targets = None if target is None else [target]
        runs = run_texts(self, [source], targets, keep, on_layer, edits)
        notes = (edits.note,) if edits is not None and edits.note else ()
        parts = [part for part in runs if only in (None, part)]
        texts = (source, target)
        return {part: record_of(self, part, runs[part], 0, texts, notes) for part in parts}

    def trace_batch(
        self, texts: Sequence[str], *, keep: Sequence[str] = ("pattern", "z")
    ) -> list[AttentionRecord]:
        """Run several texts in one forward pass, padded to the longest; a record for each.

        Args:
            texts: at least one.
            keep: as for `trace`.

        Raises:
            TextError: a text that cannot be used.
            ArgumentError: no text; or an encoder-decoder, whose texts come in pairs.
        """
        keep = check_keep(keep)
        if len(self.parts) > 1:
            raise ArgumentError(f"{self.name} is an encoder-decoder: trace its texts one by one.")
        if not texts:
            raise ArgumentError("trace_batch needs at least one text.")
        encoded = [encode_texts(self.reader, text)[0] for text in texts]
        left = run_texts(self, encoded, None, keep)["self"]
        return [record_of(self, "self", left, i, (item, None)) for i, item in enumerate(encoded)]

    # -- its weights -----------------------------------------------------------------------------

    def attention_weights(self, layer: int, part: str | None = None) -> AttentionWeights:
        """One layer's W_Q, W_K, W_V, W_O and biases, split by heads (views, not copies).

        Args:
            layer: from 0, within the part.
            part: which stack of an encoder-decoder; the first one if not given.

        Raises:
            ArgumentError: no such layer or part.
            AttentionUnavailableError: the family computes its attention by itself.
            NotKeptError: the family's layout is not known.
        """
        layers = self.layers(part)
        if not 0 <= layer < len(layers):
            raise ArgumentError(f"layer must lie in 0..{len(layers) - 1}, got {layer}.")
        return layers[layer].all()

    def head_weights(
        self, name: str, part: str | None = None
    ) -> tuple[Float[Tensor, "head rows columns"], ...]:
        """One kind of weights of all layers, a matrix for each query head.

        Args:
            name: "W_Q", "W_K", "W_V": (head, d_model, d_head), or "W_O": (head, d_head, d_model).
            part: which stack of an encoder-decoder; the first one if not given.

        Returns:
            A tensor for each layer, float32 on the CPU (the model's own where they are that
            already: do not write to them); key and value heads repeated for their query heads.

        Raises:
            ArgumentError: an unknown name or part.
            AttentionUnavailableError, NotKeptError: as `attention_weights`.
        """
        if name not in MATRICES:
            raise ArgumentError(f"name must be one of {', '.join(MATRICES)}, got {name!r}.")
        return tuple(layer.for_query_heads(name) for layer in self.layers(part))

    def layers(self, part: str | None = None) -> list[LayerProjections]:
        """The attention module and the projections of each layer of a part, in call order."""
        part = self.parts[0] if part is None else part
        self.check_part(part)
        if self.backend != "mha_viz":
            raise AttentionUnavailableError(
                f"{self.family} computes its attention by itself; its weights are not split here."
            )
        return self._projections[part]

    def output_weights(self, part: str) -> OutputWeights:
        """Each layer's W_O (head, d_head, d_model); none where the family's layout is not known."""
        found = [layer.output() for layer in self._projections[part]]
        weights = [w for w in found if w is not None]
        known = self._W_O.get(part)
        if known is None or not known.are(weights):
            known = self._W_O[part] = OutputWeights(weights if len(weights) == len(found) else ())
        return known

    # -- inside ----------------------------------------------------------------------------------

    def _choose_backend(self) -> tuple[str, ...]:
        """Choose the backend by a short text, and measure the model by what it left behind."""
        source = encode(self.tokenizer, _SAMPLE, max_length=min(self.n_ctx, 16))
        target = decoder_text(self.reader, _SAMPLE) if len(self.parts) > 1 else None
        self.backend, runs, reason = choose_backend(self.network, source, target, self.d_vocab)
        first = runs[self.parts[0]]
        self.n_layers, self.n_heads = len(first.pattern), int(first.pattern[0].shape[1])
        self.d_model = int(getattr(self.config, "hidden_size", None) or self.config.d_model)
        key = first.kept.get("key")
        self.n_kv_heads = int(key[0].shape[1]) if key else self.n_heads
        self.d_head = int(key[0].shape[-1]) if key else self.d_model // self.n_heads
        # Exact zeros above the diagonal in every head of every layer are a mask, not a habit.
        self.causal = all(bool(torch.triu(p, 1).count_nonzero() == 0) for p in first.pattern)
        cells = MAX_PATTERN_BYTES // (4 * self.n_layers * self.n_heads)
        self.n_ctx = min(self.n_ctx, int(cells**0.5))
        self._projections = {part: LayerProjections.of(self.network, runs[part]) for part in runs}
        self._W_O: dict[str, OutputWeights] = {}
        if self.backend == "mha_viz":
            return ()
        return (
            f"The {self.family} family computes attention in a way of its own"
            + (f" ({reason})" if reason else "")
            + ": its own weights are shown, and what needs the heads' outputs is not available.",
        )
