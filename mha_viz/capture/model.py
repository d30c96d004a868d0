"""AttentionModel: a network with its tokenizer, and the ways to run a text through it.

Knows transformers' models and our probe; must not know files, pictures or screens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mha_viz.capture.attention_function import KEEPABLE, HeadsUnder, heads_under
from mha_viz.capture.positions import longest_text
from mha_viz.capture.projections import MATRICES, LayerProjections, float32, repeat_heads
from mha_viz.capture.run import PARTS, Mechanism, OnLayer, Run, run, settle
from mha_viz.capture.tokens import Encoded, encode
from mha_viz.core.metrics.outputs import OutputWeights
from mha_viz.core.multi_head import AttentionWeights
from mha_viz.core.record import AttentionRecord, Token
from mha_viz.errors import ArgumentError, AttentionUnavailableError, MhaVizError, TextError

if TYPE_CHECKING:
    from mha_viz.capture.ablation import Ablation
    from mha_viz.capture.generation import Generated
    from mha_viz.capture.importance import HeadImportance
    from mha_viz.capture.intervention import Intervention
    from mha_viz.capture.prediction import Prediction

Texts = tuple[Encoded, Encoded | None]  # and the decoder's, of an encoder-decoder
MAX_PATTERN_BYTES = 2 * 2**30  # of one record; longer texts are truncated, and said to be
_SAMPLE = "A short text, to see whether both ways agree."


class AttentionModel:
    """A loaded model whose attention weights can be asked for. Safe to share between threads.

    Args:
        network: a transformers model in evaluation mode.
        tokenizer: its tokenizer.
        name: what `load` was given.
        notes: what the user should be told about this checkpoint.

    Attributes:
        parts: ("self",), or ("encoder", "decoder", "cross") for an encoder-decoder.
        mechanism: "ours" where our attention function computes it, "eager" where the family has
            no interface and its own weights are read instead (there is nothing else to keep then).
        n_layers, n_heads, n_kv_heads, d_head, d_model, n_ctx, causal: sizes of the first part.

    Raises:
        AttentionUnavailableError: neither way gives attention weights.
    """

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.network, self.tokenizer, self.name = network, tokenizer, name
        self.config = network.config.get_text_config()
        self.family: str = network.config.model_type
        self.parts: tuple[str, ...] = PARTS if network.config.is_encoder_decoder else ("self",)
        self.d_vocab = int(getattr(self.config, "vocab_size", len(tokenizer)))
        self.n_ctx = longest_text(network, tokenizer)
        self.mechanism: Mechanism
        self.notes = notes + self._settle()

    # -- what it is ------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return self.network.device

    @property
    def dtype(self) -> torch.dtype:
        return self.network.dtype

    @property
    def accepts_pair(self) -> bool:
        """A second text has a meaning: a second segment, or the decoder's text."""
        if len(self.parts) > 1:
            return True
        try:
            encode(self.tokenizer, "a", "b", max_length=self.n_ctx)
        except MhaVizError:
            return False
        return True

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
        gates: Any = None,
        intervention: Intervention | None = None,
    ) -> AttentionRecord:
        """Run one text and keep every head's attention.

        Args:
            text: any text; what does not fit n_ctx is cut off, and the record's notes say so.
            text_pair: second segment (BERT-style) or the decoder's text (T5, BART).
            part: which stack of an encoder-decoder; the first one if not given.
            keep: "pattern" and any of "z", "query", "key", "value".
            on_layer: called after each layer with the number done; raise in it to abandon. Not
                called where `mechanism` is "eager".
            gates: factors (layer, head) on the z of that part's heads, as in `predict`.
            intervention: what happens to some heads, of its own `part`; the record shows it.

        Returns:
            AttentionRecord with float32 pattern (layer, head, query, key).

        Raises:
            TextError: empty text, or a pair for a model that takes one text.
            ArgumentError: an unknown part, an unknown thing to keep, or such heads.
        """
        from mha_viz.capture.head_changes import heads_of_part

        part = self.parts[0] if part is None else part
        self._check_part(part)
        texts = self._encode(text, text_pair)
        under = heads_of_part(self, part, gates, intervention, texts)
        left = self.trace_encoded(*texts, keep=keep, on_layer=on_layer, only=part, under=under)
        return left[part]

    def trace_parts(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        keep: Sequence[str] = ("pattern", "z"),
        on_layer: OnLayer | None = None,
    ) -> dict[str, AttentionRecord]:
        """As `trace`, for all parts at once: encoder, decoder and cross attention.

        In cross attention the queries are the decoder's tokens and the keys the encoder's.
        """
        return self.trace_encoded(*self._encode(text, text_pair), keep=keep, on_layer=on_layer)

    def trace_encoded(
        self,
        source: Encoded,
        target: Encoded | None = None,
        *,
        keep: Sequence[str] = ("pattern", "z"),
        on_layer: OnLayer | None = None,
        only: str | None = None,
        under: HeadsUnder | None = None,
    ) -> dict[str, AttentionRecord]:
        """As `trace_parts`, for texts that are tokens already, with heads `under` a change."""
        self._check_keep(keep)
        with heads_under(under):
            runs = self._run([source], None if target is None else [target], keep, on_layer)
        notes = (under.note,) if under is not None and under.note else ()
        parts = [part for part in runs if only in (None, part)]
        texts = (source, target)
        return {part: self._record(part, runs[part], 0, texts, notes) for part in parts}

    def trace_batch(
        self, texts: Sequence[str], *, keep: Sequence[str] = ("pattern", "z")
    ) -> list[AttentionRecord]:
        """Several texts in one forward pass, padded to the longest; a record for each.

        Not for encoder-decoders, whose texts come in pairs.
        """
        self._check_keep(keep)
        if len(self.parts) > 1:
            raise ArgumentError(f"{self.name} is an encoder-decoder: trace its texts one by one.")
        if not texts:
            raise ArgumentError("trace_batch needs at least one text.")
        encoded = [self._encode(text, None)[0] for text in texts]
        left = self._run(encoded, None, keep)["self"]
        return [self._record("self", left, i, (item, None)) for i, item in enumerate(encoded)]

    # -- what it says, and with heads changed ----------------------------------------------------

    def predict(self, text: str, gates: Any = None, **options: Any) -> Prediction:
        """The next token, or the one at [MASK]: see `mha_viz.capture.prediction.predict`."""
        from mha_viz.capture.prediction import predict

        return predict(self, text, gates, **options)

    def ablate(
        self, text: str, heads: Sequence[Sequence[int]], how: str = "zero", **options: Any
    ) -> Ablation:
        """Predictions with heads changed or not: see `mha_viz.capture.ablation.ablate`."""
        from mha_viz.capture.ablation import ablate

        return ablate(self, text, heads, how, **options)

    def head_importance(
        self, texts: str | Sequence[str], method: Any = "ablation", on_progress: Any = None
    ) -> HeadImportance:
        """How much the loss depends on each head: see `mha_viz.capture.importance`."""
        from mha_viz.capture.importance import head_importance

        return head_importance(self, texts, method, on_progress)

    def generate(self, text: str, gates: Any = None, **options: Any) -> Generated:
        """How a causal model goes on: see `mha_viz.capture.generation.generate`."""
        from mha_viz.capture.generation import generate

        return generate(self, text, gates, **options)

    def attention_weights(self, layer: int, part: str | None = None) -> AttentionWeights:
        """One layer's W_Q, W_K, W_V, W_O and biases, split by heads (views, not copies).

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

    # -- inside ----------------------------------------------------------------------------------

    def _settle(self) -> tuple[str, ...]:
        """Choose the mechanism by a short text, and measure the model by what it left behind."""
        source = encode(self.tokenizer, _SAMPLE, max_length=min(self.n_ctx, 16))
        target = self._target(_SAMPLE) if len(self.parts) > 1 else None
        self.mechanism, runs, reason = settle(self.network, source, target, self.d_vocab)
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
        if self.mechanism == "ours":
            return ()
        return (
            f"The {self.family} family computes attention in a way of its own"
            + (f" ({reason})" if reason else "")
            + ": its own weights are shown, and what needs the heads' outputs is not available.",
        )

    def layers(self, part: str | None = None) -> list[LayerProjections]:
        """The attention module and the projections of each layer of a part, in call order."""
        part = self.parts[0] if part is None else part
        self._check_part(part)
        if self.mechanism != "ours":
            raise AttentionUnavailableError(
                f"{self.family} computes its attention by itself; its weights are not split here."
            )
        return self._projections[part]

    def _check_part(self, part: str) -> None:
        if part not in self.parts:
            known = ", ".join(self.parts)
            raise ArgumentError(f"{self.name} has the part(s) {known}, got {part!r}.")

    def _check_keep(self, keep: Sequence[str]) -> None:
        unknown = [name for name in keep if name not in KEEPABLE]
        if unknown or "pattern" not in keep:
            raise ArgumentError(
                f'keep must hold "pattern" and may hold {", ".join(KEEPABLE[1:])}; got {keep!r}.'
            )

    def _encode(self, text: str, text_pair: str | None) -> Texts:
        if len(self.parts) == 1:
            encoded = encode(self.tokenizer, text, text_pair, max_length=self.n_ctx)
            target = None
        else:
            encoded = encode(self.tokenizer, text, max_length=self.n_ctx)
            target = self._target(text_pair)
        for item in (encoded, target):
            if item is not None and max(item.input_ids) >= self.d_vocab:
                raise TextError(
                    f"This text has tokens that {self.name} does not know (number "
                    f"{max(item.input_ids):,} of {self.d_vocab:,}): tokenizer and model do not "
                    "belong together."
                )
        return encoded, target

    def _target(self, text: str | None) -> Encoded:
        """The decoder's text behind its start token; without a text the start token alone."""
        start = self.network.config.decoder_start_token_id
        start = start if isinstance(start, int) else self.tokenizer.pad_token_id or 0
        label = str(self.tokenizer.convert_ids_to_tokens(start))
        first = Token(label, start, is_special=True, segment=1)
        if text is None:
            return Encoded(input_ids=[start], token_type_ids=None, tokens=(first,))
        rest = encode(self.tokenizer, text, max_length=self.n_ctx - 1, add_special_tokens=False)
        # It is the second text of the run, which is where its tokens' offsets count.
        return replace(
            rest,
            input_ids=[start, *rest.input_ids],
            token_type_ids=None,
            tokens=(first, *(replace(token, segment=1) for token in rest.tokens)),
            text_pair=rest.text,
        )

    def _run(
        self,
        sources: Sequence[Encoded],
        targets: Sequence[Encoded] | None,
        keep: Sequence[str],
        on_layer: OnLayer | None = None,
    ) -> dict[str, Run]:
        pad = self.tokenizer.pad_token_id or 0
        return run(
            *(self.network, self.mechanism, sources, targets),
            pad=pad,
            keep=keep,
            on_layer=on_layer,
            n_layers=self.n_layers if targets is None else 0,
        )

    def _record(
        self, part: str, left: Run, row: int, texts: Texts, notes: tuple[str, ...] = ()
    ) -> AttentionRecord:
        source, target = texts
        queries = source if part in ("self", "encoder") or target is None else target
        keys = target if part == "decoder" and target is not None else source
        n, m = slice(len(queries.tokens)), slice(len(keys.tokens))
        kept, heads = left.kept, left.pattern[0].shape[1]
        key, value = (
            repeat_heads(float32(kept[name], row, m), heads) if name in kept else None
            for name in ("key", "value")
        )
        return AttentionRecord(
            pattern=float32(kept["pattern"], row, n, m),
            tokens=queries.tokens,
            key_tokens=keys.tokens,
            z=float32(kept["z"], row, n) if "z" in kept else None,
            query=float32(kept["query"], row, n) if "query" in kept else None,
            key=key,
            value=value,
            scale=tuple(left.scale),
            W_O=self._output_weights(part),
            model=self.name,
            family=self.family,
            part=part,
            text=source.text,
            text_pair=source.text_pair if target is None else target.text_pair,
            causal=self.causal if part == "self" else part == "decoder",
            notes=self.notes + self._cuts(source, target) + notes,
        )

    def _output_weights(self, part: str) -> OutputWeights:
        """Each layer's W_O; none where the family's layout is not known."""
        found = [layer.output() for layer in self._projections[part]]
        weights = [w for w in found if w is not None]
        known = self._W_O.get(part)
        if known is None or not known.are(weights):
            known = self._W_O[part] = OutputWeights(weights if len(weights) == len(found) else ())
        return known

    def _cuts(self, *texts: Encoded | None) -> tuple[str, ...]:
        """A note for each text of which something was left out."""
        return tuple(
            f"The text was cut to {len(text.tokens)} tokens, the longest that {self.name} takes "
            f"here: {'about ' * text.truncated_is_estimate}{text.n_truncated:,} tokens were left "
            "out."
            for text in texts
            if text is not None and text.n_truncated
        )
