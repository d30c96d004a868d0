"""Mentions of entities in `Entity=` of CoNLL-U, as CorefUD and GUM write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from mha_viz.errors import TextError
from mha_viz.text.cleaning import visible

MAX_MENTIONS = 10_000  # of one sentence

# "(e1-person-2" opens, "e1)" closes, "(e1-person-1)" does both; "e1[1/2]" is a part of a mention.
# Brackets and what is between them, which is linear in the length of any text.
_PIECE = re.compile(r"[()]|[^()]+")


@dataclass(frozen=True, slots=True)
class Mention:
    """Some words that stand for somebody or something."""

    entity: str  # the same for all mentions of one thing
    start: int  # its words, from `start` to before `end`
    end: int
    head: int  # number of the word that the others hang from

    def moved(self, words: int) -> Mention:
        """Move the mention so many words on."""
        return Mention(self.entity, self.start + words, self.end + words, self.head + words)


def read_mentions(
    miscs: Sequence[Mapping[str, str | None]], heads: Sequence[int]
) -> tuple[Mention, ...]:
    """Read the mentions of a sentence, by their first words, longer ones first.

    `miscs` is the last column of each word. TextError: a mention is closed that was never opened,
    or stays open; or there are too many.

    >>> read_mentions([{"Entity": "(e1-person-2"}, {"Entity": "e1)"}, {}], [1, 2, -1])
    (Mention(entity='e1', start=0, end=2, head=1),)
    """
    hangs_from = np.asarray(heads)
    opened: dict[str, list[int]] = {}  # entity -> the first words of its mentions that are open
    mentions: list[Mention] = []
    for number, misc in enumerate(miscs):
        pieces = ["", *_PIECE.findall(misc.get("Entity") or ""), ""]
        for before, piece, after in zip(pieces, pieces[1:], pieces[2:], strict=False):
            if piece in "()":
                continue
            if before == "(":
                entity = _name(piece.partition("-")[0])
                opened.setdefault(entity, []).append(number)
            else:
                entity = _name(piece)
            if after == ")":
                start = _closed(opened, entity, number)
                head = _head(start, number + 1, hangs_from)
                mentions.append(Mention(entity, start, number + 1, head))
            if len(mentions) > MAX_MENTIONS:
                raise TextError(
                    f"A sentence may have {MAX_MENTIONS:,} mentions; this one has more."
                )
    if unclosed := [(entity, starts[-1]) for entity, starts in opened.items() if starts]:
        entity, number = unclosed[-1]
        raise TextError(
            f"The mention of “{visible(entity)}” that begins with word {number + 1} has no end in "
            "this sentence."
        )
    return tuple(sorted(mentions, key=lambda mention: (mention.start, -mention.end)))


def entities_by_head(mentions: Iterable[Mention]) -> dict[int, set[str]]:
    """List the entities of each head word; two mentions may have one head word."""
    entities: dict[int, set[str]] = {}
    for mention in mentions:
        entities.setdefault(mention.head, set()).add(mention.entity)
    return entities


def _name(entity: str) -> str:
    """Drop the number of an entity's part."""
    return entity.partition("[")[0]


def _closed(opened: dict[str, list[int]], entity: str, number: int) -> int:
    """Close the last open mention of this entity, and return its first word."""
    if not opened.get(entity):
        raise TextError(
            f"A mention of “{visible(entity)}” ends with word {number + 1} that did not begin in "
            "this sentence."
        )
    return opened[entity].pop()


def _head(start: int, end: int, heads: Int[np.ndarray, " word"]) -> int:
    """Find the first word whose own head stands outside."""
    inside = heads[start:end]
    return start + int(((inside < start) | (inside >= end)).argmax())
