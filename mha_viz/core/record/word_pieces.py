"""The words of a text that are whole tokens, and those that are cut into pieces."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from mha_viz.core.record.fields import Token


class WordPieces(NamedTuple):
    """The words of letters of a text, by whether the vocabulary has them as one token.

    Args:
        unsplit: words that are one token, in the order of the text.
        split: each other word with the labels of its tokens; one token where it is unknown.
    """

    unsplit: tuple[str, ...]
    split: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def mostly_split(self) -> bool:
        """True where the vocabulary has less than half of the words as one token."""
        return len(self.unsplit) < len(self.split)


def word_pieces(tokens: Sequence[Token], text: str) -> WordPieces:
    """Sort the words of the first text into whole and split ones.

    >>> pieces = (Token("a", 5, 0, 1, word=0), Token("wal", 7, 2, 5, word=1))
    >>> word_pieces((*pieces, Token("king", 8, 5, 9, word=1)), "a walking")
    WordPieces(unsplit=('a',), split=(('walking', ('wal', 'king')),))
    """
    unsplit, split = [], []
    typed = [token for token in tokens if token.word is not None and not token.segment]
    for _, parts in groupby(typed, key=lambda token: token.word):
        first, *_, last = (*(group := list(parts)), group[-1])
        word = text[first.start : last.end].strip()
        if not word.isalpha():
            continue
        labels = tuple(token.text for token in group)
        if labels == (word,):
            unsplit.append(word)
        else:
            split.append((word, labels))
    return WordPieces(tuple(unsplit), tuple(split))
