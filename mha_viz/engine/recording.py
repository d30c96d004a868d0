"""Records of encoded texts: one forward pass, and a record of each text."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.attention.scoring import RowReduction, Scoring, Tiles
from mha_viz.core.measure import text_sums
from mha_viz.core.metrics.row_sums import TextSums
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.patterns import ComputedPatterns, Patterns, StoredPatterns, weight_bounds
from mha_viz.engine.intervention import Change
from mha_viz.engine.loaded_network import TILES, LoadedNetwork
from mha_viz.engine.probe import HeadEdits, LayerTensors, Probe, ScoredLayer
from mha_viz.engine.projections import float32, stacked
from mha_viz.engine.run import (
    REDUCIBLE,
    Batch,
    OnLayer,
    Reduce,
    Run,
    check_keep,
    check_own,
    check_own_weights,
    run,
    run_first_stack,
)
from mha_viz.text.encoding import Texts, attending, text_notes
from mha_viz.text.tokens import Encoded


class PatternReductions:
    """The tiles and metrics, as far as `keep` names them, of one text's only stack."""

    def __init__(self, model: LoadedNetwork, source: Encoded, keep: Sequence[str]) -> None:
        self._causal, self._tokens = model.causal, source.tokens
        self.wanted = {"tiles", "metrics"} & set(keep)
        self._tiles: list[Tiles] = []
        self._sums: TextSums | None = None

    def __call__(self, layer: int, scoring: Scoring, query: Tensor) -> list[RowReduction]:
        """Return what the rows of a layer are to be given to."""
        reductions: list[RowReduction] = []
        shape = (query.shape[1], len(self._tokens), len(self._tokens))
        if "tiles" in self.wanted:
            self._tiles.append(Tiles(shape, TILES, device=query.device))
            reductions.append(self._tiles[-1])
        if "metrics" in self.wanted:
            if self._sums is None:
                self._sums = text_sums(
                    self._tokens,
                    len(self._tokens),
                    self._causal,
                    has_sinks=scoring.sinks is not None,
                )
            n, sight = len(self._tokens), scoring.sight
            visible_rows = partial(sight.visible_keys, n_queries=n, n_keys=n, device=query.device)
            reductions.append(self._sums.layer(visible_rows, device=query.device))
        return reductions

    def attach_to(self, record: AttentionRecord) -> None:
        """Give a record what the pass has made of its weights."""
        patterns = record.patterns
        if self._tiles and isinstance(patterns, ComputedPatterns):
            patterns.pooled[TILES, "max"] = torch.stack([t.pooled.cpu() for t in self._tiles])
        if self._sums is not None and isinstance(patterns, ComputedPatterns):
            patterns.measured[self._sums.about] = self._sums.finish()


def run_texts(
    model: LoadedNetwork,
    sources: Batch,
    targets: Batch | None,
    keep: Sequence[str],
    on_layer: OnLayer | None = None,
    edits: HeadEdits | None = None,
    reductions: PatternReductions | None = None,
) -> dict[str, Run]:
    """Run a model over a batch once, as `run` describes it: a run for each part.

    One stack alone is run no further than its last attention: a record holds nothing from above.
    """
    longest = max(len(text.input_ids) for text in (*sources, *(targets or ())))
    reductions = reductions if reductions is not None and reductions.wanted else None
    # elsewhere than on the processor weights are not fetched where sums of them are wanted
    reduced = reductions is not None and model.device.type != "cpu"
    is_ours = model.backend == "mha_viz"
    by_rows = len(sources) == 1 and (model.runs_by_rows(longest) or (reduced and is_ours))
    n_layers = model.n_layers if targets is None else 0
    probe = Probe(
        keep, on_layer, n_layers, n_layers > 0, edits, by_rows=by_rows, reductions=reductions
    )
    pad = model.tokenizer.pad_token_id or 0
    runs = run(model.network, model.backend, sources, targets, pad=pad, probe=probe)
    if model.backend == "eager":
        check_own(runs, sources, targets, model.family)
    return runs


