"""Relations: how often a head attends to the word that a relation asks for, and fair choices.

A head is chosen for a relation on one half of the sentences and reported on the other, so that the
best of hundreds of heads is not mistaken for a finding.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.core.metrics.chance import RATE, q_values
from mha_viz.core.metrics.spread import strongest_other
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.corpus.treebank.alignment import align_words
from mha_viz.corpus.treebank.split_half import on_both_halves, p_value, untrained_accuracy
from mha_viz.corpus.treebank.trees import PUNCTUATION, ROOT, Sentence
from mha_viz.errors import ArgumentError

TO_HEAD, TO_DEPENDENT = "to_head", "to_dependent"
ALL = "all"  # relations but punctuation, as one
MIN_TARGETS = 20  # words, for an accuracy to say anything
FARTHEST = 10  # words, of a fixed offset
OFFSETS = tuple(step for step in range(-FARTHEST, FARTHEST + 1) if step)
KEYS = ["relation", "direction"]


class RelationTarget(NamedTuple):
    """A word whose head, or dependent, is looked for."""

    relation: str  # with its subtype ("nsubj:pass"), or `ALL`
    direction: str  # `TO_HEAD` or `TO_DEPENDENT`
    query: int  # number of the word that attends
    # numbers of the words that are right; a head may have several such dependents
    keys: tuple[int, ...]


class RelationTensors(NamedTuple):
    """The targets in all trees of a batch, as tensors."""

    tree: Int[Tensor, " target"]  # (target,), which tree it is about
    query: Int[Tensor, " target"]  # (target,), number of the word that looks
    # (target, 1 + word), whether no word is right, which is never, and which words are.
    right: Bool[Tensor, "target _"]


class ArcMatch(NamedTuple):
    """An arc of the gold tree, and whether one head's strongest weights run along it."""

    dependent: int  # numbers of its two words
    head: int
    relation: str  # its name
    to_head: bool  # the dependent looks at its head the most
    to_dependent: bool  # the head looks at this dependent the most


def relation_targets(
    sentence: Sentence, covered: Bool[Tensor, " word"], *, causal: bool
) -> list[RelationTarget]:
    """List the targets of a tree, in both directions of each relation.

    A target counts where the attending word can see one that is right and could be wrong: two
    other words at least. A causal model's word sees only what stands before it.
    """
    targets: dict[tuple[str, str, int], list[int]] = {}
    is_read = covered.tolist()
    for number, word in enumerate(sentence.words):
        if word.head == ROOT or not (is_read[number] and is_read[word.head]):
            continue
        names = [word.deprel] if word.deprel == PUNCTUATION else [word.deprel, ALL]
        for name in names:
            targets.setdefault((name, TO_HEAD, number), []).append(word.head)
            targets.setdefault((name, TO_DEPENDENT, word.head), []).append(number)
    n_read = sum(is_read)
    visible_targets = []
    for (name, direction, query), keys in targets.items():
        visible_keys = [key for key in keys if not causal or key < query]
        n_other_words = sum(is_read[:query]) if causal else n_read - 1
        if visible_keys and n_other_words > 1:
            visible_targets.append(RelationTarget(name, direction, query, tuple(visible_keys)))
    return visible_targets


def as_tensors(targets: Sequence[tuple[int, RelationTarget]], n_words: int) -> RelationTensors:
    """Lay out targets, each with the number of its tree, as tensors."""
    right = torch.zeros(len(targets), 1 + n_words, dtype=torch.bool)
    marked = [(row, 1 + key) for row, (_, target) in enumerate(targets) for key in target.keys]
    right[tuple(torch.tensor(marked, dtype=torch.long).reshape(-1, 2).T)] = True
    queries = [(tree, target.query) for tree, target in targets]
    tree, query = torch.tensor(queries, dtype=torch.long).reshape(-1, 2).T
    return RelationTensors(tree, query, right)


def relation_hits(
    targets: RelationTensors, words: Float[Tensor, "tree head word word"]
) -> Bool[Tensor, "target head"]:
    """Tell whether the word attended to most is right; a tie is not."""
    strongest = strongest_other(words)[targets.tree, :, targets.query]
    return targets.right.gather(1, strongest + 1)


def offset_hits(targets: Sequence[RelationTarget]) -> NDArray[np.bool_]:
    """Tell whether each of `OFFSETS` leads from the word that looks to one that is right.

    >>> offset_hits([RelationTarget("det", TO_HEAD, 0, (2,))])[0].nonzero()[0], OFFSETS[11]
    (array([11]), 2)
    """
    steps = np.zeros((len(targets), len(OFFSETS)), dtype=bool)
    for row, target in enumerate(targets):
        steps[row] = [target.query + step in target.keys for step in OFFSETS]
    return steps


