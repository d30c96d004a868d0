"""One batch through a model: each layer is reduced to sums as soon as it is computed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.blocks import Texts, Visible
from mha_viz.core.metrics.output_weights import output_root
from mha_viz.core.metrics.outputs import Outputs, reduce_outputs
from mha_viz.core.metrics.position import repeated_tokens
from mha_viz.core.metrics.reduction import reduce_pattern
from mha_viz.core.metrics.table import UNSEEN, output_metrics, pattern_reductions
from mha_viz.corpus.measure.batches import DeviceTransfer, NamedTensors
from mha_viz.corpus.measure.edges import HeaviestKeys, LayerEdges, layer_edges
from mha_viz.corpus.measure.padded import PaddedTexts, visible_keys
from mha_viz.corpus.measure.profiles import BINS, Profile, rows_of, weight_of
from mha_viz.corpus.measure.scores import NO_BASELINE, SCORES, chance_patterns, chance_z
from mha_viz.corpus.treebank.batch_trees import BatchTrees
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import LayerTensors
from mha_viz.engine.recording import reduce_texts
from mha_viz.engine.run import Run
from mha_viz.text.tokens import Encoded

WAYS = ("uniform", "offset")
# of metrics, that texts fulfil or get NaN
NEEDS = frozenset(("self", "neighbours", "special", "ids", "repeats", "causal", "allowed"))


@dataclass(frozen=True)
class BatchOptions:
    """The measurements of a batch beside the scores."""

    min_weight: float | None = None  # see `layer_edges`; None: no edges
    profile: Profile | None = None  # to add to, or None
    chance: bool = False  # whether to score what heads that learned nothing look at
    keep: tuple[str, ...] = ()  # what the run is to hold of all layers
    more: tuple[str, ...] = ()  # see `own_scores`

    @cached_property
    def scores(self) -> tuple[str, ...]:
        """All metrics that are computed."""
        return SCORES + self.more

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The metrics of what heads write."""
        return tuple(key for key in self.scores if "outputs" in METRICS[key].needs)

    @cached_property
    def baselines(self) -> tuple[str, ...]:
        """The metrics that have baselines."""
        return tuple(key for key in self.scores if key not in NO_BASELINE)


@dataclass(eq=False)
class _Shared:
    """Values that all layers with one mask share."""

    allowed: Tensor | None  # held, so that no other mask gets its id
    visible: Visible
    rows: dict[str, Tensor] = field(default_factory=dict)
    chance: Tensor | None = None  # patterns, (batch, 2, query, key)
    chance_scores: Tensor | None = None  # (batch, 2, score)
    repeating: Tensor | None = None  # (batch,), see `repeated_tokens`


class BatchMeasure:
    """The scores of every head on every text of a batch, and what else is measured.

    `run` is what the run keeps of all layers, `edges` what `Edges` takes of each layer.
    """

    def __init__(
        self,
        model: AttentionModel,
        encoded: Sequence[Encoded],
        options: BatchOptions,
        trees: BatchTrees | None = None,
    ) -> None:
        texts = PaddedTexts.of(encoded, model.causal, model.device)
        weights = model.output_weights(model.parts[0]) if model.backend == "mha_viz" else ()
        roots = output_root(weights, torch.float32).to(model.device) if weights else None
        layers = LayerSums(texts, roots, options, weights)

        def reduce(tensors: LayerTensors) -> None:
            pattern = layers.add(tensors)
            if trees is not None:
                trees.add(tensors.layer, pattern)

        self.run: Run | None = reduce_texts(model, encoded, reduce, options.keep)
        self._profile, self._trees, self._n_layers = options.profile, trees, len(layers.scores)
        self.edges = layers.edges
        self._on_device = layers.on_device() | ({} if trees is None else trees.on_device())

    def send(self, transfer: DeviceTransfer, then: Callable[[], None]) -> None:
        """Send all numbers to the processor, and forget `run`; call `then` when they are there."""
        sent, self.run, self._on_device = self._on_device, None, {}

        def receive(tensors: NamedTensors) -> None:
            self._receive(tensors)
            then()

        transfer.send(sent, receive)

    def _receive(self, tensors: NamedTensors) -> None:
        """Take the numbers that were fetched."""
        self._tensors = tensors
        if self._trees is not None:
            self._trees.finish(tensors)
        if self._profile is not None:
            for layer in range(self._n_layers):
                weight, rows = (
                    {axis: tensors[name, layer, axis] for axis in BINS}
                    for name in ("weight", "rows")
                )
                self._profile.add(layer, weight, rows)

    @cached_property
    def _tensors(self) -> NamedTensors:
        """All numbers on the processor: those that arrived, or fetched now."""
        return {name: tensor.cpu() for name, tensor in self._on_device.items()}

    def numbers(self, name: str) -> np.ndarray:
        """Return float32 numbers of each text and layer, NaN where not defined.

        "scores" are (text, layer, head, score), in order of `BatchOptions.scores`; "chance" is
        (text, layer, way, score), of `WAYS` and `BatchOptions.baselines`: of scores of what heads
        write the mean over all heads of all layers, as in `core.metrics.baselines`; "repeating",
        (text, layer), has the different tokens that a duplicate-token score rests on.
        """
        return self._tensors[name].numpy()