def trace_encoded(
    model: LoadedNetwork,
    source: Encoded,
    target: Encoded | None = None,
    keep: Sequence[str] = ("pattern", "z"),
    on_layer: OnLayer | None = None,
    only: str | None = None,
    edits: HeadEdits | None = None,
) -> dict[str, AttentionRecord]:
    """Return the records of encoded texts as `trace_parts`, or of part `only`, under `edits`."""
    reductions = None
    if target is None and _change_of_patterns(edits) is None:
        reductions = PatternReductions(model, source, check_keep(keep))
    keep = [name for name in check_keep(keep) if name not in REDUCIBLE]
    targets = None if target is None else [target]
    runs = run_texts(model, [source], targets, keep, on_layer, edits, reductions)
    records = {
        part: record_of(model, part, runs[part], 0, (source, target), edits)
        for part in runs
        if only in (None, part)
    }
    if reductions is not None:
        reductions.attach_to(records["self"])
    return records


@torch.inference_mode()
def reduce_texts(
    model: LoadedNetwork, sources: Batch, reduce: Reduce, keep: Sequence[str] = ()
) -> Run:
    """Run a batch and hand on each layer of the first part, on the model's device, keeping none."""

    def reduce_on_device(layer: LayerTensors) -> None:
        reduce(layer.on(model.device))

    probe = Probe(keep, n_layers=model.n_layers, stop=True, reduce=reduce_on_device)
    pad = model.tokenizer.pad_token_id or 0
    first_run = run_first_stack(model.network, model.backend, sources, pad=pad, probe=probe)
    if model.backend == "eager":
        check_own_weights(first_run.pattern, sources, sources, model.family)
        for layer, pattern in enumerate(first_run.pattern):
            mask = _mask_by_weights(pattern, sources, model.causal)
            reduce(LayerTensors(layer, pattern, allowed=mask).on(model.device))
    for layers in first_run.tensors.values():
        if isinstance(layers, list):
            layers[:] = [layer.to(model.device) for layer in layers]
    return first_run


def _mask_by_weights(pattern: Tensor, sources: Batch, causal: bool) -> Tensor:
    """Infer each text's mask of a layer from its weights, (batch, query, key)."""
    masks = torch.zeros(pattern.shape[0], *pattern.shape[2:], dtype=torch.bool)
    for row, source in enumerate(sources):
        n = len(source.input_ids)
        every = torch.ones(n, n, dtype=torch.bool)
        ordinary = every.tril() if causal else every
        masks[row, :n, :n] = infer_window(pattern[row, :, :n, :n], ordinary)
    return masks.to(pattern.device)


def record_of(
    model: LoadedNetwork,
    part: str,
    run: Run,
    row: int,
    texts: Texts,
    edits: HeadEdits | None = None,
) -> AttentionRecord:
    """Make a record of one text of a batch, without the padding behind it."""
    source, target = texts
    queries, keys = attending(part, source, target)
    n, m = slice(len(queries.tokens)), slice(len(keys.tokens))
    tensors = {
        name: float32(run.tensors.pop(name) if run.scored else run.tensors[name], row, positions)
        for name, positions in {"z": n, "query": n, "key": m, "value": m}.items()
        if name in run.tensors
    }
    causal = model.causal if part == "self" else part == "decoder"
    if run.scored:
        patterns: Patterns = computed_patterns(run.scored, tensors)
        shares = [layer.sink.float().cpu() for layer in run.scored if layer.sink is not None]
        sink, allowed = torch.stack(shares) if shares else None, None
        change = _change_of_patterns(edits, part)
        if change is not None:
            patterns = change.replaced(patterns)
            sink = sink if sink is None else (1 - patterns.row_sums()).clamp(0.0, 1.0)
    else:
        bounds = _bounds_on_card(run.pattern, (row, slice(None), n, m))
        pattern = float32(run.tensors["pattern"], row, n, m)
        patterns, sink = StoredPatterns(pattern, bounds), None
        if run.has_sinks:
            sink = (1 - pattern.sum(-1)).clamp(0.0, 1.0)
        allowed = recorded_mask(run, row, pattern, causal, is_cross=part == "cross")
    notes = (edits.note,) if edits is not None and edits.note else ()
    return AttentionRecord(
        patterns=patterns,
        tokens=queries.tokens,
        key_tokens=keys.tokens,
        **tensors,
        scale=tuple(run.scale),
        W_O=model.output_weights(part),
        model=model.name,
        family=model.family,
        part=part,
        text=source.text,
        text_pair=source.text_pair if target is None else target.text_pair,
        causal=causal,
        sink=sink,
        allowed=allowed,
        layer_numbers=model.numbers_of(part),
        notes=model.notes + text_notes(model.name, source, target) + notes,
    )


