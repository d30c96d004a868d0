"""Alignment of a tree's words with a model's tokens, and of the patterns between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.record.fields import Token
from mha_viz.corpus.treebank.trees import Sentence


@dataclass(frozen=True)
class Alignment:
    """The tokens that spell each word.

    `shares` has the share of a token that belongs to a word: 1 for a token inside of a word, parts
    that sum to 1 where several words share a token, 0 for special tokens.
    """

    shares: Float[Tensor, "word token"]

    @property
    def covered(self) -> Bool[Tensor, " word"]:
        """The words that have a token: all but what a tokenizer drops, or a context cuts off."""
        return self.shares.sum(-1) > 0

    def between_words(
        self, pattern: Float[Tensor, "*layers head token token"]
    ) -> Float[Tensor, "*layers head word word"]:
        """Sum the weights to a word over its tokens, and average those from a word.

        What goes to special tokens is left out and nothing is scaled up, so a row sums to at most
        1. A word without tokens has zeros.

        Source: Clark et al. 2019, section 4.1.

        >>> alignment = Alignment(torch.tensor([[0.0, 1, 1, 0], [0, 0, 0, 1]]))
        >>> alignment.between_words(torch.full((1, 4, 4), 0.25))
        tensor([[[0.5000, 0.2500],
                 [0.5000, 0.2500]]])
        """
        return between_words(self.shares.to(pattern), pattern)


def between_words(
    shares: Float[Tensor, "*#texts word token"], pattern: Float[Tensor, "*texts token token"]
) -> Float[Tensor, "*texts word word"]:
    """Compute `Alignment.between_words` of one text or of several at once.

    `shares` has zeros for words and tokens that fill it up.
    """
    average = shares / shares.sum(-1, keepdim=True).clamp_min(1e-12)
    return average @ pattern @ shares.mT


def align_words(tokens: Sequence[Token], sentence: Sentence) -> Alignment:
    """Find the tokens of each word by the characters that both stand for.

    A token that reaches over several words ("don't" as "don", "'t" for the words "do", "n't") is
    shared by the number of its characters in each; parts of a multi-word token that are not spelled
    out in it (French "du": de, le) share its tokens evenly.

    >>> from mha_viz.corpus.treebank.trees import Word
    >>> do = Word("do", "do", "AUX", 2, "aux", 0, 2)
    >>> n_t = Word("n't", "not", "PART", 2, "advmod", 2, 5)
    >>> tokens = Token("don", 7, 0, 3), Token("'t", 8, 3, 5)
    >>> align_words(tokens, Sentence("don't", (do, n_t))).shares
    tensor([[0.6667, 0.0000],
            [0.3333, 1.0000]])
    """
    words = torch.tensor([(word.start, word.end) for word in sentence.words])
    # an empty place for a token that is special or stands in a second text
    outside = [t.is_special or t.segment or None in (t.start, t.end) for t in tokens]
    pairs = zip(tokens, outside, strict=True)
    spans = torch.tensor([(0, 0) if out else (token.start, token.end) for token, out in pairs])
    first = torch.maximum(words[:, None, 0], spans[None, :, 0])
    last = torch.minimum(words[:, None, 1], spans[None, :, 1])
    common = (last - first).clamp_min(0).float()
    return Alignment(common / common.sum(0).clamp_min(1))
