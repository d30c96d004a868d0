"""Lab 12: short sentences of our own, with marks on the words that belong together.

`annotated_sentences.tsv` beside this file has a relation and a sentence a line, with its pairs as
"word -> word". A word that occurs more than once has its number: "king#2".
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from mha_viz.errors import ArgumentError

FILE = Path(__file__).with_suffix(".tsv")
KINDS = ("syntactic", "local", "long-range", "coreference", "semantic")
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Annotated:
    """A sentence and its pairs of words, each pair as the numbers of the two words, from 0."""

    text: str
    pairs: tuple[tuple[int, int], ...]

    @property
    def words(self) -> tuple[str, ...]:
        """Its words, without punctuation."""
        return words_of(self.text)


@dataclass(frozen=True, slots=True)
class Relation:
    """A pair of kinds of words, and the sentences where such pairs are marked.

    Args:
        kind: one of `KINDS`.
        query: the kind of word that attends. key: the kind that it should attend to.
        sentences: those with such pairs.
    """

    kind: str
    query: str
    key: str
    sentences: tuple[Annotated, ...]

    @property
    def title(self) -> str:
        """Its name on screen."""
        return f"{self.query} → {self.key}"

    @property
    def is_offset(self) -> bool:
        """True where all pairs are the same step apart: a fixed offset is then the answer."""
        return self.kind == "local"

    def turned(self) -> "Relation":
        """Return the same pairs in the other direction."""
        back = tuple(replace(s, pairs=tuple((k, q) for q, k in s.pairs)) for s in self.sentences)
        return replace(self, query=self.key, key=self.query, sentences=back)


def words_of(text: str) -> tuple[str, ...]:
    """Split a text into words, without punctuation.

    >>> words_of("The queen, tired, slept.")
    ('The', 'queen', 'tired', 'slept')
    """
    return tuple(_WORD.findall(text))


@cache
def relations() -> tuple[Relation, ...]:
    """Read all relations in both directions, in the order of the file.

    >>> relations()[1].title, relations()[1].sentences[0].words[:3]
    ('noun → determiner', ('The', 'tall', 'woman'))
    """
    by_kinds: dict[tuple[str, str, str], list[Annotated]] = {}
    with FILE.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            sentence = annotated(row["text"], row["pairs"])
            by_kinds.setdefault((row["kind"], row["from"], row["to"]), []).append(sentence)
    forward = [Relation(*names, tuple(sentences)) for names, sentences in by_kinds.items()]
    return tuple(each for relation in forward for each in (relation, relation.turned()))


def distinct_texts(selected: Iterable[Relation] | None = None) -> list[str]:
    """Return each sentence of these relations once, of all where none are named.

    >>> len(distinct_texts(relations()[:2])) == len(relations()[0].sentences)
    True
    """
    selected = relations() if selected is None else selected
    return list(dict.fromkeys(each.text for relation in selected for each in relation.sentences))


def annotated(text: str, pairs: str) -> Annotated:
    """Read a sentence with its pairs as the file writes them.

    Raises:
        ArgumentError: a word that does not occur, or more than once and without its number.

    >>> annotated("The ship and the dog", "The -> ship; the -> dog").pairs
    ((0, 1), (3, 4))
    """
    words = words_of(text)
    marked = (pair.split(" -> ") for pair in pairs.split("; "))
    numbers = ((_word_number(words, q), _word_number(words, k)) for q, k in marked)
    return Annotated(text, tuple(numbers))


def _word_number(words: tuple[str, ...], marked: str) -> int:
    name, _, number = marked.partition("#")
    positions = [i for i, word in enumerate(words) if word == name]
    if not positions or (len(positions) > 1) != bool(number) or int(number or 1) > len(positions):
        problem = f"{name!r} is {len(positions)} times in {' '.join(words)!r}"
        raise ArgumentError(f"{problem}: mark a word that is there, by its number if several are.")
    return positions[int(number or 1) - 1]
