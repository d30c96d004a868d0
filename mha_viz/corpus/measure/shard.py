"""One shard of a study: some texts run, measured and put into tables."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import torch

from mha_viz.corpus.measure.batches import Batch, DeviceTransfer, batches, pass_tokens
from mha_viz.corpus.measure.edges import Edges
from mha_viz.corpus.measure.measuring import WAYS, BatchMeasure, BatchOptions
from mha_viz.corpus.measure.pair_similarity import MEASURES, PairSums, parts_to_keep
from mha_viz.corpus.measure.profiles import Profile, histogram
from mha_viz.corpus.measure.scores import own_scores
from mha_viz.corpus.sources.documents import DOCUMENT
from mha_viz.corpus.sources.source import Item
from mha_viz.corpus.treebank.batch_trees import BatchTrees
from mha_viz.corpus.treebank.gold import TreeCounts
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.text.tokens import Encoded

OnBatch = Callable[[int, int], None]
TWIN_TREES = ("relations", "parses", "coreference")  # that are counted of an untrained copy, too


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a study; with the source they decide every byte of the result."""

    batch_tokens: int = 8192  # padded tokens that run together; a longer text runs by itself
    pairs: bool = True  # whether heads are compared with each other
    # whether by this divergence, too: a logarithm for each two weights
    jensen_shannon: bool = False
    edges: bool = True  # whether to keep which token attends to which
    baselines: bool = True  # whether to score heads that learned nothing
    min_weight: float = 0.3  # in [0, 1], of an edge that is not its query's strongest
    keep_texts: bool = True  # whether single texts stay, or their sums alone
    # that torch adds up with; with others, the last digits of some sums are others
    threads: int = field(default_factory=torch.get_num_threads)
    join: str | None = None  # `DOCUMENT` joins the sentences of each document to texts
    more: tuple[str, ...] = field(default_factory=own_scores)  # metrics of one's own

    def __post_init__(self) -> None:
        if self.batch_tokens < 1:
            raise ArgumentError(f"batch_tokens must be 1 or more, got {self.batch_tokens}.")
        if not 0 <= self.min_weight <= 1:
            raise ArgumentError(f"min_weight must lie in 0..1, got {self.min_weight}.")
        if self.join not in (None, DOCUMENT):
            raise ArgumentError(f"join must be {DOCUMENT!r} or left out, got {self.join!r}.")

    @contextmanager
    def in_threads(self) -> Iterator[None]:
        """Let torch work in as many threads as the settings say."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@dataclass(frozen=True)
class Shard:
    """The measurements of some texts."""

    make_tables: Callable[[], dict[str, pa.Table]]  # waits for the last batch
    skipped: list[tuple[str, str]]  # place and reason of each text that the model cannot read
    # n_texts that were measured; n_tokens of these; n_padded, tokens that were run with the
    # padding; n_skipped texts; n_truncated, texts that were longer than the model takes; and
    # n_left_out, tokens that were cut off them, of very long texts an estimate
    counts: dict[str, int]

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """The tables by name, none where no text could be read: made by who first asks for them.

        That may be a thread, while the next shard is run.
        """
        return self.make_tables()


def measure_shard(
    model: AttentionModel,
    items: Sequence[Item],
    settings: Settings,
    *,
    untrained: AttentionModel | None = None,
    on_batch: OnBatch | None = None,
) -> Shard:
    """Run some texts and measure every head on each of them: `measure_batches`, unprepared."""
    of_pass = pass_tokens(model.device)
    packed, skipped = batches(model.layer_reader, items, settings.batch_tokens, of_pass)
    return measure_batches(model, packed, skipped, settings, untrained=untrained, on_batch=on_batch)


def measure_batches(
    model: AttentionModel,
    packed: Sequence[Batch],
    skipped: list[tuple[str, str]],
    settings: Settings,
    *,
    untrained: AttentionModel | None = None,
    on_batch: OnBatch | None = None,
) -> Shard:
    """Run the texts of a shard and measure every head on each of them.

    Of an encoder-decoder the encoder is measured. Rows of a table stand in order of text, layer and
    head, whatever the order in which the texts were run. `untrained` is the same architecture with
    random weights, run over the same batches; `on_batch` is called after each batch with the texts
    and tokens so far, and what it raises abandons the shard.
    """
    measured = _Measured(model, settings)
    theirs, their_trees = list[np.ndarray](), TreeCounts(causal=model.causal)
    texts, tokens = 0, 0
    for batch in packed:
        for part in parts_to_keep(model, batch) if settings.pairs else [batch]:
            measured.add(part)
        if settings.baselines and untrained is not None and untrained.backend == "mha_viz":
            trees = _trees_of(batch, their_trees, untrained.device)
            options = BatchOptions(more=settings.more)
            twin = BatchMeasure(untrained, batch.encoded, options, trees)
            twin.send(
                measured.transfer, partial(lambda of: theirs.append(of.numbers("scores")), twin)
            )
        texts, tokens = texts + len(batch.items), tokens + batch.n_real
        if on_batch is not None:
            on_batch(texts, tokens)

    def make_tables() -> dict[str, pa.Table]:
        measured.transfer.finish()
        tables = measured.tables() if packed else {}
        if theirs:
            numbers, order = measured.numbers_in_order()
            names = measured.options.scores
            tables["untrained"] = _score_table(names, numbers, np.concatenate(theirs)[order])
            if measured.has_trees:
                counted = their_trees.tables()
                tables |= {f"untrained_{name}": counted[name] for name in TWIN_TREES}
        return tables

    left_out = [text.n_truncated for batch in packed for text in batch.encoded]
    counts = dict(n_texts=texts, n_tokens=tokens, n_padded=sum(batch.n_padded for batch in packed))
    counts |= dict(n_skipped=len(skipped), n_truncated=sum(n > 0 for n in left_out))
    return Shard(make_tables, skipped, counts | dict(n_left_out=sum(left_out)))


class _Measured:
    """The measurements of a shard so far."""

    def __init__(self, model: AttentionModel, settings: Settings) -> None:
        self.model = model
        weights_only = model.backend == "eager"  # there are no outputs to compare
        keep = ("pattern",) if weights_only else ("pattern", "z")
        self.profile = Profile(model.n_layers, model.n_heads)
        self.options = BatchOptions(
            settings.min_weight if settings.edges else None,
            self.profile,
            settings.baselines,
            keep if settings.pairs else (),
            settings.more,
        )
        n_all = model.n_layers * model.n_heads
        measures: tuple[str, ...] = MEASURES[:1] if weights_only else MEASURES
        measures += ("jensen_shannon",) * settings.jensen_shannon
        self.pairs = PairSums(n_all, measures) if settings.pairs else None
        self.edges = Edges()
        self.transfer = DeviceTransfer()
        self.texts: list[tuple[Item, Encoded]] = []
        # by name, of the texts so far, a part for each batch
        self.numbers: dict[str, list[np.ndarray]] = defaultdict(list)
        self.trees = TreeCounts(causal=model.causal)

    def add(self, batch: Batch) -> None:
        trees = _trees_of(batch, self.trees, self.model.device)
        measure = BatchMeasure(self.model, batch.encoded, self.options, trees)
        if self.pairs is not None:
            assert measure.run is not None
            self.pairs.add(measure.run, batch.encoded)
        measure.send(self.transfer, partial(self._take, batch, measure))

    def _take(self, batch: Batch, measure: BatchMeasure) -> None:
        """Take the numbers of a batch that have arrived."""
        self.texts += zip(batch.items, batch.encoded, strict=True)
        for name in ("scores", "chance", "repeating") if self.options.chance else ("scores",):
            self.numbers[name].append(measure.numbers(name))
        if self.options.min_weight is not None:
            self.edges.add([item.number for item in batch.items], batch.encoded, measure.edges)

    @property
    def has_trees(self) -> bool:
        """True if any of the texts came with a tree."""
        return any(item.sentence is not None for item, _ in self.texts)

    def numbers_in_order(self) -> tuple[np.ndarray, np.ndarray]:
        """Return text_id of every text, ascending, and its place in the order of the runs."""
        numbers = np.array([item.number for item, _ in self.texts], np.int64)
        order = np.argsort(numbers)
        return numbers[order], order

    def tables(self) -> dict[str, pa.Table]:
        """Make all tables but the untrained copy's."""
        numbers, order = self.numbers_in_order()
        texts = [self.texts[number] for number in order]
        lengths = np.array([len(encoded.tokens) for _, encoded in texts], np.int32)
        arrays = {name: np.concatenate(parts)[order] for name, parts in self.numbers.items()}
        by_metric = {key: arrays["scores"][..., at] for at, key in enumerate(self.options.scores)}
        tables = {
            "texts": _score_table(self.options.scores, numbers, arrays["scores"], lengths),
            "sentences": _sentences(texts),
            "profile": self.profile.table(),
            "histogram": histogram(by_metric),
        }
        if "chance" in arrays:
            of_chance = arrays["chance"], arrays["repeating"]
            tables["chance"] = _chance_table(self.options.baselines, numbers, *of_chance)
        if self.options.min_weight is not None:
            tables["edges"] = self.edges.table()
        if self.pairs is not None:
            tables["pairs"] = self.pairs.table()
        return tables | self.trees.tables() if self.has_trees else tables


