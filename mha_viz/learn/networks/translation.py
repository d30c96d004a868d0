"""A tiny language, and an encoder-decoder that learns to translate into it."""

import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mha_viz.learn.training import (
    Block,
    accuracy,
    initialised,
    normed,
    sinusoids,
    train,
    weights_of,
)

WORDS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("language.toml").read_text("utf-8")
)  # by kind, from English to the other language
KINDS = {word: kind for kind, words in WORDS.items() for word in words}
STEMS = {word: stem for words in WORDS.values() for word, stem in words.items()}
PAD, BEGIN, END = 0, 1, 2
SOURCE = ("", *KINDS)
_STEMS = [*WORDS["determiner"].values(), *WORDS["adjective"].values()]  # "o" and "a" follow
_INFLECTED = [stem + end for stem in _STEMS for end in "oa"]
TARGET = ("", "", ".", *WORDS["noun"].values(), *WORDS["verb"].values(), *_INFLECTED)
MAX_WORDS = 7  # words of a sentence
D_MODEL, N_HEADS = 32, 4
STEPS, WARMUP, BATCH = 500, 50, 64
SENTENCES, N_UNSEEN = 4_096, 500
HELD_OUT = 5  # one of so many triples of subject, verb and object is in no training sentence


class Pair(NamedTuple):
    """A translation, and for each of its words the place of the English word translated."""

    target: tuple[str, ...]
    positions: tuple[int, ...]


def translate_by_rules(words: Sequence[str]) -> Pair | None:
    """Translate by the rules of the language; None for a sentence of another form.

    The form is determiner, adjective or none, noun; verb; and the same again. The verb comes first,
    then the object, then the subject, and adjectives follow their noun.

    >>> translate_by_rules("the cat sees a red bird".split())
    Pair(target=('vidi', 'uno', 'tilo', 'ruto', 'lo', 'miro'), positions=(2, 3, 5, 4, 0, 1))
    """
    form = "".join(KINDS.get(word, "?")[0] for word in words)
    phrases = re.fullmatch("(da?n)v(da?n)", form)
    if phrases is None:
        return None
    order, endings = [phrases.end(1)], [""]
    for phrase in (2, 1):
        determiner, *adjectives, noun = range(*phrases.span(phrase))
        order += [determiner, noun, *adjectives]
        ending = STEMS[words[noun]][-1]
        endings += [ending, "", *(ending for _ in adjectives)]
    target = [STEMS[words[position]] + end for position, end in zip(order, endings, strict=True)]
    return Pair(tuple(target), tuple(order))


class Batch(NamedTuple):
    """Sentences and translations as ids, padded with 0; places, -1 from a translation's end on."""

    source: Int[Tensor, "text key"]
    target: Int[Tensor, "text query"]
    positions: Int[Tensor, "text query"]


def draw_batch(count: int, random: torch.Generator, *, held_out: bool = False) -> Batch:
    """Draw sentences; `held_out` ones have triples of words that training never sees."""
    sentences: list[tuple[str, ...]] = []
    kinds = [list(WORDS[kind]) for kind in ("noun", "verb", "noun", "determiner", "determiner")]
    sizes = [len(words) for words in kinds] + [len(WORDS["adjective"]) + 3] * 2
    while len(sentences) < count:
        at = [int(torch.randint(size, (), generator=random)) for size in sizes]
        if (sum(at[:3]) % HELD_OUT == 0) != held_out:
            continue
        subject, verb, other, first, second = (k[i] for k, i in zip(kinds, at[:5], strict=True))
        before, behind = (list(WORDS["adjective"])[i : i + 1] for i in at[5:])  # a third have none
        sentences.append((first, *before, subject, verb, second, *behind, other))
    pairs = [pair for pair in map(translate_by_rules, sentences) if pair is not None]

    source = torch.full((count, MAX_WORDS), PAD)
    target, positions = (torch.full((count, MAX_WORDS + 1), fill) for fill in (PAD, -1))
    for i, (words, pair) in enumerate(zip(sentences, pairs, strict=True)):
        source[i, : len(words)] = torch.tensor([SOURCE.index(word) for word in words])
        written = [*map(TARGET.index, pair.target), END]
        target[i, : len(written)] = torch.tensor(written)
        positions[i, : len(words)] = torch.tensor(pair.positions)
    return Batch(source, target, positions)


