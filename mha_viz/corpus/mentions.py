"""Who is talked about: the mentions of `Entity=` in CoNLL-U, as CorefUD and GUM write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mha_viz.errors import TextError

# "(e1-person-2" opens, "e1)" closes, "(e1-person-1)" does both; "e1[1/2]" is a part of a mention.
# Brackets and what is between them, which is linear in the length of any text.
_PIECE = re.compile(r"[()]|[^()]+")


@dataclass(frozen=True, slots=True)
class Mention:
    """Some words that stand for somebody or something.

    Args:
        entity: the same for all mentions of one thing.
        start, end: its words, from `start` to before `end`.
        head: number of the word that the others hang from.
    """

    entity: str
    start: int
    end: int
    head: int

    def moved(self, words: int) -> Mention:
        """The same mention so many words on."""
        return Mention(self.entity, self.start + words, self.end + words, self.head + words)


def read_mentions(
    miscs: Sequence[dict[str, str | None]], heads: Sequence[int]
) -> tuple[Mention, ...]:
    """The mentions of a sentence, by their first words, longer ones first.

    Args:
        miscs: the last column of each word.
        heads: number of each word's head, from 0; anything else for the root.

    Raises:
        TextError: a mention is closed that was never opened, or stays open.

    >>> read_mentions([{"Entity": "(e1-person-2"}, {"Entity": "e1)"}, {}], [1, 2, -1])
    (Mention(entity='e1', start=0, end=2, head=1),)
    """
    opened: list[tuple[str, int]] = []
    found = []
    for place, misc in enumerate(miscs):
        pieces = ["", *_PIECE.findall(misc.get("Entity") or ""), ""]
        for before, piece, after in zip(pieces, pieces[1:], pieces[2:], strict=False):
            if piece in "()":
                continue
            if before == "(":
                opened.append((_name(piece.partition("-")[0]), place))
            if after == ")":
                entity = opened[-1][0] if before == "(" else _name(piece)
                entity, start = _closed(opened, entity)
                found.append(Mention(entity, start, place + 1, _head(start, place + 1, heads)))
    if opened:
        raise TextError(f"The mention of {opened[-1][0]!r} has no end in this sentence.")
    return tuple(sorted(found, key=lambda mention: (mention.start, -mention.end)))


def entities_by_head(mentions: Iterable[Mention]) -> dict[int, set[str]]:
    """Whom each head word stands for; two mentions may have one head word.

    Args:
        mentions: of a text.
    """
    found: dict[int, set[str]] = {}
    for mention in mentions:
        found.setdefault(mention.head, set()).add(mention.entity)
    return found


def _name(entity: str) -> str:
    """Without the number of its part."""
    return entity.partition("[")[0]


def _closed(opened: list[tuple[str, int]], entity: str) -> tuple[str, int]:
    """Take the last mention of this entity that is still open."""
    for i in reversed(range(len(opened))):
        if opened[i][0] == entity:
            return opened.pop(i)
    raise TextError(f"A mention of {entity!r} ends that did not begin in this sentence.")


def _head(start: int, end: int, heads: Sequence[int]) -> int:
    """The first word whose own head stands outside."""
    return next(i for i in range(start, end) if not start <= heads[i] < end)
