"""AttentionModel: a network with its tokenizer, and the ways to run a text through it.

Knows transformers' models and our probe; must not know files, pictures or screens.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mha_viz.capture.attention_function import IMPLEMENTATION, KEEPABLE, Probe
from mha_viz.capture.projections import LayerProjections, float32, parents, repeat_heads
from mha_viz.capture.tokens import Encoded, encode
from mha_viz.core.attention import AttentionWeights
from mha_viz.core.record import AttentionRecord, Token
from mha_viz.errors import ArgumentError, AttentionUnavailableError, MhaVizError, TextError

MAX_PATTERN_BYTES = 2 * 2**30  # of one record; longer texts are truncated, and said to be
_SAMPLE = "A short text, to see whether both ways agree."


@dataclass
class _Run:
    """What one forward pass left of one stack of layers; tensors are (batch, head, ...)."""

    kept: dict[str, list[Tensor]]
    scale: list[float] = field(default_factory=list)
    hidden: Tensor | None = None

    @property
    def pattern(self) -> list[Tensor]:
        return self.kept.get("pattern", [])


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
            no interface and its own weights are read instead (z, query and key are missing then).
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
        self.parts: tuple[str, ...] = (
            ("encoder", "decoder", "cross") if network.config.is_encoder_decoder else ("self",)
        )
        self.d_vocab = int(getattr(self.config, "vocab_size", len(tokenizer)))
        self.mechanism = "ours"
        self.n_ctx = _positions(network, tokenizer)
        self._projections: dict[str, list[LayerProjections]] = {}
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
        on_layer: Callable[[int], None] | None = None,
    ) -> AttentionRecord:
        """Run one text and keep every head's attention.

        Args:
            text: any text; what does not fit n_ctx is cut off, and the record's notes say so.
            text_pair: second segment (BERT-style) or the decoder's text (T5, BART).
            part: which stack of an encoder-decoder; the first one if not given.
            keep: "pattern" and any of "z", "query", "key".
            on_layer: called after each layer with the number done; raise in it to abandon.

        Returns:
            AttentionRecord with float32 pattern (layer, head, query, key).

        Raises:
            TextError: empty text, or a pair for a model that takes one text.
            ArgumentError: an unknown part or an unknown thing to keep.
        """
        part = self.parts[0] if part is None else part
        if part not in self.parts:
            raise ArgumentError(
                f"{self.name} has the part(s) {', '.join(self.parts)}, got {part!r}."
            )
        return self.trace_parts(text, text_pair, keep=keep, on_layer=on_layer, _only=part)[part]

    def trace_parts(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        keep: Sequence[str] = ("pattern", "z"),
        on_layer: Callable[[int], None] | None = None,
        _only: str | None = None,
    ) -> dict[str, AttentionRecord]:
        """As `trace`, for all parts at once: encoder, decoder and cross attention.

        In cross attention the queries are the decoder's tokens and the keys the encoder's.
        """
        self._check_keep(keep)
        source, target = self._encode(text, text_pair)
        runs = self._run([source], None if target is None else [target], keep, on_layer)
        return {
            part: self._record(part, runs[part], 0, source, target, text, text_pair)
            for part in runs
            if _only in (None, part)
        }

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
        run = self._run(encoded, None, keep, None)["self"]
        return [
            self._record("self", run, i, item, None, text, None)
            for i, (item, text) in enumerate(zip(encoded, texts, strict=True))
        ]

    def attention_weights(self, layer: int, part: str | None = None) -> AttentionWeights:
        """One layer's W_Q, W_K, W_V, W_O and biases, split by heads (views, not copies).

        Raises:
            ArgumentError: no such layer.
            NotKeptError: the family's layout is not known.
        """
        layers = self._projections.get(part or self.parts[0], [])
        if self.mechanism != "ours":
            raise AttentionUnavailableError(
                f"{self.family} computes its attention by itself; its weights are not split here."
            )
        if not 0 <= layer < len(layers):
            raise ArgumentError(f"layer must lie in 0..{len(layers) - 1}, got {layer}.")
        return layers[layer].all(self.n_heads, self.n_kv_heads, self._scale[layer])

    # -- inside ----------------------------------------------------------------------------------

    def _settle(self) -> tuple[str, ...]:
        """Run a short text both ways once; take our function only where both agree."""
        source = encode(self.tokenizer, _SAMPLE, max_length=min(self.n_ctx, 16))
        target = self._target(_SAMPLE) if len(self.parts) > 1 else None
        targets = None if target is None else [target]
        eager, ours, reason = None, None, ""
        if self.network.config._attn_implementation == IMPLEMENTATION:
            try:
                ours = self._run([source], targets, KEEPABLE, None, settle=True)
            except (AttentionUnavailableError, MhaVizError) as error:
                reason = str(error)
            self.network.set_attn_implementation("eager")
        self.mechanism = "eager"
        try:
            eager = self._run([source], targets, ("pattern",), None)
        except AttentionUnavailableError:
            if ours is None:
                raise
        if ours is not None and (eager is None or _agree(ours, eager, self.dtype)):
            self.mechanism = "ours"
            self.network.set_attn_implementation(IMPLEMENTATION)
        runs = ours if ours is not None and self.mechanism == "ours" else eager
        assert runs is not None
        self._measure(runs)
        if self.mechanism == "ours":
            return ()
        return (
            f"The {self.family} family computes attention in a way of its own"
            + (f" ({reason})" if reason else "")
            + ": its own weights are shown, and what needs the heads' outputs is not available.",
        )

    def _measure(self, runs: dict[str, _Run]) -> None:
        first = runs[self.parts[0]]
        shape = first.pattern[0].shape
        self.n_layers, self.n_heads = len(first.pattern), int(shape[1])
        width = getattr(self.config, "hidden_size", None) or self.config.d_model
        self.d_model = int(width)
        key = first.kept.get("key")
        self.n_kv_heads = int(key[0].shape[1]) if key else self.n_heads
        self.d_head = int(key[0].shape[-1]) if key else self.d_model // self.n_heads
        self._scale = first.scale
        # Exact zeros above the diagonal in every head of every layer are a mask, not a habit.
        self.causal = all(bool(torch.triu(p, 1).count_nonzero() == 0) for p in first.pattern)
        cells = MAX_PATTERN_BYTES // (4 * self.n_layers * self.n_heads)
        self.n_ctx = min(self.n_ctx, int(cells**0.5))

    def _check_keep(self, keep: Sequence[str]) -> None:
        unknown = [name for name in keep if name not in KEEPABLE]
        if unknown or "pattern" not in keep:
            raise ArgumentError(
                f'keep must hold "pattern" and may hold {", ".join(KEEPABLE[1:])}; got {keep!r}.'
            )

    def _encode(self, text: str, text_pair: str | None) -> tuple[Encoded, Encoded | None]:
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
        first = Token(label, start, is_special=True)
        if text is None:
            return Encoded(input_ids=[start], token_type_ids=None, tokens=(first,), n_truncated=0)
        rest = encode(
            self.tokenizer, text, max_length=self.n_ctx - 1, add_special_tokens=False
        )
        return Encoded(
            input_ids=[start, *rest.input_ids],
            token_type_ids=None,
            tokens=(first, *rest.tokens),
            n_truncated=rest.n_truncated,
            truncated_is_estimate=rest.truncated_is_estimate,
        )

    @torch.inference_mode()
    def _run(
        self,
        sources: Sequence[Encoded],
        targets: Sequence[Encoded] | None,
        keep: Sequence[str],
        on_layer: Callable[[int], None] | None,
        settle: bool = False,
    ) -> dict[str, _Run]:
        """One forward pass over a batch -> what each part left behind."""
        inputs = self._inputs(sources)
        network = self.network.base_model
        if "use_cache" in inspect.signature(network.forward).parameters:
            inputs["use_cache"] = False
        try:
            if targets is None:
                return {"self": self._one_stack(network, inputs, keep, on_layer, settle)}
            return self._two_stacks(network, inputs, targets, keep, on_layer, settle)
        except torch.OutOfMemoryError as error:
            raise MhaVizError(
                f"{self.name} ran out of memory on {self.device} for this text: shorten it, or "
                "load the model on the CPU or in bfloat16."
            ) from error

    def _one_stack(
        self,
        network: Any,
        inputs: dict[str, Any],
        keep: Sequence[str],
        on_layer: Callable[[int], None] | None,
        settle: bool,
    ) -> _Run:
        if self.mechanism == "eager":
            output = network(**inputs, output_attentions=True)
            return _Run({"pattern": _weights(output.attentions, self.family)},
                        hidden=output.last_hidden_state)  # fmt: skip
        probe = Probe(keep=tuple(keep), on_layer=on_layer)
        output = network(**inputs, mha_probe=probe)
        self._note_modules(self.parts[0], probe, settle)
        return _Run(probe.kept, probe.scale, output.last_hidden_state)

    def _two_stacks(
        self,
        network: Any,
        inputs: dict[str, Any],
        targets: Sequence[Encoded],
        keep: Sequence[str],
        on_layer: Callable[[int], None] | None,
        settle: bool,
    ) -> dict[str, _Run]:
        """Encoder first, by itself; then the decoder, whose layers attend to themselves and to it."""
        inputs.pop("token_type_ids", None)
        inputs.pop("use_cache", None)
        decoder_inputs = self._inputs(targets)
        later = {
            "decoder_input_ids": decoder_inputs["input_ids"],
            "decoder_attention_mask": decoder_inputs.get("attention_mask"),
            "attention_mask": inputs.get("attention_mask"),
            "use_cache": False,
        }
        if self.mechanism == "eager":
            output = network(**{**inputs, **later}, output_attentions=True)
            lists = (output.encoder_attentions, output.decoder_attentions, output.cross_attentions)
            return {
                part: _Run({"pattern": _weights(patterns, self.family)},
                           hidden=output.last_hidden_state)
                for part, patterns in zip(self.parts, lists, strict=True)
            }  # fmt: skip
        first = Probe(keep=tuple(keep), on_layer=on_layer)
        encoded = network.get_encoder()(**inputs, mha_probe=first)
        second = Probe(keep=tuple(keep), on_layer=on_layer)
        output = network(encoder_outputs=encoded, **later, mha_probe=second)
        self._note_modules("encoder", first, settle)
        if len(second.modules) % 2:
            raise AttentionUnavailableError(
                f"{self.family}: the decoder's layers do not alternate self and cross attention."
            )
        runs = {"encoder": _Run(first.kept, first.scale, encoded.last_hidden_state)}
        for offset, part in enumerate(("decoder", "cross")):
            half = Probe(modules=second.modules[offset::2], scale=second.scale[offset::2])
            self._note_modules(part, half, settle)
            runs[part] = _Run(
                {name: layers[offset::2] for name, layers in second.kept.items()},
                half.scale,
                output.last_hidden_state,
            )
        return runs

    def _note_modules(self, part: str, probe: Probe, settle: bool) -> None:
        if not probe.modules:
            raise AttentionUnavailableError(
                f"{self.family} did not call our attention function for any layer"
            )
        if settle:  # the only write after construction begins; runs that users start only read
            above = parents(self.network)
            self._projections[part] = [LayerProjections(m, above.get(m)) for m in probe.modules]

    def _inputs(self, encoded: Sequence[Encoded]) -> dict[str, Any]:
        """Right-padded tensors; a mask only where there is padding."""
        longest = max(len(item.input_ids) for item in encoded)
        pad = self.tokenizer.pad_token_id or 0
        ids = torch.full((len(encoded), longest), pad, dtype=torch.long)
        types = torch.zeros_like(ids)
        mask = torch.zeros_like(ids)
        for row, item in enumerate(encoded):
            n = len(item.input_ids)
            ids[row, :n] = torch.tensor(item.input_ids)
            mask[row, :n] = 1
            if item.token_type_ids is not None:
                types[row, :n] = torch.tensor(item.token_type_ids)
        inputs: dict[str, Any] = {"input_ids": ids.to(self.device)}
        if any(item.token_type_ids is not None for item in encoded) and getattr(
            self.config, "type_vocab_size", 0
        ):
            inputs["token_type_ids"] = types.to(self.device)
        if not bool(mask.all()):
            inputs["attention_mask"] = mask.to(self.device)
        return inputs

    def _record(
        self,
        part: str,
        run: _Run,
        row: int,
        source: Encoded,
        target: Encoded | None,
        text: str,
        text_pair: str | None,
    ) -> AttentionRecord:
        queries = source if part in ("self", "encoder") or target is None else target
        keys = target if part == "decoder" and target is not None else source
        n, m = len(queries.tokens), len(keys.tokens)
        heads = run.pattern[0].shape[1]
        kept = {name: [layer[row] for layer in layers] for name, layers in run.kept.items()}
        if "key" in kept:
            kept["key"] = [repeat_heads(key[None], heads)[0] for key in kept["key"]]
        W_O = [projection.output(heads) for projection in self._projections.get(part, ())]
        notes = list(self.notes)
        for item in {id(item): item for item in (source, target) if item is not None}.values():
            if item.n_truncated:
                about = "about " if item.truncated_is_estimate else ""
                notes.append(
                    f"The text was cut to {len(item.tokens)} tokens, the longest that {self.name} "
                    f"takes here: {about}{item.n_truncated:,} tokens were left out."
                )
        return AttentionRecord(
            pattern=float32([p[..., :n, :m] for p in kept["pattern"]]),
            tokens=queries.tokens,
            key_tokens=keys.tokens,
            z=float32([t[:, :n] for t in kept["z"]]) if "z" in kept else None,
            query=float32([t[:, :n] for t in kept["query"]]) if "query" in kept else None,
            key=float32([t[:, :m] for t in kept["key"]]) if "key" in kept else None,
            scale=tuple(run.scale),
            W_O=tuple(w for w in W_O if w is not None) if all(w is not None for w in W_O) else (),
            model=self.name,
            family=self.family,
            part=part,
            text=text,
            text_pair=text_pair,
            causal=self.causal if part == "self" else part == "decoder",
            notes=tuple(notes),
        )


def _positions(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The longest text in tokens, from whatever config and tokenizer say; 512 where neither does."""
    config = network.config.get_text_config()
    found = [
        value
        for name in ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
        if isinstance(value := getattr(config, name, None), int) and value > 0
    ]
    limit = min(found, default=512)
    for module in network.modules():
        # RoBERTa and its relatives count positions from padding_idx + 1.
        positions = getattr(module, "position_embeddings", None)
        if isinstance(positions, torch.nn.Embedding):
            if positions.padding_idx is not None:
                limit = min(limit, positions.num_embeddings - positions.padding_idx - 1)
            break
    known = tokenizer.model_max_length
    return min(limit, known) if 0 < known < 10**9 else limit


def _weights(attentions: Any, family: str) -> list[Tensor]:
    """The model's own attention weights, or an error where it gives none."""
    if not attentions or any(layer is None or layer.ndim != 4 for layer in attentions):
        raise AttentionUnavailableError(
            f"The {family} family gives no attention weights (batch, head, query, key), neither "
            "through our attention function nor through output_attentions. Choose a BERT, GPT-2, "
            "Llama, T5 or another softmax-attention model."
        )
    return list(attentions)


def _agree(ours: dict[str, _Run], eager: dict[str, _Run], dtype: torch.dtype) -> bool:
    """Both ways give the same weights and the same hidden state, up to the dtype's rounding."""
    tolerance = 1e-4 if dtype == torch.float32 else 0.03
    for part, run in eager.items():
        mine = ours[part]
        if len(mine.pattern) != len(run.pattern):
            return False
        pairs = list(zip(mine.pattern, run.pattern, strict=True))
        if mine.hidden is not None and run.hidden is not None and part != "encoder":
            size = run.hidden.float().abs().max().clamp_min(1.0)
            pairs.append((mine.hidden / size, run.hidden / size))
        for a, b in pairs:
            if a.shape != b.shape or (a.float() - b.float()).abs().max() > tolerance:
                return False
    return True