def _bounds_on_card(layers: Sequence[Tensor] | Tensor, part: tuple[Any, ...]) -> Tensor | None:
    """Return `weight_bounds` of a text where a card has its weights: it reads them much faster."""
    if isinstance(layers, Tensor) or not layers[0].is_cuda:
        return None
    bounds = [weight_bounds(weights[part]).cpu() for weights in layers]
    low, high, row_max = torch.stack(bounds).unbind(-1)
    return torch.stack([low.min(), high.max(), row_max.max()])


def _change_of_patterns(edits: HeadEdits | None, part: str | None = None) -> Change | None:
    """Return the change of heads of a part (None: of any) that gives them other weights."""
    if edits is None or part not in (None, edits.part) or not isinstance(edits.change, Change):
        return None
    return edits.change if edits.change.new_patterns else None


def computed_patterns(layers: list[ScoredLayer], shared: Mapping[str, Tensor]) -> ComputedPatterns:
    """Return the patterns of a run by rows; queries and keys that were kept as well are shared."""
    moved: dict[int, Tensor] = {}

    def on_cpu(tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        return moved.setdefault(id(tensor), tensor.detach().cpu())  # layers share masks

    def scored(name: str) -> tuple[Tensor, ...]:
        stack = shared.get(name)
        of_layers = [getattr(layer, name) for layer in layers]
        if stack is not None and of_layers[0].dtype == torch.float32:
            return tuple(stack)
        if of_layers[0].is_cuda and len({tensor.shape for tensor in of_layers}) == 1:
            return tuple(stacked(of_layers, torch.device("cpu"), of_layers[0].dtype))
        n_bytes = sum(tensor.nbytes for tensor in of_layers)
        return tuple(_without_neighbours(tensor.detach().cpu(), n_bytes) for tensor in of_layers)

    rules = [layer.scoring for layer in layers]
    scoring = [replace(rule, sinks=on_cpu(rule.sinks), bias=on_cpu(rule.bias)) for rule in rules]
    return ComputedPatterns(scored("query"), scored("key"), tuple(scoring))


def _without_neighbours(tensor: Tensor, n_bytes: int) -> Tensor:
    """Return the tensor, copied where more than `held` bytes would be held with it."""
    return tensor if tensor.untyped_storage().nbytes() <= n_bytes else tensor.clone()


def recorded_mask(
    run: Run, row: int, pattern: Sequence[Tensor] | Tensor, causal: bool, is_cross: bool = False
) -> Tensor | None:
    """Return what each layer let a text's queries see; None where that is what `causal` says."""
    n, m = pattern[0].shape[1:]
    ordinary = torch.ones(n, m, dtype=torch.bool)
    ordinary = ordinary.tril() if causal else ordinary
    if run.allowed:
        layers = [
            # LayoutLM's mask has one row for all queries
            None if mask is None else mask[row if len(mask) > 1 else 0, :n, :m].expand(n, m).cpu()
            for mask in run.allowed
        ]
        return none_if_ordinary(layers, ordinary)
    if is_cross:
        return None
    return none_if_ordinary([infer_window(layer, ordinary) for layer in pattern], ordinary)


def infer_window(
    weights: Float[Tensor, "head query key"], ordinary: Bool[Tensor, "query key"]
) -> Bool[Tensor, "query key"]:
    """Infer from a layer's weights what it let its queries see, where no mask is at hand.

    A sliding window hides every key from some distance on: a weight of exactly 0 there in all rows
    of all heads. Zeros elsewhere say nothing, since a softmax rounds to 0 as well.
    """
    used = (weights != 0).any(0)
    offsets = torch.arange(used.shape[0])[:, None] - torch.arange(used.shape[1])
    reached = offsets[used.cpu()]
    return ordinary & (offsets <= reached.max()) & (offsets >= reached.min())


def none_if_ordinary(
    layers: Sequence[Bool[Tensor, "query key"] | None], ordinary: Bool[Tensor, "query key"]
) -> Bool[Tensor, "layer query key"] | None:
    """Stack the layers' masks as a record holds them: None where all are as ordinary."""
    masks = [ordinary if layer is None else layer for layer in layers]
    if all(torch.equal(layer, ordinary) for layer in masks):
        return None
    return torch.stack(masks)