def _trees_of(batch: Batch, counts: TreeCounts, device: torch.device) -> BatchTrees:
    """Prepare the trees of a batch's texts, to be held against every layer of its run."""
    pairs = zip(batch.items, batch.encoded, strict=True)
    texts = ((item.number, code.tokens, item.sentence) for item, code in pairs)
    return BatchTrees(counts, texts, device, {item.number: item.unit for item in batch.items})


def _score_table(
    names: Sequence[str], numbers: np.ndarray, scores: np.ndarray, lengths: np.ndarray | None = None
) -> pa.Table:
    """Make text_id, n_tokens where known, layer, head, and a column for each score."""
    text, layer, head = (axis.ravel() for axis in np.indices(scores.shape[:3]))
    columns: dict[str, np.ndarray] = {"text_id": numbers[text]}
    if lengths is not None:
        columns["n_tokens"] = lengths[text]
    columns |= {"layer": layer.astype(np.int16), "head": head.astype(np.int16)}
    columns |= {key: scores[..., at].ravel() for at, key in enumerate(names)}
    return pa.table(columns)


def _chance_table(
    names: Sequence[str], numbers: np.ndarray, chance: np.ndarray, repeating: np.ndarray
) -> pa.Table:
    """Make text_id, layer, each score of both baselines, and how many tokens repeat."""
    text, layer = (axis.ravel() for axis in np.indices(chance.shape[:2]))
    columns = {"text_id": numbers[text], "layer": layer.astype(np.int16)}
    for at, key in enumerate(names):
        for row, way in enumerate(WAYS):
            columns[f"{key}_{way}"] = chance[:, :, row, at].ravel()
    columns["duplicate_token_rows"] = repeating.ravel()
    return pa.table(columns)


def _sentences(texts: Sequence[tuple[Item, Encoded]]) -> pa.Table:
    """Make the table of every token of every text; special tokens have no place in the text."""

    def per_token(name: str) -> Iterator[list[object]]:
        return ([getattr(token, name) for token in encoded.tokens] for _, encoded in texts)

    return pa.table(
        {
            "text_id": pa.array([item.number for item, _ in texts], pa.int64()),
            "unit": pa.array([item.unit for item, _ in texts], pa.int64()),
            "place": pa.array([item.location for item, _ in texts], pa.string()),
            "text": pa.array([encoded.text for _, encoded in texts], pa.string()),
            "n_left_out": pa.array([encoded.n_truncated for _, encoded in texts], pa.int32()),
            "tokens": pa.array(per_token("text"), pa.list_(pa.string())),
            "is_special": pa.array(per_token("is_special"), pa.list_(pa.bool_())),
            "starts": pa.array(per_token("start"), pa.list_(pa.int32())),
            "ends": pa.array(per_token("end"), pa.list_(pa.int32())),
        }
    )