class LayerSums:
    """The sums of each layer as it comes, which stay on the device that it is on.

    Nothing here waits for the device or reads from it, but for metrics that need a text as a whole;
    that is for when the run is done.
    """

    def __init__(
        self,
        texts: PaddedTexts,
        roots: Tensor | None,
        options: BatchOptions,
        weights: Sequence[Tensor] = (),
    ) -> None:
        self.texts, self.options, self._roots, self._weights = texts, options, roots, weights
        # of each layer, in the order of the options' scores, baselines and outputs
        self.scores: list[Tensor] = []  # (batch, head, score)
        self.chance: list[Tensor] = []  # (batch, way, score)
        self.chance_outputs: list[Tensor] = []  # (batch, head, way, score)
        self.repeating: list[Tensor] = []  # (batch,), see `repeated_tokens`
        self.edges: list[LayerEdges | HeaviestKeys] = []
        self.profiles: list[tuple[dict[str, Tensor], dict[str, Tensor]]] = []
        self._shared: dict[int, _Shared] = {}
        hidden = UNSEEN if texts.causal else frozenset()
        self._wanted = frozenset(options.scores) - hidden

    def add(self, tensors: LayerTensors) -> Tensor:
        """Reduce the next layer; return its pattern, with zeros in the rows of padding."""
        shared, options = self._shared_by_mask(tensors.allowed), self.options
        pattern = self.texts.cleared(tensors.pattern)
        scores = self._of_patterns(pattern, shared.visible, tensors.has_sinks)
        if tensors.z is not None:
            scores |= self._of_outputs(tensors.layer, tensors.z, self.texts)
        self.scores.append(self._stacked(scores, options.scores))
        if options.profile is not None:
            self.profiles.append((weight_of(pattern, self.texts), shared.rows))
        if options.min_weight is not None:
            self.edges.append(layer_edges(tensors.layer, pattern, self.texts, options.min_weight))
        if options.chance:
            self._add_chance(tensors, shared, pattern.shape[1])
        return pattern

    def _add_chance(self, tensors: LayerTensors, shared: _Shared, n_heads: int) -> None:
        """Add what heads that learned nothing score."""
        assert shared.chance is not None
        assert shared.chance_scores is not None and shared.repeating is not None
        self.chance.append(shared.chance_scores)
        self.repeating.append(shared.repeating)
        if self._roots is not None and tensors.value is not None:
            both = chance_z(shared.chance, tensors.value, n_heads, self.texts)
            texts = self.texts.once("twice", lambda: self.texts.repeat(len(WAYS)))
            scores = self._of_outputs(tensors.layer, both, texts)
            outputs = self._stacked(scores, self.options.outputs)
            self.chance_outputs.append(outputs.unflatten(0, (len(WAYS), -1)).movedim(0, 2))

    def on_device(self) -> NamedTensors:
        """Return what is to be fetched of all layers, by name; the run is done."""
        tensors: NamedTensors = {"scores": torch.stack(self.scores, 1)}
        if self.chance:
            tensors["chance"] = torch.stack(self.chance, 1)
            tensors["repeating"] = torch.stack(self.repeating, 1)
        if self.chance_outputs:
            means = torch.cat(self.chance_outputs, 1).nanmean(1)  # (text, way, score)
            columns = [self.options.baselines.index(key) for key in self.options.outputs]
            for column, mean in zip(columns, means.unbind(-1), strict=True):
                tensors["chance"][..., column] = mean[:, None]
        for layer, of_axes in enumerate(self.profiles):
            for name, sums in zip(("weight", "rows"), of_axes, strict=True):
                tensors |= {(name, layer, axis): tensor for axis, tensor in sums.items()}
        return tensors

    def _of_patterns(
        self, pattern: Tensor, visible: Visible, has_sinks: bool = False
    ) -> dict[str, Tensor]:
        """Compute all scores that are made of weights."""
        needs = NEEDS | {"sink"} if has_sinks else NEEDS
        reductions = pattern_reductions(needs, self._wanted)
        return reduce_pattern(pattern, self.texts, visible, reductions)

    def _of_outputs(self, layer: int, z: Tensor, texts: Texts) -> dict[str, Tensor]:
        """Compute all scores that are made of what heads write, where their weights are known."""
        if self._roots is None:
            return {}
        W_O = self._weights[layer : layer + 1]
        outputs = Outputs(z, self._roots[layer : layer + 1], texts, W_O)
        return reduce_outputs(outputs, output_metrics(NEEDS, self._wanted))

    def _shared_by_mask(self, allowed: Tensor | None) -> _Shared:
        if id(allowed) not in self._shared:
            shared = _Shared(allowed, visible_keys(self.texts, allowed))
            if self.options.profile is not None:
                shared.rows = rows_of(self.texts, shared.visible.keys)
            if self.options.chance:
                shared.repeating = repeated_tokens(shared.visible, self.texts)
                shared.chance = chance_patterns(self.texts, shared.visible.keys)
                scores = self._of_patterns(shared.chance, shared.visible)
                shared.chance_scores = self._stacked(scores, self.options.baselines)
            self._shared[id(allowed)] = shared
        return self._shared[id(allowed)]

    def _stacked(self, scores: dict[str, Tensor], names: Sequence[str]) -> Tensor:
        """Stack scores to (batch, head, score); NaN for what is not there."""
        like = next(iter(scores.values()))
        missing = self.texts.once(
            ("missing", *like.shape), lambda: torch.full_like(like, torch.nan)
        )
        return torch.stack([scores.get(name, missing) for name in names], -1)
