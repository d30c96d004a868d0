"""Weights from part of speech to part of speech."""

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.metrics.checks import exact
from mha_viz.corpus.treebank.trees import Sentence

# https://universaldependencies.org/u/pos
PARTS = tuple(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
)


def kinds(
    sentence: Sentence, covered: Bool[Tensor, " word"]
) -> Float[np.ndarray, "word part_of_speech"]:
    """Mark the part of speech of each word that the model has read; an unknown one counts as X."""
    columns = {name: column for column, name in enumerate(PARTS)}
    marked = np.zeros((len(sentence.words), len(PARTS)))
    for i, word in enumerate(sentence.words):
        marked[i, columns.get(word.upos, columns["X"])] = float(covered[i])
    return marked


Words = Float[Tensor, "*trees head word word"]
Kinds = Float[Tensor, "*#trees word part_of_speech"]  # with zeros for words that fill a tree up
ByKind = Float[Tensor, "*trees head from_upos to_upos"]


def weight_by_kind(words: Words, kind: Kinds) -> ByKind:
    """Sum the weight from all words of one part of speech to all of another."""
    marked = exact(kind).unsqueeze(-3)
    return marked.mT @ exact(words) @ marked


def expected_by_kind(words: Words, kind: Kinds, *, causal: bool) -> ByKind:
    """Compute the same sums with each word's weight spread evenly on all words it can see.

    Each row sums to what `weight_by_kind` gives, so the difference is what a head does beyond what
    the frequencies of the parts of speech in its sentence alone give.
    """
    marked = exact(kind).unsqueeze(-3)
    visible = marked.sum(-1)[..., None, :].expand(*words.shape[:-3], 1, *words.shape[-2:])
    visible = visible.tril() if causal else visible
    even = visible / visible.sum(-1, keepdim=True).clamp_min(1)
    mass = exact(words).sum(-1)
    return marked.mT @ (mass[..., None] * (even @ marked))