def match_arcs(sentence: Sentence, words: Float[Tensor, "word word"]) -> list[ArcMatch]:
    """List every arc of a gold tree, and whether one head follows it."""
    strongest = strongest_other(words[None])[0].tolist()
    return [
        ArcMatch(i, w.head, w.deprel, strongest[i] == w.head, strongest[w.head] == i)
        for i, w in enumerate(sentence.words)
        if w.head != ROOT
    ]


def relation_scores(
    counts: pd.DataFrame, offsets: pd.DataFrame, untrained: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Compute how well every head finds every relation's word, on the half not chosen on.

    Args:
        counts: half, relation, direction, layer, head, n, hits.
        offsets: half, relation, direction, offset, n, hits.
        untrained: as `counts`, of the same model with random weights.

    Returns:
        A row per relation, direction, layer and head that both halves ask for, by relation, with
        the columns of `head_scores`; `offset`, the step that finds the most on the half that
        chooses, beside `offset_baseline`; p, of the test that the head beats both baselines on the
        same words (`p_value`); q, the least false-discovery rate at which it does, of all rows of
        `MIN_TARGETS` words or more; and beats, whether that is `RATE` at the most.
    """
    where = [*KEYS, "layer", "head"]
    heads = on_both_halves(counts, where).reset_index()
    steps = on_both_halves(offsets, [*KEYS, "offset"])
    best = (
        steps.groupby(level=KEYS)["chosen_on"].idxmax() if len(steps) else pd.Series(dtype=object)
    )
    of_best = steps.loc[best].reset_index()[[*KEYS, "offset", "accuracy"]]
    scores = heads.merge(
        of_best.rename(columns={"accuracy": "offset_baseline"}), how="left", on=KEYS
    )
    scores["random_baseline"] = untrained_accuracy(scores, untrained, where)
    winners = scores.groupby(KEYS)["chosen_on"].idxmax()
    scores["chosen"] = scores.index.isin(winners)
    rows, steps_at = (pd.MultiIndex.from_frame(scores[keys]) for keys in (where, [*KEYS, "offset"]))
    by_step = p_value(counts, rows, offsets, steps_at)
    scores["p"] = np.fmax(by_step, p_value(counts, rows, untrained))
    scores["q"] = q_values(scores["p"].where(scores["n"] >= MIN_TARGETS).to_numpy())
    scores["beats"] = scores["q"] <= RATE
    first = ["layer", "head", *KEYS, "n", "accuracy", "low", "high"]
    baselines = ["offset_baseline", "random_baseline"]
    return scores[[*first, *baselines, "chosen_on", "offset", "chosen", "p", "q", "beats"]]


class StrongestKey(NamedTuple):
    """A word and the other one that it attends to most."""

    query: int  # numbers of the two words
    key: int
    weight: float  # summed over the tokens of the key, averaged over those of the query


class HeadVsTree(NamedTuple):
    """The arcs and strongest keys of one head on a sentence with a tree."""

    arcs: list[ArcMatch]  # of the tree, each with whether the head follows it
    strongest: list[StrongestKey]  # of each word that looks at another more than at all others


def head_vs_tree(record: AttentionRecord, sentence: Sentence, layer: int, head: int) -> HeadVsTree:
    """Compare one head with a sentence's tree, or the trees of several that were joined.

    Special tokens, the word itself and words of other sentences do not compete, as in the table of
    relations.

    Args:
        record: of the sentence, as a model left it.
        sentence: with its tree, as `Study.sentence` gives it.
        layer: from 0.
        head: from 0.

    Raises:
        ArgumentError: a record of another text, or of merged words; no such head.

    >>> import mha_viz as mv
    >>> from mha_viz.corpus.treebank.trees import read_conllu, sample_lines
    >>> sentence = next(read_conllu(sample_lines())).sentence
    >>> tree = head_vs_tree(mv.load("tiny-bert").trace(sentence.text), sentence, 0, 0)
    >>> len(tree.arcs) == len(sentence.words) - 1
    True
    """
    if record.text != sentence.text or record.text_pair or record.merged:
        raise ArgumentError(
            f"The record must be of the sentence {sentence.text!r}, as a model left it: trace it."
        )
    words = align_words(record.tokens, sentence).between_words(record.head(layer, head)[None])[0]
    arcs: list[ArcMatch] = []
    strongest: list[StrongestKey] = []
    for span, part in sentence.parts:
        among, first = words[span, span], span.start
        for arc in match_arcs(part, among):
            arcs.append(arc._replace(dependent=arc.dependent + first, head=arc.head + first))
        for query, key in enumerate(strongest_other(among[None])[0].tolist()):
            if key >= 0:
                strongest.append(StrongestKey(query + first, key + first, float(among[query, key])))
    return HeadVsTree(arcs, strongest)
