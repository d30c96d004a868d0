"""All heads together: how often a weighted sum of their attention finds each word's head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.amounts import of_bytes
from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.metrics.units import MIN_UNITS, paired_p_value
from mha_viz.corpus.measure.batches import Batch, batches
from mha_viz.corpus.run.worker import random_weights
from mha_viz.corpus.sources.source import Item, open_source, shards
from mha_viz.corpus.treebank.alignment import align_words, between_words
from mha_viz.corpus.treebank.relations import ALL, OFFSETS, TO_HEAD, relation_targets
from mha_viz.corpus.treebank.split_half import TREE_UNITS, unit_wilson
from mha_viz.corpus.treebank.trees import CHOOSE, REPORT, Sentence
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import LayerTensors
from mha_viz.engine.recording import reduce_texts
from mha_viz.errors import ArgumentError, SourceError

_PENALTY = 1e-4  # of each squared weight, beside the mean loss of a word
_MAX_BYTES = 4 * 2**30  # of attention between words that is held at once
_BATCH_TOKENS = 8192


class HeadProbe(NamedTuple):
    """The share of words whose head all heads find together, beside each of them alone.

    Args:
        scores: a row each for `probe`, `ensemble` (the mean of the best heads), `best_head`,
            `best_offset` (a fixed distance) and `random_weights` (the probe of a model that learned
            nothing; not where there is none): n_words, accuracy, low and high (95 %), and p, that
            the probe is no better, on the same words; NaN of fewer than ten units.
        weights: a row per head: layer, head, and what the probe makes of its weight from the word
            to a candidate (`to_head`) and from the candidate to the word (`from_head`).
        best: the heads of the ensemble, best first: layer, head, and one of these two names.

    >>> import mha_viz as mv
    >>> probe = mv.probe_heads(mv.load("tiny-bert"), "sample", best=2, sample=60)
    >>> len(probe.best), probe.weights.shape
    (2, (32, 4))
    """

    scores: pd.DataFrame
    weights: pd.DataFrame
    best: tuple[tuple[int, int, str], ...]


def probe_heads(
    model: AttentionModel,
    source: str | Path | Iterable[str],
    *,
    best: int = 5,
    sample: int | None = None,
    seed: int = 0,
    group: str | None = None,
) -> HeadProbe:
    """Learn which heads, weighted and added up, find the head of each word of a treebank.

    Of word i, word j is its head with probability softmax_j sum_k (w_k A_k[i, j] + u_k A_k[j, i]),
    over the other words of the sentence, with A_k the attention of head k between words. The
    weights w and u are fitted on one half of the sentences, where the best heads and the best
    offset are chosen, too; all are compared on the other half. Punctuation has no head.

    Args:
        model: any model; of an encoder-decoder, its encoder.
        source: a treebank, as for `study`.
        best: how many heads are in the ensemble, 1 or more.
        sample: how many sentences to draw from the source; all of them if not given.
        seed: of the draw.
        group: as for `study`.

    Returns:
        HeadProbe: accuracies in [0, 1] on the second half, with 95 % intervals.

    Raises:
        ArgumentError: `best` is no number of heads; more words than memory should hold.
        SourceError: no such source, or no trees on both halves of it.

    Source: Clark et al. 2019, section 5.1, the attention-only probe.

    >>> import mha_viz as mv
    >>> probe = mv.probe_heads(mv.load("tiny-bert"), "sample", sample=60)
    >>> probe.scores["method"].tolist()
    ['probe', 'ensemble', 'best_head', 'best_offset', 'random_weights']
    """
    n_ways = 2 * model.n_layers * model.n_heads
    if not 1 <= best <= n_ways:
        raise ArgumentError(f"best must be 1 to {n_ways}, got {best}.")
    opened = open_source(source, sample=sample, seed=seed, group=group)
    items = [item for _, some in shards(opened) for item in some if item.sentence is not None]
    choose, report = _halves(model, items)
    for half in (choose, report):
        if not len(half.right):
            raise SourceError(
                f"{opened.name} has no words with heads on both halves of its sentences: expected "
                "a treebank in CoNLL-U with some dozen sentences."
            )
    weights = _fit(choose)
    alone = _hits(choose, choose.weights).mean(0)
    chosen = np.argsort(-alone, kind="stable")[:best]
    shares = [(choose.steps[choose.right] == offset).mean() for offset in OFFSETS]
    step = OFFSETS[int(np.argmax(shares))]
    hits = {
        "probe": _hits(report, _scores(report, weights)),
        "ensemble": _hits(report, report.weights[:, chosen].mean(1, keepdims=True)),
        "best_head": _hits(report, report.weights[:, chosen[:1]]),
        "best_offset": (report.steps[report.right] == step)[:, None],
    }
    untrained = random_weights(model)
    if untrained is not None:
        theirs, same = _halves(untrained, items)
        hits["random_weights"] = _hits(same, _scores(same, _fit(theirs)))
    layer, head = (axis.ravel() for axis in np.indices((model.n_layers, model.n_heads)))
    ways = dict(zip(_WAYS, weights.reshape(2, -1), strict=True))
    chosen_ways = [divmod(int(number), len(layer)) for number in chosen]
    return HeadProbe(
        _table({name: of[:, 0] for name, of in hits.items()}, report.units),
        pd.DataFrame({"layer": layer, "head": head, **ways}),
        tuple((int(layer[at]), int(head[at]), _WAYS[way]) for way, at in chosen_ways),
    )


_WAYS = ("to_head", "from_head")


@dataclass(frozen=True)
class _Half:
    """The words of half of the sentences, each with all candidates for its head, one below another.

    The candidates of one word stand together; `right` is the row of each word's head.
    """

    weights: Float[np.ndarray, "row way"]  # of all heads from the word, then of all to the word
    steps: Int[np.ndarray, " row"]  # from the word to the candidate, in words
    starts: Int[np.ndarray, " word"]  # each word's first row
    right: Int[np.ndarray, " word"]
    units: Int[np.ndarray, " word"]

    @property
    def word(self) -> Int[np.ndarray, " row"]:
        """Return the number of each row's word."""
        sizes = np.diff(self.starts, append=len(self.steps))
        return np.repeat(np.arange(len(self.starts)), sizes)


