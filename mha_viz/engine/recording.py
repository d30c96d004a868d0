"""Records of encoded texts: one forward pass, and a record of each text."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mha_viz.core.record.record import AttentionRecord
from mha_viz.engine.attention_function import HeadEdits, LayerTensors
from mha_viz.engine.loaded_network import LoadedNetwork
from mha_viz.engine.masks import infer_window, none_if_ordinary
from mha_viz.engine.own_weights import check_own_weights
from mha_viz.engine.projections import float32, repeat_heads
from mha_viz.engine.run import (
    OnLayer,
    Reduce,
    Run,
    RunOptions,
    check_keep,
    check_own,
    run,
    run_first_stack,
)
from mha_viz.text.encoding import Texts, attending, text_notes
from mha_viz.text.tokens import Encoded


def run_texts(
    model: LoadedNetwork,
    sources: Sequence[Encoded],
    targets: Sequence[Encoded] | None,
    keep: Sequence[str],
    on_layer: OnLayer | None = None,
    edits: HeadEdits | None = None,
) -> dict[str, Run]:
    """Run a model over a batch once, as `run` describes it: a run for each part.

    One stack alone is run no further than its last attention: a record holds nothing from above.
    """
    options = RunOptions(keep, on_layer, model.n_layers if targets is None else 0, edits)
    pad = model.tokenizer.pad_token_id or 0
    left = run(model.network, model.backend, sources, targets, pad=pad, options=options)
    if model.backend == "eager":
        check_own(left, sources, targets, model.family)
    return left


def trace_encoded(
    model: LoadedNetwork,
    source: Encoded,
    target: Encoded | None = None,
    keep: Sequence[str] = ("pattern", "z"),
    on_layer: OnLayer | None = None,
    only: str | None = None,
    edits: HeadEdits | None = None,
) -> dict[str, AttentionRecord]:
    """Run as `AttentionModel.trace_parts` does, with texts that are encoded already.

    `only` names the one part that is to be returned; `edits` are changes to heads.
    """
    keep = check_keep(keep)
    runs = run_texts(model, [source], None if target is None else [target], keep, on_layer, edits)
    notes = (edits.note,) if edits is not None and edits.note else ()
    texts = (source, target)
    return {
        part: record_of(model, part, runs[part], 0, texts, notes)
        for part in runs
        if only in (None, part)
    }


@torch.inference_mode()
def reduce_texts(
    model: LoadedNetwork, sources: Sequence[Encoded], reduce: Reduce, keep: Sequence[str] = ()
) -> Run:
    """Run a batch once and hand on each layer of the first part, without keeping it."""
    options = RunOptions(keep, n_layers=model.n_layers, reduce=reduce)
    pad = model.tokenizer.pad_token_id or 0
    left = run_first_stack(model.network, model.backend, sources, pad=pad, options=options)
    if model.backend == "eager":
        check_own_weights(left.pattern, sources, sources, model.family)
        for layer, pattern in enumerate(left.pattern):
            seen = _seen_by_weights(pattern, sources, model.causal)
            reduce(LayerTensors(layer, pattern, allowed=seen))
    return left


def _seen_by_weights(pattern: Tensor, sources: Sequence[Encoded], causal: bool) -> Tensor:
    """Infer each text's mask of a layer from its weights, (batch, query, key)."""
    found = torch.zeros(pattern.shape[0], *pattern.shape[2:], dtype=torch.bool)
    for row, source in enumerate(sources):
        n = len(source.input_ids)
        every = torch.ones(n, n, dtype=torch.bool)
        ordinary = every.tril() if causal else every
        found[row, :n, :n] = infer_window(pattern[row, :, :n, :n], ordinary)
    return found.to(pattern.device)


def record_of(
    model: LoadedNetwork,
    part: str,
    left: Run,
    row: int,
    texts: Texts,
    notes: tuple[str, ...] = (),
) -> AttentionRecord:
    """Make a record of one text of a batch, without the padding behind it."""
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
        allowed=recorded_mask(left, row, pattern, causal, is_cross=part == "cross"),
        notes=model.notes + text_notes(model.name, source, target) + notes,
    )


def recorded_mask(
    left: Run, row: int, pattern: Sequence[Tensor] | Tensor, causal: bool, is_cross: bool = False
) -> Tensor | None:
    """Return what each layer let a text's queries see; None where that is what `causal` says."""
    n, m = pattern[0].shape[1:]
    ordinary = torch.ones(n, m, dtype=torch.bool)
    ordinary = ordinary.tril() if causal else ordinary
    if left.allowed:
        layers = [
            None if seen is None else seen[row if len(seen) > 1 else 0, :n, :m].cpu()
            for seen in left.allowed
        ]
        return none_if_ordinary(layers, ordinary)
    if is_cross:
        return None
    return none_if_ordinary([infer_window(layer, ordinary) for layer in pattern], ordinary)
