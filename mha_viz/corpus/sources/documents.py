"""Sentences of a treebank's documents joined to texts, for relations beyond one sentence.

A document ends where the next one of its file begins, and one that is longer than a model takes is
cut between two sentences. No more than one text is held, however long a document is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice

from mha_viz.core.cancellation import check_cancelled
from mha_viz.corpus.sources.reading import Passage
from mha_viz.corpus.treebank.mentions import Mention, entities_by_head
from mha_viz.corpus.treebank.trees import Sentence, Word
from mha_viz.errors import SourceError, TextError
from mha_viz.text.encoding import Reader, count_positions

DOCUMENT = "document"  # how sentences are joined, in settings; the one way there is
MAX_TEXT_TOKENS = 1024  # of a text: a pattern has the square of it
_LONGEST_TOKEN = 100  # characters; one sign for a word of any length makes no text endless
_MAX_NAMES = 100_000  # of a document that are remembered


def join_documents(passages: Iterable[Passage], reader: Reader) -> Iterator[Passage]:
    """Yield the texts of a file, with the sentences of each document joined.

    A text is as long as the model takes, and of 1,024 tokens at the most; one sentence that is
    longer stands alone. Passages without a document stay as they are.
    """
    budget = _TokenBudget(reader)
    for document, group in groupby(passages, key=lambda passage: passage.document):
        if document:
            yield from _texts(group, budget)
        else:
            yield from group


def _texts(passages: Iterator[Passage], budget: _TokenBudget) -> Iterator[Passage]:
    """Yield the texts of one document."""
    opening = ""
    earlier = _SeenEntities()
    for part in _parts(passages, budget):
        sentences = [passage.sentence for passage in part if passage.sentence is not None]
        text = join_sentences(sentences, opening or sentences[0].text)
        yield replace(
            part[0],
            text=text.text,
            sentence=text,
            continues=bool(opening),
            n_lost=earlier.lost(text.mentions),
        )
        opening = text.opening
        earlier.add(text.mentions)


def join_sentences(sentences: Sequence[Sentence], opening: str) -> Sentence:
    """Join sentences of a document, which begins with the text `opening`, to one text."""
    text = ""
    words: list[Word] = []
    mentions: list[Mention] = []
    ends: list[int] = []
    for sentence in sentences:
        ends += [end + len(words) for end in sentence.ends]
        mentions += [mention.moved(len(words)) for mention in sentence.mentions]
        words += [word.moved(len(words), len(text)) for word in sentence.words]
        text += sentence.text + " " * sentence.space_after
    last = sentences[-1].space_after
    text = text[:-1] if last else text
    return Sentence(text, tuple(words), tuple(mentions), last, opening, tuple(ends))


def _parts(passages: Iterator[Passage], budget: _TokenBudget) -> Iterator[list[Passage]]:
    """Yield as many sentences together as fit."""
    pending: list[Passage] = []
    sizes: list[int] = []
    fault: SourceError | None = None
    try:
        for passage in passages:
            check_cancelled()
            size = budget.size(passage.text)
            while pending and sum(sizes) + size > budget.most:
                n = budget.fitting(pending)
                yield pending[:n]
                pending, sizes = pending[n:], sizes[n:]
            pending.append(passage)
            sizes.append(size)
    except SourceError as error:  # the rest of the file is lost, but nothing that was read
        fault = error
    while pending:
        n = budget.fitting(pending)
        yield pending[:n]
        pending = pending[n:]
    if fault is not None:
        raise fault


class _TokenBudget:
    """The number of sentences that a model takes at once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._n_ctx = min(reader.n_ctx, MAX_TEXT_TOKENS)
        self._added = reader.tokenizer.num_special_tokens_to_add()
        self.most = self._n_ctx - self._added

    def size(self, text: str) -> int:
        """Count the tokens of a sentence by itself; 1 at least, for no text may be endless."""
        least = max(1, len(text) // _LONGEST_TOKEN)
        if least > self.most:
            return least
        try:
            return max(least, count_positions(self._reader, text) - self._added)
        except TextError:  # nothing in it can be read
            return least

    def fitting(self, passages: list[Passage]) -> int:
        """Count how many, from the first, fit: joined, some tokenizers read more."""
        for n in range(len(passages), 1, -1):
            sentences = [part.sentence for part in passages[:n] if part.sentence is not None]
            text = join_sentences(sentences, "").text
            try:
                if count_positions(self._reader, text) <= self._n_ctx:
                    return n
            except TextError:  # nor can anything be read of all of them: told when they are run
                return n
        return 1


class _SeenEntities:
    """The entities mentioned in the earlier texts of a document."""

    def __init__(self) -> None:
        self._names: dict[bytes, None] = {}

    def add(self, mentions: Iterable[Mention]) -> None:
        """Remember the mentions; of very many the oldest are forgotten."""
        for mention in mentions:
            self._names.pop(_short(mention.entity), None)
            self._names[_short(mention.entity)] = None
        for name in [*islice(self._names, max(0, len(self._names) - _MAX_NAMES))]:
            del self._names[name]

    def lost(self, mentions: Iterable[Mention]) -> int:
        """Count the mentions of a text whose antecedents are all in earlier texts."""
        mentioned: set[str] = set()
        n = 0
        for _, means in sorted(entities_by_head(mentions).items()):
            n += mentioned.isdisjoint(means) and any(_short(name) in self._names for name in means)
            mentioned |= means
        return n


def _short(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