_Choice = tuple[np.ndarray, np.ndarray, int, int]  # of a word: weights, steps, right, unit


def _joined(words: list[_Choice], n_ways: int) -> _Half:
    weights, steps, right, units = zip(*words, strict=True) if words else ((),) * 4
    starts = np.cumsum([0, *map(len, steps)], dtype=np.int64)[: len(words)]
    return _Half(
        np.concatenate([np.zeros((0, n_ways), np.float32), *weights]),
        np.concatenate([np.zeros(0, np.int64), *steps]),
        starts,
        starts + np.array(right, np.int64),
        np.array(units, np.int64),
    )


def _halves(model: AttentionModel, items: Sequence[Item]) -> tuple[_Half, _Half]:
    """Run the sentences and gather the attention between their words, for each half."""
    n_ways = 2 * model.n_layers * model.n_heads
    n_pairs = sum(len(item.sentence.words) ** 2 for item in items if item.sentence is not None)
    if 4 * n_ways * n_pairs > _MAX_BYTES:
        raise ArgumentError(
            f"The attention between all words of {len(items):,} sentences takes "
            f"{of_bytes(4 * n_ways * n_pairs)}, and {of_bytes(_MAX_BYTES)} are the most: give "
            f"sample={_MAX_BYTES * len(items) // (4 * n_ways * n_pairs)}."
        )
    words: dict[str, list[_Choice]] = {CHOOSE: [], REPORT: []}
    for batch in batches(model.layer_reader, items, _BATCH_TOKENS)[0]:
        check_cancelled()
        for item, weights, covered in _between_words(model, batch):
            assert item.sentence is not None
            for span, sentence in item.sentence.parts:
                among, unit = weights[:, span, span].numpy(), item.unit % TREE_UNITS
                words[item.sentence.half] += _choices(sentence, unit, among, covered[span])
    return _joined(words[CHOOSE], n_ways), _joined(words[REPORT], n_ways)


