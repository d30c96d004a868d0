"""The gold trees of a batch, compared with each layer as it comes.

All that is made of weights is made where the model runs, and nothing waits for it: weights between
words, each word's strongest key, spanning trees, sums by parts of speech. What is fetched, when the
run is done, are counts.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.metrics.checks import exact, widest
from mha_viz.core.record.fields import Token
from mha_viz.corpus.treebank import coreference, parsing, parts_of_speech, relations
from mha_viz.corpus.treebank.alignment import between_words
from mha_viz.corpus.treebank.gold import LayerHits, SentenceTargets, TextTargets, TreeCounts
from mha_viz.corpus.treebank.trees import Sentence


class BatchTrees:
    """The texts of a batch that have a tree, compared with every layer as it comes.

    Each text comes with its number, tokens and tree, None where it has none. `units` has the number
    of each text's unit; without, each text is one.
    """

    def __init__(
        self,
        counts: TreeCounts,
        texts: Iterable[tuple[int, Sequence[Token], Sentence | None]],
        device: torch.device | str = "cpu",
        units: Mapping[int, int] | None = None,
    ) -> None:
        self._counts, self._texts = counts, dict[int, TextTargets]()
        lengths = []
        for row, (text_id, tokens, sentence) in enumerate(texts):
            lengths.append(len(tokens))
            if sentence is not None:
                unit = text_id if units is None else units[text_id]
                self._texts[row] = counts.begin(text_id, tokens, sentence, unit)
        self._layers: list[tuple[int, _Sums]] = []
        if self._texts:
            self._targets = _BatchTargets(self._texts, (len(lengths), max(lengths)), device)

    def add(self, layer: int, pattern: Float[Tensor, "batch head query key"]) -> None:
        """Count what the heads of one layer do; the counts stay on the device."""
        if self._texts:
            self._layers.append((layer, self._targets.sums(pattern, causal=self._counts.causal)))

    def on_device(self) -> dict[Hashable, Tensor]:
        """Return the counts of all layers by name."""
        return {
            ("trees", number, name): counts
            for number, (_, sums) in enumerate(self._layers)
            for name, counts in sums._asdict().items()
        }

    def finish(self, tensors: Mapping[Hashable, Tensor] | None = None) -> None:
        """Fetch the counts, or take those of `on_device` that were fetched; the run is done."""
        tensors = self.on_device() if tensors is None else tensors
        for number, (layer, _) in enumerate(self._layers):
            by_relation, references, arcs, weights = (
                tensors["trees", number, name].cpu().numpy() for name in _Sums._fields
            )
            hits = LayerHits(
                dict(zip(self._targets.relation_groups, by_relation.astype(np.int64), strict=True)),
                dict(zip(self._targets.reference_groups, references.astype(np.int64), strict=True)),
                arcs,
                weights,
            )
            self._counts.add(list(self._texts.values()), layer, hits)


class _Sums(NamedTuple):
    """The counts of the heads of one layer."""

    relations: Float[Tensor, "group head"]
    references: Float[Tensor, "group head"]
    arcs: Int[Tensor, "tree head"]
    weights: Float[Tensor, "2 head from_upos to_upos"]


class _BatchTargets:
    """The targets of all trees of a batch, as tensors on the model's device.

    Words that the model has not read are left out: a text that was cut may have many of them, and
    weights between words take the square of their number.
    """

    def __init__(
        self, texts: dict[int, TextTargets], shape: tuple[int, int], device: torch.device | str
    ) -> None:
        self._device = device
        n_words = max(int(text.alignment.covered.sum()) for text in texts.values())
        # one word more than there is, without a token: it fills up texts and trees that have fewer
        shares = torch.zeros(shape[0], n_words + 1, shape[1])
        for row, text in texts.items():
            read = text.alignment.shares[text.alignment.covered]
            shares[row, : len(read), : read.shape[1]] = read
        self._shares = shares.to(device)
        trees = [(row, text, tree) for row, text in texts.items() for tree in text.trees]
        self._row = torch.tensor([row for row, *_ in trees]).to(device)
        self._add_trees([(text, tree) for _, text, tree in trees], n_words)

        targets = [
            (number, text, target._replace(query=at[target.query], keys=keys))
            for number, (_, text, tree) in enumerate(trees)
            for at in [_among_read(tree.covered)]
            for target in tree.targets
            for keys in [tuple(at[key] for key in target.keys)]
        ]
        names = [(text.half, of.relation, of.direction, text.unit) for _, text, of in targets]
        self.relation_groups, self._group = _grouped(names, device)
        by_tree = [(tree, target) for tree, _, target in targets]
        tensors = relations.as_tensors(by_tree, self._word_rows.shape[1])
        self._relations = relations.RelationTensors._make(tensor.to(device) for tensor in tensors)

        referring = [
            (row, text, mention._replace(query=at[mention.query], earlier=earlier))
            for row, text in texts.items()
            for at in [_among_read(text.alignment.covered)]
            for mention in text.references
            for earlier in [tuple(at[head] for head in mention.earlier)]
        ]
        groups = [(text.half, text.unit) for _, text, _ in referring]
        self.reference_groups, self._reference_group = _grouped(groups, device)
        by_text = [(row, mention) for row, _, mention in referring]
        mentions = coreference.as_tensors(by_text, n_words + 1)
        self._references = coreference.ReferenceTensors._make(axis.to(device) for axis in mentions)

    def _add_trees(
        self, trees: Sequence[tuple[TextTargets, SentenceTargets]], n_words: int
    ) -> None:
        """Lay out the trees: the rows of their words in their texts, and of those with arcs."""
        gold = parsing.as_tensors([(tree.sentence, tree.covered) for _, tree in trees])
        longest = max(int(tree.covered.sum()) for _, tree in trees)
        kind = torch.zeros(len(trees), longest, len(parts_of_speech.PARTS))
        word_rows = torch.full((len(trees), longest), n_words)
        arc_rows = torch.full_like(gold.words, n_words)
        for number, (text, tree) in enumerate(trees):
            read = torch.from_numpy(tree.kind)[tree.covered]
            first = text.alignment.covered[: tree.words.start].sum()
            kind[number, : len(read)] = read
            word_rows[number, : len(read)] = torch.arange(len(read)) + first
            arcs = gold.words[number][gold.words[number] >= 0]
            arc_rows[number, : len(arcs)] = (tree.covered.cumsum(0) - 1)[arcs] + first
        self._gold = parsing.Gold._make(tensor.to(self._device) for tensor in gold)
        rows = kind, word_rows, arc_rows
        self._kind, self._word_rows, self._arc_rows = (axis.to(self._device) for axis in rows)

    def sums(self, pattern: Float[Tensor, "batch head query key"], *, causal: bool) -> _Sums:
        """Count what the heads of a layer do, on its device."""
        words = between_words(self._shares[:, None], pattern)
        tree_weights = self._among(self._word_rows, words)
        right = relations.relation_hits(self._relations, tree_weights)
        reference_hits = coreference.reference_hits(self._references, words)
        weight = parts_of_speech.weight_by_kind(tree_weights, self._kind)
        expected = parts_of_speech.expected_by_kind(tree_weights, self._kind, causal=causal)
        return _Sums(
            _counted(right, self._group, len(self.relation_groups)),
            _counted(reference_hits, self._reference_group, len(self.reference_groups)),
            parsing.arc_hits(self._among(self._arc_rows, words), self._gold),
            torch.stack([weight.sum(0), expected.sum(0)]),
        )

    def _among(
        self, at: Int[Tensor, "tree own"], words: Float[Tensor, "batch head word word"]
    ) -> Float[Tensor, "tree head own own"]:
        """Select the weights among some words of each tree."""
        head = torch.arange(words.shape[1], device=words.device)[:, None, None]
        query, key = at[:, None, :, None], at[:, None, None, :]
        return words[self._row[:, None, None, None], head, query, key]


def _among_read(covered: Bool[Tensor, " word"]) -> list[int]:
    """Count the words that the model has read before each word."""
    numbers: list[int] = (covered.cumsum(0) - 1).tolist()
    return numbers


def _grouped(names: Sequence[Any], device: torch.device | str) -> tuple[list[Any], Tensor]:
    """List each name once, and number them all."""
    distinct = list(dict.fromkeys(names))
    numbers = {name: number for number, name in enumerate(distinct)}
    return distinct, torch.tensor([numbers[name] for name in names], dtype=torch.long).to(device)


def _counted(
    hits: Bool[Tensor, "target head"], group: Int[Tensor, " target"], n_groups: int
) -> Float[Tensor, "group head"]:
    """Count the hits in each group."""
    counts = hits.new_zeros(n_groups, hits.shape[1], dtype=widest(hits.device))
    return counts.index_add_(0, group, exact(hits))
