"""Tokens: the labels of a pattern's axes, and the words that sub-words make."""

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Token:
    """One position on an axis of the pattern.

    Args:
        text: the label that people read ("cat", "·the", "[CLS]", "👍 1/4"); never HTML.
        id: number in the vocabulary; -1 for a word merged from several tokens.
        start, end: character offsets into the text (of its segment), or None for special tokens.
        word: index of the word that the token belongs to, counted through both segments;
            None for special tokens.
        is_special: added by the tokenizer ([CLS], [SEP], <s> ...), not typed.
        segment: 0 for the text, 1 for the second text of a pair.
        parts: how many tokens a merged word was.

    >>> import mha_viz as mv
    >>> token = mv.load("tiny-gpt2").trace("The cat sat").tokens[1]
    >>> token.text, token.start, token.end, token.word
    ('cat', 4, 7, 1)
    """

    text: str
    id: int
    start: int | None = None
    end: int | None = None
    word: int | None = None
    is_special: bool = False
    segment: int = 0
    parts: int = 1


def merge(
    tokens: tuple[Token, ...], text: str, text_pair: str | None
) -> tuple[Int[Tensor, " token"], tuple[Token, ...]]:
    """Return the number of each token's word, and the words as tokens of their own.

    Neighbours with the same word and segment belong together; special tokens stand alone. A word's
    label is its slice of the text that it was typed in.

    >>> parts = (Token("wal", 7, 0, 3, word=0), Token("king", 8, 3, 7, word=0))
    >>> places, words = merge(parts, "walking", None)
    >>> places.tolist(), words[0].text, words[0].id
    ([0, 0], 'walking', -1)
    >>> words[0].parts
    2
    """
    groups = [[0]] if tokens else []
    for i, (previous, token) in enumerate(pairwise(tokens), start=1):
        place = (token.word, token.segment)
        if token.word is not None and place == (previous.word, previous.segment):
            groups[-1].append(i)
        else:
            groups.append([i])
    sizes = torch.tensor([len(group) for group in groups])
    places = torch.arange(len(groups)).repeat_interleave(sizes)
    return places, tuple(_word([tokens[i] for i in group], text, text_pair) for group in groups)


def _word(parts: list[Token], text: str, text_pair: str | None) -> Token:
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return first
    source = (text_pair if first.segment else text) or ""
    label = "" if first.start is None else source[first.start : last.end].strip()
    label = label or "".join(part.text for part in parts)
    return replace(first, text=label, id=-1, end=last.end, parts=sum(part.parts for part in parts))
