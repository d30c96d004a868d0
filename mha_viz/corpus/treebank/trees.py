"""Sentences with gold trees, read from CoNLL-U one by one.

https://universaldependencies.org/format.html and, for `Entity=`, https://ufal.mff.cuni.cz/corefud
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

from conllu.exceptions import ParseException
from conllu.parser import parse_token_and_metadata

from mha_viz.corpus.treebank.mentions import Mention, read_mentions
from mha_viz.errors import TextError
from mha_viz.text.cleaning import SURROGATE, clean_text, visible

SAMPLE = Path(__file__).with_name("sample.conllu")
MAX_ROWS = 1_000  # of one sentence: weights between its words are the square of it
MAX_LINE = 100_000  # characters
ROOT = -1  # the head of the word that has none
PUNCTUATION = "punct"
CHOOSE, REPORT = "choose", "report"
_NEWDOC = re.compile(r"#\s*newdoc\b")

_HEAD = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a tree."""

    form: str  # as it is written; of a multi-word token ("don't") its own part ("n't")
    lemma: str
    upos: str  # one of the 17 universal parts of speech
    head: int  # number of the word that it hangs from, from 0; `ROOT` for the root
    deprel: str  # its relation to that one, with its subtype ("nsubj:pass")
    # offsets into the text; parts not spelled out in their token have those of the whole
    start: int
    end: int

    def moved(self, words: int, characters: int) -> Word:
        """Move the word so many words and characters on."""
        head = ROOT if self.head == ROOT else self.head + words
        return replace(self, head=head, start=self.start + characters, end=self.end + characters)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its gold tree; or several of a document, joined, each with its own tree.

    Where a treebank has no trees (CoNLL-2012), every word is a root without a relation.
    """

    text: str  # as a model reads it (see `clean_text`)
    words: tuple[Word, ...]  # of the tree, in order; empty nodes are left out
    mentions: tuple[Mention, ...] = ()  # in the order of their first words; () without `Entity=`
    space_after: bool = True  # whether a space parts it from the next sentence
    opening: str = ""  # the text that its document begins with, if joined
    # without trees: how many words there are up to the end of each sentence
    ends: tuple[int, ...] = ()

    @property
    def half(self) -> str:
        """The half of all sentences that it belongs to: `CHOOSE` or `REPORT`.

        Its text alone decides or, of joined sentences, the one that their document begins with, so
        that no document is on both halves.
        """
        first = hashlib.sha256((self.opening or self.text).encode()).digest()[0]
        return CHOOSE if first % 2 else REPORT

    @property
    def parts(self) -> list[tuple[slice, Sentence]]:
        """The sentences one by one: which words each has, and the sentence with its heads alone.

        The places of words stay those in the whole text, and mentions are left away. A sentence
        ends where no arc of a tree leads on.

        >>> sentence = next(read_conllu(sample_lines())).sentence
        >>> [(words.start, words.stop) for words, _ in sentence.parts]
        [(0, 13)]
        """
        ends = self.ends or self._ends_of_trees()
        return [
            (slice(begin, end), self._part(begin, end))
            for begin, end in zip([0, *ends], ends, strict=False)
        ]

    def _ends_of_trees(self) -> list[int]:
        reach = list(range(len(self.words)))
        for number, word in enumerate(self.words):
            if word.head != ROOT:
                first, right = sorted((number, word.head))
                reach[first] = max(reach[first], right)
        return [i + 1 for i, farthest in enumerate(accumulate(reach, max)) if farthest == i]

    def _part(self, begin: int, end: int) -> Sentence:
        words = (word.moved(-begin, 0) for word in self.words[begin:end])
        return replace(self, words=tuple(words), mentions=(), ends=())


class Tree(NamedTuple):
    """One sentence of a file."""

    text: str  # the text that a model reads
    location: str  # where it stands, "file:line"
    sentence: Sentence  # its tree
    # the number of its document in the file, from 1; 0 before the first `# newdoc`.
    document: int = 0


def sample_lines() -> Iterator[str]:
    """Read the lines of the treebank that is part of this package.

    >>> next(sample_lines())
    '# authors = The mha_viz authors'
    """
    yield from SAMPLE.read_text("utf-8").splitlines()


def read_conllu(
    lines: Iterable[str],
    name: str = "sample.conllu",
    on_fault: Callable[[str, str], None] = lambda location, reason: None,
) -> Iterator[Tree]:
    """Yield the sentences of a file, one at a time; a broken one is reported and skipped.

    >>> first = next(read_conllu(sample_lines()))
    >>> first.text, first.location, [word.form for word in first.sentence.words][:3]
    ('The old gardener opened the gate because she had heard a noise.', 'sample.conllu:1',
     ['The', 'old', 'gardener'])
    """
    yield from read_blocks(lines, name, on_fault, _NEWDOC, _sentence)


def read_blocks(
    lines: Iterable[str],
    name: str,
    on_fault: Callable[[str, str], None],
    begins_document: re.Pattern[str],
    make: Callable[[list[str]], Sentence],
) -> Iterator[Tree]:
    """Yield what is made of each run of lines between blank ones; comments alone are none."""
    document = 0
    for number, rows, fault in _blocks(lines):
        location = f"{name}:{number}"
        document += any(map(begins_document.match, rows))  # of a broken sentence as well
        if not fault and all(row.startswith("#") for row in rows):
            continue
        try:
            if fault:
                raise TextError(fault)
            sentence = make(rows)
        except TextError as error:
            on_fault(location, str(error))
        else:
            yield Tree(sentence.text, location, sentence, document)


def _blocks(lines: Iterable[str]) -> Iterator[tuple[int, list[str], str]]:
    """Yield runs of lines between blank ones: the first one's number, the lines, and a fault."""
    rows: list[str] = []
    first, fault = 0, ""
    for number, line in enumerate(chain(lines, [""]), start=1):
        row = line.rstrip("\r\n")
        if not row.strip():
            if rows or fault:
                yield first, rows, fault
            rows, first, fault = [], 0, ""
            continue
        first = first or number
        if len(row) > MAX_LINE:
            fault = f"Line {number} is longer than {MAX_LINE:,} characters."
        elif len(rows) < MAX_ROWS:
            rows.append(row)
        else:
            fault = f"A sentence may have {MAX_ROWS:,} lines; this one has more."