class Translator(nn.Module):
    """One encoder block and one decoder block, the second with cross attention."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(len(SOURCE), D_MODEL)
        self.target = nn.Embedding(len(TARGET), D_MODEL)
        self.encoder = Block(D_MODEL, N_HEADS)
        self.decoder = Block(D_MODEL, N_HEADS, crossed=True)
        self.unembed = nn.Linear(D_MODEL, len(TARGET))

    def forward(
        self,
        source: Int[Tensor, "text key"],
        target: Int[Tensor, "text query"],
        hidden: Bool[Tensor, "text query key"] | None = None,
    ) -> tuple[Float[Tensor, "text query word"], Float[Tensor, "text head query key"]]:
        """Return logits of the word after each target word, and the cross attention for it.

        `hidden` source words get no cross attention; the encoder has read them all the same.
        """
        visible = (source != PAD)[:, None, None]
        read, _ = self.encoder(self._placed(self.source(source)), visible=visible)
        visible = visible if hidden is None else visible & ~hidden[:, None]
        tokens = self._placed(self.target(target))
        tokens, cross = self.decoder(tokens, normed(read), visible=visible, causal=True)
        return self.unembed(normed(tokens)), cross

    def _placed(self, tokens: Tensor) -> Tensor:
        return tokens + sinusoids(tokens.shape[1], D_MODEL).to(tokens) / 4


def shift_right(target: Int[Tensor, "text query"]) -> Int[Tensor, "text query"]:
    """Move a translation one place on, behind BEGIN: so the decoder reads it."""
    return F.pad(target[:, :-1], (1, 0), value=BEGIN)


@torch.no_grad()
def translate_ids(
    network: Translator, source: Int[Tensor, "text key"]
) -> tuple[Int[Tensor, "text query"], Float[Tensor, "text head query key"]]:
    """Translate word by word, each the most likely one; 0 follows the end."""
    written = source.new_full((len(source), 1), BEGIN)
    over = torch.zeros(len(source), dtype=torch.bool)
    cross = torch.empty(0)
    for _ in range(MAX_WORDS + 1):
        logits, cross = network(source, written)
        word = logits[:, -1].argmax(-1).masked_fill(over, PAD)
        over = over | (word == END)
        written = torch.cat([written, word[:, None]], 1)
    return written[:, 1:], cross


@torch.no_grad()
def alignment_shares(network: Translator, batch: Batch) -> Float[Tensor, "head"]:
    """Measure in how many words each head's largest weight is on the word that is translated.

    The last number is of the mean over heads. The decoder reads the correct translation.
    """
    _, cross = network(batch.source, shift_right(batch.target))
    cross = torch.cat([cross, cross.mean(1, keepdim=True)], 1)
    hits = cross.argmax(-1) == batch.positions[:, None]
    return hits.transpose(0, 1)[:, batch.positions >= 0].double().mean(-1)


@torch.no_grad()
def accuracy_with_hidden(network: Translator, batch: Batch, seed: int) -> dict[str, float]:
    """Measure the share of words still right with one source word hidden from cross attention.

    Hidden is, for each word: nothing, the word that it translates, the one with the largest mean
    weight, or a random one of the sentence. The decoder reads the correct translation before it.
    """
    before, is_word = shift_right(batch.target), batch.positions >= 0
    _, cross = network(batch.source, before)
    draws = torch.rand(cross[:, 0].shape, generator=torch.Generator().manual_seed(seed))
    draws = draws * (batch.source != PAD)[:, None]
    hidden = {
        "none": torch.full_like(batch.positions, -1),
        "translated": batch.positions,
        "attended": cross.mean(1).argmax(-1),
        "random": draws.argmax(-1),
    }
    right = {}
    for name, positions in hidden.items():
        logits, _ = network(batch.source, before, positions[..., None] == torch.arange(MAX_WORDS))
        right[name] = accuracy(logits[is_word], batch.target[is_word])
    return right


class Translating(NamedTuple):
    """A translator's training.

    Args:
        weights: all of the network's, as one vector.
        right: share of held-out sentences translated without any error.
        aligned, untrained: by head, and of their mean, share of words whose largest weight is on
            the word translated, on held-out sentences; and the same before training.
        chance: that share for a place drawn at random.
        hidden: share of words right by the source word hidden, as of `hidden_right`.
    """

    weights: Tensor
    right: float
    aligned: Tensor
    untrained: Tensor
    chance: float
    hidden: dict[str, float]


def learn(
    n_steps: int = STEPS, seed: int = 0, on_step: Callable[[int], None] | None = None
) -> Translating:
    """Train a translator, and measure it on sentences whose words it never saw together.

    In float64, so that rounding does not grow into another result on another processor.
    """
    network = initialised(Translator(), D_MODEL, torch.Generator().manual_seed(seed)).double()
    training = draw_batch(SENTENCES, torch.Generator().manual_seed(seed))
    unseen = draw_batch(N_UNSEEN, torch.Generator().manual_seed(2**32 + seed), held_out=True)
    untrained = alignment_shares(network, unseen)

    random = torch.Generator().manual_seed(seed)

    def loss() -> Tensor:
        chosen = torch.randint(SENTENCES, (BATCH,), generator=random)
        batch = Batch(*(part[chosen] for part in training))
        logits, _ = network(batch.source, shift_right(batch.target))
        return F.cross_entropy(logits.flatten(0, 1), batch.target.flatten(), ignore_index=PAD)

    train(network, loss, n_steps, 0.005, warmup=WARMUP, on_step=on_step)
    written, _ = translate_ids(network, unseen.source)
    lengths = (unseen.source != PAD).sum(-1).double()
    return Translating(
        weights_of(network),
        right=float((written == unseen.target).all(-1).double().mean()),
        aligned=alignment_shares(network, unseen),
        untrained=untrained,
        chance=float(N_UNSEEN / lengths.sum()),
        hidden=accuracy_with_hidden(network, unseen, seed),
    )