def _between_words(
    model: AttentionModel, batch: Batch
) -> list[tuple[Item, Float[Tensor, "all_heads word word"], Bool[Tensor, " word"]]]:
    """Run a batch and return the attention between the words of each text, of all heads."""
    pairs = list(zip(batch.items, batch.encoded, strict=True))
    aligned = [align_words(code.tokens, item.sentence) for item, code in pairs if item.sentence]
    layers: list[list[Tensor]] = [[] for _ in aligned]

    def reduce(tensors: LayerTensors) -> None:
        for row, (alignment, by_layer) in enumerate(zip(aligned, layers, strict=True)):
            n = alignment.shares.shape[1]
            pattern = tensors.pattern[row, :, :n, :n].float().cpu()
            by_layer.append(between_words(alignment.shares, pattern))

    reduce_texts(model, batch.encoded, reduce)
    rows = zip(batch.items, aligned, layers, strict=True)
    return [(item, torch.cat(by_layer), alignment.covered) for item, alignment, by_layer in rows]


def _choices(
    sentence: Sentence,
    unit: int,
    words: Float[np.ndarray, "all_heads word word"],
    covered: Bool[Tensor, " word"],
) -> Iterator[_Choice]:
    """Yield the words of one sentence that have a head, with all others as candidates."""
    read_words = np.flatnonzero(covered.numpy())
    for target in relation_targets(sentence, covered, causal=False):
        if (target.relation, target.direction) == (ALL, TO_HEAD):
            candidates = read_words[read_words != target.query]
            pair = words[:, target.query, candidates], words[:, candidates, target.query]
            right = int(np.searchsorted(candidates, target.keys[0]))
            yield np.concatenate(pair).T, candidates - target.query, right, unit


def _scores(half: _Half, weights: Float[np.ndarray, " way"]) -> Float[np.ndarray, "row 1"]:
    return half.weights @ weights.astype(np.float32)[:, None]


def _hits(half: _Half, scores: Float[np.ndarray, "row way"]) -> Bool[np.ndarray, "word way"]:
    """Tell whether a word's head scores the most of its candidates; a tie is not."""
    most = np.maximum.reduceat(scores, half.starts)
    n_most = np.add.reduceat(scores == most[half.word], half.starts, dtype=np.int64)
    return (scores[half.right] == most) & (n_most == 1)


def _fit(half: _Half) -> Float[np.ndarray, " way"]:
    """Fit the weights by maximum likelihood: a convex problem, whose one solution is found."""
    from scipy.optimize import minimize  # late: what else imports this does not need it

    n_words, word = len(half.right), half.word

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        check_cancelled()
        scores = _scores(half, weights)[:, 0].astype(float)
        scores -= np.maximum.reduceat(scores, half.starts)[word]
        likely = np.exp(scores)
        total = np.add.reduceat(likely, half.starts)
        likely /= total[word]
        likely[half.right] -= 1
        gradient = (half.weights.T @ likely.astype(np.float32)).astype(float) / n_words
        mean = (np.log(total) - scores[half.right]).mean()
        return mean + _PENALTY * (weights**2).sum(), gradient + 2 * _PENALTY * weights

    begin = np.zeros(half.weights.shape[1])
    return np.asarray(minimize(loss, begin, jac=True, method="L-BFGS-B").x)


def _table(
    hits: dict[str, Bool[np.ndarray, " word"]], units: Int[np.ndarray, " word"]
) -> pd.DataFrame:
    """Make a row for each of them, on the same words."""
    by_unit = np.array([np.bincount(units, of, TREE_UNITS) for of in hits.values()])
    n = np.tile(np.bincount(units, minlength=TREE_UNITS), (len(hits), 1)).astype(float)
    low, high = unit_wilson(by_unit, n)
    p = paired_p_value(np.tile(by_unit[0], (len(hits), 1)), by_unit)
    unknown = (np.arange(len(hits)) == 0) | ((n > 0).sum(-1) < MIN_UNITS)
    return pd.DataFrame(
        {
            "method": list(hits),
            "n_words": len(units),
            "accuracy": [of.mean() for of in hits.values()],
            "low": low,
            "high": high,
            "p": np.where(unknown, np.nan, p),
        }
    )
