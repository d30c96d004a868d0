"""From texts as tokens to records: one forward pass, and what it left behind of each text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mha_viz.core.record import AttentionRecord
from mha_viz.engine.attention_function import LayerTensors
from mha_viz.engine.masks import inside_window, unless_ordinary
from mha_viz.engine.own_weights import check_own_weights
from mha_viz.engine.projections import float32, repeat_heads
from mha_viz.engine.run import OnLayer, Reduce, Run, check_own, run, run_first_stack
from mha_viz.text.encoding import Texts, attending, text_notes
from mha_viz.text.tokens import Encoded

if TYPE_CHECKING:
    from mha_viz.engine.attention_function import HeadEdits
    from mha_viz.engine.model import AttentionModel


def run_texts(
    model: AttentionModel,
    sources: Sequence[Encoded],
    targets: Sequence[Encoded] | None,
    keep: Sequence[str],
    on_layer: OnLayer | None = None,
    edits: HeadEdits | None = None,
) -> dict[str, Run]:
    """One forward pass of a model over a batch, as `run` describes it: a run for each part.

    One stack alone is run no further than its last attention: a record holds nothing from above.

    Args:
        model: the model to run.
        sources: the texts.
        targets: the decoder's texts, of an encoder-decoder.
        keep: what to keep, checked by `check_keep`.
        on_layer: see `Probe`.
        edits: what happens to heads, by `head_edits`.

    Raises:
        AttentionUnavailableError: the family's own weights are none by query and key.
        MhaVizError: out of memory.
    """
    left = run(
        *(model.network, model.backend, sources, targets),
        pad=model.tokenizer.pad_token_id or 0,
        keep=keep,
        on_layer=on_layer,
        n_layers=model.n_layers if targets is None else 0,
        edits=edits,
    )
    if model.backend == "eager":
        check_own(left, sources, targets, model.family)
    return left


@torch.inference_mode()
def reduce_texts(
    model: AttentionModel, sources: Sequence[Encoded], reduce: Reduce, keep: Sequence[str] = ()
) -> Run:
    """One forward pass over a batch that hands on each layer of the first part, and forgets it.

    Args:
        model: the model to run; of an encoder-decoder the encoder alone.
        sources: the texts.
        reduce: handed every layer in turn, see `LayerTensors`. Where `backend` is "eager", layers
            come when all are done, and have no z.
        keep: what the run is to hold of all layers all the same.

    Raises:
        AttentionUnavailableError, MhaVizError: as `run_texts`.
    """
    pad, n_layers = model.tokenizer.pad_token_id or 0, model.n_layers
    left = run_first_stack(
        *(model.network, model.backend, sources),
        pad=pad,
        n_layers=n_layers,
        keep=keep,
        reduce=reduce,
    )
    if model.backend == "eager":
        check_own_weights(left.pattern, sources, sources, model.family)
        for layer, pattern in enumerate(left.pattern):
            seen = _seen_by_weights(pattern, sources, model.causal)
            reduce(LayerTensors(layer, pattern, allowed=seen))
    return left


def _seen_by_weights(pattern: Tensor, sources: Sequence[Encoded], causal: bool) -> Tensor:
    """What a layer whose mask is not at hand let each text's queries see, (batch, query, key)."""
    found = torch.zeros(pattern.shape[0], *pattern.shape[2:], dtype=torch.bool)
    for row, source in enumerate(sources):
        n = len(source.input_ids)
        every = torch.ones(n, n, dtype=torch.bool)
        ordinary = every.tril() if causal else every
        found[row, :n, :n] = inside_window(pattern[row, :, :n, :n], ordinary)
    return found.to(pattern.device)


def record_of(
    model: AttentionModel,
    part: str,
    left: Run,
    row: int,
    texts: Texts,
    notes: tuple[str, ...] = (),
) -> AttentionRecord:
    """One text of a batch as a record, without the padding behind it.

    Args:
        model: the one that was run.
        part: which of its stacks.
        left: what the batch left there; key and value heads are repeated for their query heads.
        row: of the text in the batch.
        texts: the text, and the decoder's.
        notes: what to say besides the model's own notes and what was cut.
    """
    source, target = texts
    queries, keys = attending(part, source, target)
    n, m = slice(len(queries.tokens)), slice(len(keys.tokens))
    kept, heads = left.kept, left.pattern[0].shape[1]
    key, value = (
        repeat_heads(float32(kept[name], row, m), heads) if name in kept else None
        for name in ("key", "value")
    )
    pattern = float32(kept["pattern"], row, n, m)
    causal = model.causal if part == "self" else part == "decoder"
    return AttentionRecord(
        pattern=pattern,
        tokens=queries.tokens,
        key_tokens=keys.tokens,
        z=float32(kept["z"], row, n) if "z" in kept else None,
        query=float32(kept["query"], row, n) if "query" in kept else None,
        key=key,
        value=value,
        scale=tuple(left.scale),
        W_O=model.output_weights(part),
        model=model.name,
        family=model.family,
        part=part,
        text=source.text,
        text_pair=source.text_pair if target is None else target.text_pair,
        causal=causal,
        sink=(1 - pattern.sum(-1)).clamp(0.0, 1.0) if left.has_sinks else None,
        allowed=allowed_by(left, row, pattern, causal, is_cross=part == "cross"),
        notes=model.notes + text_notes(model.name, source, target) + notes,
    )


def allowed_by(
    left: Run, row: int, pattern: Sequence[Tensor] | Tensor, causal: bool, is_cross: bool = False
) -> Tensor | None:
    """What each layer let a text's queries see; None where that is what `causal` says.

    Args:
        left: what the batch left in one part.
        row: of the text in the batch.
        pattern: its weights, each layer's (head, query, key).
        causal: queries see keys up to their own position.
        is_cross: queries and keys are different texts.
    """
    n, m = pattern[0].shape[1:]
    ordinary = torch.ones(n, m, dtype=torch.bool)
    ordinary = ordinary.tril() if causal else ordinary
    if left.allowed:
        layers = [
            None if seen is None else seen[row if len(seen) > 1 else 0, :n, :m].cpu()
            for seen in left.allowed
        ]
        return unless_ordinary(layers, ordinary)
    if is_cross:
        return None
    return unless_ordinary([inside_window(layer, ordinary) for layer in pattern], ordinary)