def _sentence(rows: list[str]) -> Sentence:
    try:
        parsed = parse_token_and_metadata("\n".join(rows), field_parsers=dict(_READ))
    except ParseException as error:
        raise TextError(f"This is not CoNLL-U: {visible(str(error), 200)}") from error
    except ValueError as error:
        raise TextError("This is not CoNLL-U: a number in it has thousands of digits.") from error
    numbered = [row for row in parsed if isinstance(row.get("id"), int)]
    if [row["id"] for row in numbered] != list(range(1, len(numbered) + 1)) or not numbered:
        raise TextError("The words of a sentence must be numbered 1, 2, 3 and so on.")
    if any(row.get("deprel") is None for row in numbered):
        raise TextError("A word has eight columns or more, the relation to its head among them.")
    written = _written(parsed)
    spelled = "".join(form + " " * space for form, _, space in written).rstrip()
    text = clean_text(parsed.metadata.get("text") or spelled)
    spans = find_spans(text, written)
    words = tuple(_word(row, *spans[i]) for i, row in enumerate(numbered))
    _check_tree(words)
    heads = [word.head for word in words]
    mentions = read_mentions([row.get("misc") or {} for row in numbered], heads)
    return Sentence(text, words, mentions, space_after=written[-1][2])


def _head(field: str) -> int | None:
    """Read the number of a word's head; None where there is none."""
    if field == "_":
        return None
    if not _HEAD.fullmatch(field):
        raise TextError(f"The head of a word must be the number of a word, got “{visible(field)}”.")
    return int(field)


# What is not asked of a file need not be well-formed in it.
_READ: dict[str, Callable[[list[str], int], int | None]] = {
    "head": lambda line, i: _head(line[i]),
    **{name: lambda line, i: None for name in ("xpos", "feats", "deps")},
}


def _word(row: dict[str, Any], start: int, end: int) -> Word:
    upos, head = row["upos"], row["head"]
    if head is None:
        form = visible(row["form"])
        raise TextError(f"The word “{form}” has no head; a tree needs one of each word.")
    for column in ("form", "lemma", "upos", "deprel"):
        if SURROGATE.search(row[column] or ""):
            raise TextError(
                f"“{visible(row[column])}” ({column}) is not valid Unicode: the file is damaged "
                "there, or not written as UTF-8."
            )
    return Word(row["form"], row["lemma"], upos, head - 1, row["deprel"].lower(), start, end)


def _written(parsed: Iterable[dict[str, Any]]) -> list[tuple[str, list[str], bool]]:
    """List the forms in order, the words that each is made of, and whether a space follows.

    Empty nodes are not written.
    """
    written: list[tuple[str, list[str], bool]] = []
    inside = 0  # the last word of the multi-word token that we are in
    for row in parsed:
        number = row.get("id")
        if isinstance(number, tuple) and number[1] == "-":
            inside = number[2]
            written.append((row["form"], [], _has_space(row)))
        elif isinstance(number, int) and number <= inside:
            written[-1][1].append(row["form"])
        elif isinstance(number, int):
            written.append((row["form"], [row["form"]], _has_space(row)))
    return written


def _has_space(row: dict[str, Any]) -> bool:
    return (row.get("misc") or {}).get("SpaceAfter") != "No"


def find_spans(text: str, written: list[tuple[str, list[str], bool]]) -> list[tuple[int, int]]:
    """Find where each word stands in the text; TextError where the words do not spell it."""
    spans: list[tuple[int, int]] = []
    at = 0
    for form, parts, _ in written:
        while at < len(text) and text[at].isspace():
            at += 1
        if not text.startswith(form, at):
            raise TextError(
                f"The text of this sentence does not have “{visible(form)}” where it should."
            )
        start, at = at, at + len(form)
        if "".join(parts).casefold() != form.casefold():
            spans += [(start, at)] * len(parts)
            continue
        for part in parts:
            spans.append((start, start + len(part)))
            start += len(part)
    if text[at:].strip():
        surplus = visible(text[at:])
        raise TextError(f"The text of this sentence goes on after its last word: “{surplus}”.")
    return spans


def _check_tree(words: tuple[Word, ...]) -> None:
    """Raise TextError for no root or several, a head that does not exist, or a circle."""
    if sum(word.head == ROOT for word in words) != 1:
        raise TextError("A tree has exactly one root, a word whose head is 0.")
    reached = {ROOT}
    for number, word in enumerate(words):
        path = []
        at = number
        while at not in reached:
            if at in path or not 0 <= at < len(words):
                raise TextError(f"The heads above “{visible(word.form)}” lead to no root.")
            path.append(at)
            at = words[at].head
        reached.update(path)
