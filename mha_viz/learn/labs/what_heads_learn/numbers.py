"""Lab 12: heads that find the word that belongs to another one.

A head's score is the share of marked pairs in which, of all other words, the right one has the most
weight. It counts only beside two opponents that know nothing of language: one step that is always
the same, and the best head of the same model with random weights.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.checkpoints.loading import load
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.metrics.spread import strongest_other
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.stored_runs import StoredRun
from mha_viz.engine.model import AttentionModel
from mha_viz.learn.annotated_sentences import Relation, distinct_texts, relations, words_of

N_SEEDS = 5  # untrained copies
N_DRAWS = 1_000  # of sentences, for the interval
BATCH = 16  # sentences in one forward pass
FOUND, UNSURE, NONE = "found", "not sure", "none here"
_ROUNDING = 1e-6
Words = Float[Tensor, "layer head query key"]
EXAMPLE = "The cat that I saw yesterday ran away"
TYPES = {  # of heads, with a pair of words of `EXAMPLE` that such a head would find
    "relative-clause": ("ran", "cat"),
    "semantic": ("saw", "cat"),
    "positional": ("saw", "I"),
    "coreference": ("that", "cat"),
}


@dataclass(frozen=True)
class Pair:
    """One marked pair of words."""

    sentence: int  # its number in the relation
    query: int  # number of the attending word
    key: int  # number of the right word


@dataclass(frozen=True)
class Attended:
    """The strongest word of every head, from the first word of each pair.

    Args:
        pairs: those that count: the key is visible, and not the only word that is.
        strongest: (pair, layer, head), number of the word with the most weight; -1 where two share
            it, or no word has any.
        weight: (pair, layer, head), the share of the head's weight on the right word, where special
            tokens and punctuation count as well.
    """

    pairs: tuple[Pair, ...]
    strongest: Int[Tensor, "pair layer head"]
    weight: Float[Tensor, "pair layer head"]

    @property
    def hits(self) -> Float[Tensor, "pair layer head"]:
        """1 where the right word has the most weight, else 0."""
        keys = torch.tensor([pair.key for pair in self.pairs])
        return (self.strongest == keys[:, None, None]).float()


@dataclass(frozen=True)
class Finding:
    """One relation in one model.

    Args:
        score, weight: share of pairs found, and mean weight on the right word.
        offset, offset_score: the step, key minus query, that finds the most pairs, and their share.
        random_score: the share that the best head of all untrained copies finds.
        lead: the score minus the better opponent's. Where the relation is a step itself, random
            weights alone are to beat.
        low, high: the lead's 95 % interval over sentences.
    """

    relation: Relation
    attended: Attended
    score: Float[Tensor, "layer head"]
    weight: Float[Tensor, "layer head"]
    offset: int
    offset_score: float
    random_score: float
    lead: Float[Tensor, "layer head"]
    low: Float[Tensor, "layer head"]
    high: Float[Tensor, "layer head"]

    @property
    def best(self) -> tuple[int, int]:
        """The head with the highest score; of several, the one with the most weight."""
        most = (self.score + 1e-3 * self.weight).flatten().argmax()
        layer, head = divmod(int(most), self.score.shape[1])
        return layer, head

    @property
    def winners(self) -> list[tuple[int, int]]:
        """The heads whose whole interval lies above both opponents, best first."""
        heads = [(layer, head) for layer, head in (self.low > _ROUNDING).nonzero().tolist()]
        return sorted(heads, key=lambda winner: -float(self.score[winner]))

    @property
    def verdict(self) -> str:
        """FOUND; UNSURE where a head is ahead, but too few sentences say so; or NONE."""
        if self.winners:
            return FOUND
        return UNSURE if float(self.lead.max()) > _ROUNDING else NONE


def measure(
    model: AttentionModel,
    selected: Sequence[Relation] | None = None,
    *,
    n_seeds: int = N_SEEDS,
    on_step: Callable[[int], None] = lambda done: None,
) -> list[Finding]:
    """Score every head of a model on every relation.

    A relation without a pair that the model sees is left out: a causal model sees none that points
    ahead. Of an encoder-decoder the encoder is measured. `on_step` gets the number of forward
    passes done, of `n_steps`.

    Raises:
        LoadError: no untrained copy can be made of this model.
    """
    selected = relations() if selected is None else selected
    texts = distinct_texts(selected)
    done = 0

    def strongest_of(network: AttentionModel) -> list[Attended | None]:
        nonlocal done
        by_text: dict[str, Words | None] = {}
        for i in range(0, len(texts), size := _batch(network)):
            batch, keep = texts[i : i + size], ("pattern",)
            if size > 1:
                records = network.trace_batch(batch, keep=keep)
            else:
                records = [network.trace(*batch, keep=keep)]
            by_text |= {record.text: word_weights(record) for record in records}
            done += 1
            on_step(done)
        return [collect_attended(relation, by_text, causal=network.causal) for relation in selected]

    trained = strongest_of(model)
    random = [strongest_of(untrained_copy(model, seed)) for seed in range(n_seeds)]
    return [
        score_relation(relation, words, [copy[i] for copy in random])
        for i, (relation, words) in enumerate(zip(selected, trained, strict=True))
        if words is not None
    ]


STORED = tuple(
    StoredRun(
        *(f"{name}-relations", (name, "auto", "float32"), list[Finding]),
        partial(lambda name: measure(load(name)), name),
    )
    for name in ("tiny-bert", "tiny-gpt2")
)


def n_steps(model: AttentionModel) -> int:
    """Return the number of forward passes that `measure` makes for all relations."""
    return (1 + N_SEEDS) * -(-len(distinct_texts()) // _batch(model))


def _batch(model: AttentionModel) -> int:
    return BATCH if len(model.parts) == 1 else 1  # two stacks take their texts one by one


def word_weights(record: AttentionRecord) -> Words | None:
    """Return weights between words: parts merged, special tokens and punctuation left out.

    Returns:
        (layer, head, word, word), as they are, not scaled up; None where the tokens do not make
        the words (a text that was cut off, a tokenizer with words of its own).
    """
    merged = record.merge_words()
    typed = [t.text if t.start is None else merged.text[t.start : t.end] for t in merged.tokens]
    is_word = [any(map(str.isalpha, text)) for text in typed]
    positions = [i for i, t in enumerate(merged.tokens) if is_word[i] and not t.is_special]
    if len(positions) != len(words_of(record.text)):
        return None
    return merged.pattern[:, :, positions][..., positions]


def collect_attended(
    relation: Relation, weights: Mapping[str, Words | None], *, causal: bool
) -> Attended | None:
    """Collect the strongest words of every head; None where no pair counts.

    `weights` are text -> (layer, head, word, word); texts that are missing, or None, do not count.
    """
    pairs, strongest, weight = [], [], []
    for number, sentence in enumerate(relation.sentences):
        words = weights.get(sentence.text)
        if words is None:
            continue
        most = strongest_other(words)
        for query, key in sentence.pairs:
            if causal and not key < query > 1:  # the second word sees one other: no choice
                continue
            pairs.append(Pair(number, query, key))
            strongest.append(most[:, :, query])
            weight.append(words[:, :, query, key])
    if not pairs:
        return None
    return Attended(tuple(pairs), torch.stack(strongest), torch.stack(weight).float())


def score_relation(
    relation: Relation,
    trained: Attended,
    random: Sequence[Attended | None],
) -> Finding:
    """Score all heads beside both opponents, with an interval over sentences.

    Both opponents are fitted on the very pairs that they are judged by: the step that finds most
    of them, and of all untrained copies the head that does. Where many heads are tried, one of
    them does well by chance; of random heads no fewer are tried. Then as many sentences as there
    are get drawn with replacement, again and again, and each draw gives every head a lead.

    Source: the opponents, Clark et al. 2019, section 4 (a fixed offset), and Zhang and Bowman
    2018 (random weights); the interval, Efron 1979 (percentiles of a bootstrap).
    """
    hits = trained.hits
    steps = torch.tensor([pair.key - pair.query for pair in trained.pairs])
    by_step = (steps == (offset := best_step(steps.tolist()))).float()
    untrained = torch.cat([copy.hits.flatten(1) for copy in random if copy is not None], dim=1)
    by_chance = untrained[:, untrained.mean(0).argmax()]
    baselines = [by_chance] if relation.is_offset else [by_chance, by_step]
    sums = _by_sentence(trained, torch.stack([torch.ones_like(by_chance), *baselines], dim=1))
    heads = _by_sentence(trained, hits.flatten(1))

    def leads(times: Float[Tensor, "draw sentence"]) -> Float[Tensor, "draw layer head"]:
        total, *of_baselines = (times @ sums).unbind(1)
        best = torch.stack(of_baselines).amax(0)
        return ((times @ heads - best[:, None]) / total[:, None]).unflatten(1, hits.shape[1:])

    ends = torch.tensor([0.025, 0.975])
    n, generator = len(sums), torch.Generator().manual_seed(0)
    chosen = torch.randint(n, (N_DRAWS, n), generator=generator)
    counts = torch.zeros(N_DRAWS, n).scatter_add_(1, chosen, torch.ones(N_DRAWS, n))
    low, high = leads(counts).quantile(ends, dim=0)
    return Finding(
        relation,
        trained,
        score=hits.mean(0),
        weight=trained.weight.mean(0),
        offset=offset,
        offset_score=float(by_step.mean()),
        random_score=float(by_chance.mean()),
        lead=leads(torch.ones(1, len(sums)))[0],
        low=low,
        high=high,
    )


def best_step(steps: Sequence[int]) -> int:
    """Return the most frequent step between the words of pairs; of several, the smallest.

    >>> best_step([3, 1, -2, 1])
    1
    """
    counts = Counter(steps)
    return max(sorted(counts), key=lambda step: counts[step])


def _by_sentence(
    trained: Attended, values: Float[Tensor, "pair column"]
) -> Float[Tensor, "sentence column"]:
    """Sum over the pairs of each sentence that has any."""
    numbers = [pair.sentence for pair in trained.pairs]
    rows = torch.tensor([sorted(set(numbers)).index(number) for number in numbers])
    return torch.zeros(len(set(numbers)), values.shape[1]).index_add_(0, rows, values)


def typed_heads(
    model: AttentionModel, untrained: AttentionModel | None
) -> dict[str, tuple[tuple[int, int], float, float | None]]:
    """Find for each type of head the strongest one on `EXAMPLE`, parts of words merged.

    Returns:
        By the keys of `TYPES` the head that gives their pair of words the most weight, (layer,
        head); that weight, in [0, 1]; and the largest of any head of the untrained model, None
        without one. Nothing where the model's tokens do not make the words.
    """
    networks = (model,) if untrained is None else (model, untrained)
    traced = [word_weights(network.trace(EXAMPLE, keep=("pattern",))) for network in networks]
    weights, words = [part for part in traced if part is not None], words_of(EXAMPLE)
    heads: dict[str, tuple[tuple[int, int], float, float | None]] = {}
    for kind, pair in TYPES.items() if len(weights) == len(networks) else ():
        query, key = map(words.index, pair)
        trained, *baseline = (part[:, :, query, key] for part in weights)
        layer, head = divmod(int(trained.argmax()), trained.shape[1])
        random = float(baseline[0].max()) if baseline else None
        heads[kind] = (layer, head), float(trained.max()), random
    return heads
