"""One file of texts, read from its beginning: each text with its place, and never the file whole.

A reader is a generator. It hands on texts as they stand and tells `skip` what it could not read;
what makes the whole file useless is a `SourceError`.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BufferedIOBase
from itertools import chain, pairwise, repeat
from pathlib import PurePath

from mha_viz.corpus.json_texts import is_json_list, json_document, json_texts
from mha_viz.corpus.parquet import parquet_texts
from mha_viz.corpus.reading import (
    MAX_LINE,
    Passage,
    Skip,
    chosen_column,
    first_lines,
    lines,
    no_columns,
)
from mha_viz.corpus.trees import read_conllu
from mha_viz.errors import SourceError

PAGE_WIDTHS = range(40, 121)  # characters of a line, in a text that was wrapped to a page
GZIP = b"\x1f\x8b"  # what a packed file begins with, whatever its name


def passages(
    stream: BufferedIOBase, name: str, ending: str, column: str | None, skip: Skip
) -> Iterator[Passage]:
    """The texts of a file, one after another.

    Args:
        stream: the file's bytes, packed by gzip or not; it must be able to go back.
        name: of the file, for places and messages.
        ending: of its name (`ending_of`), which tells its kind; "" where the content has to.
        column: of a table or of JSON objects; None finds one.
        skip: is told the place and the reason of what cannot be read.

    Raises:
        SourceError: no such column, a damaged file, or bytes that are no text.
    """
    try:
        if _begin(stream).startswith(GZIP):
            stream = gzip.GzipFile(fileobj=stream)
        begin = _begin(stream)
        if begin.startswith((b"\xff\xfe", b"\xfe\xff")) or _has_wide_letters(begin, ending):
            raise SourceError(
                f"{name} is UTF-16 or UTF-32, and UTF-8 is expected: save it as UTF-8."
            )
        read = READERS.get(ending) or _told_by_content(begin, name, column)
        yield from read(stream, name, column, skip)
    except (OSError, EOFError, zlib.error) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise SourceError(f"{name} cannot be read to its end: {reason.rstrip('.')}.") from error


def ending_of(name: str) -> str:
    """The ending that tells a file's kind, without ".gz": ".csv" of "Reviews.CSV.gz".

    >>> ending_of("Reviews.CSV.gz"), ending_of("notes")
    ('.csv', '')
    """
    ending = PurePath(name.lower().removesuffix(".gz")).suffix
    return ending if ending in READERS else ""


def _begin(stream: BufferedIOBase) -> bytes:
    begin = stream.read(512)
    stream.seek(0)
    return begin


def _has_wide_letters(begin: bytes, ending: str) -> bool:
    """Whether a text has zeros beside its letters, as UTF-16 and UTF-32 have without a mark."""
    return bool(ending) and ending != ".parquet" and 4 * begin.count(0) > len(begin)


def _told_by_content(begin: bytes, name: str, column: str | None) -> Reader:
    """The reader for what has no name that would tell: standard input, a pipe, "notes"."""
    if begin.startswith(b"PAR1"):
        return READERS[".parquet"]
    if b"\0" in begin:
        raise SourceError(f"{name} is no text: expected a file of the kinds {', '.join(READERS)}.")
    if begin.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return READERS[".jsonl"]
    if is_json_list(begin):
        return READERS[".json"]
    if re.match(rb"# ?(newdoc|newpar|global\.|sent_id ?=|text ?=)|1(-\d+)?\t.*\t", begin):
        return READERS[".conllu"]
    return READERS[".txt" if column is None else ".csv"]


# --- plain text ---------------------------------------------------------------------------------


def _text(stream: BufferedIOBase, name: str, column: str | None, skip: Skip) -> Iterator[Passage]:
    no_columns(name, column, "plain text")
    numbered = lines(stream, name, skip)
    head = first_lines(numbered)
    whole = ((number, line.strip()) for number, line in chain(head, numbered))
    if is_wrapped([line for _, line in head]):
        yield from _paragraphs(whole, name, skip)
    else:
        yield from (Passage(f"{name}:{number}", line) for number, line in whole if line)


def is_wrapped(text: list[str]) -> bool:
    """Whether lines were broken to fit a page, so that a paragraph and not a line is one text.

    So it is where blank lines part the paragraphs, and most lines inside of them come near the
    width of the page: they are longer than two thirds of it. The width is the length that one line
    in twenty goes beyond, and no page is narrower than 40 characters or wider than 120.

    Args:
        text: the lines that a file begins with.
    """
    stripped = "\n".join(line.strip() for line in text).strip().split("\n")
    lengths = sorted(len(line) for line in stripped if line)
    if "" not in stripped or not lengths:
        return False
    width = lengths[-1 - len(lengths) // 20]
    inner = [len(line) for line, after in pairwise(stripped) if line and after]
    return width in PAGE_WIDTHS and sum(3 * n > 2 * width for n in inner) > len(inner) / 2


def _paragraphs(numbered: Iterable[tuple[int, str]], name: str, skip: Skip) -> Iterator[Passage]:
    """Lines between blank lines, joined by spaces."""
    begin, parts, size = 0, list[str](), 0
    for number, line in chain(numbered, [(0, "")]):
        if line and not size:
            begin = number
        if line and size <= MAX_LINE:
            parts.append(line)
        size += len(line)
        if line or not size:
            continue
        if size > MAX_LINE:
            skip(f"{name}:{begin}", f"The paragraph is longer than {MAX_LINE:,} characters.")
        else:
            yield Passage(f"{name}:{begin}", " ".join(parts))
        parts, size = [], 0


# --- tables and trees ---------------------------------------------------------------------------


def _csv(
    stream: BufferedIOBase, name: str, column: str | None, skip: Skip, *, quoted: bool = True
) -> Iterator[Passage]:
    rows = _rows(lines(stream, name, skip), name, skip, quoted)
    header = [title.strip() for title in next(rows, ("", []))[1]]
    at = header.index(chosen_column(name, column, header, header)) if header else 0
    for place, row in rows:
        if len(row) == len(header):
            yield Passage(place, row[at])
        else:
            skip(place, f"The row has {len(row)} fields, and the header has {len(header)}.")


def _rows(
    numbered: Iterator[tuple[int, str]], name: str, skip: Skip, quoted: bool
) -> Iterator[tuple[str, list[str]]]:
    """The rows of a table, each with the place where it begins; .tsv knows no quotes."""
    first = next(((number, line) for number, line in numbered if line.strip()), (0, ""))
    read = first[0] - 1  # the number of the line that was read last

    def fed() -> Iterator[str]:
        nonlocal read
        for read, line in chain([first], numbered):  # noqa: B007  # told to the loop below
            yield line

    # A field that is never closed ends at the csv module's limit (131,072 characters), and reading
    # goes on with the line after it.
    rows = csv.reader(
        fed(),
        delimiter=max(",;\t", key=first[1].count) if quoted else "\t",
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
    )
    while True:
        place = f"{name}:{read + 1}"
        try:
            row = next(rows, None)
        except csv.Error as error:
            skip(place, f"The row cannot be read: {error}.")
            continue
        if row is None:
            return
        if row:
            yield place, row


def _conllu(stream: BufferedIOBase, name: str, column: str | None, skip: Skip) -> Iterator[Passage]:
    no_columns(name, column, "a treebank")
    for tree in read_conllu(_every_line(lines(stream, name, skip)), name, skip):
        yield Passage(tree.place, tree.text, tree.sentence, tree.document)


def _every_line(numbered: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Lines with a stand-in for each that was too long, so that they are counted right."""
    before = 0
    for number, line in numbered:
        yield from repeat("(a line that is too long)", number - before - 1)
        yield line
        before = number


Reader = Callable[[BufferedIOBase, str, str | None, Skip], Iterator[Passage]]
READERS: dict[str, Reader] = {
    ".txt": _text,
    ".json": json_document,
    ".jsonl": json_texts,
    ".ndjson": json_texts,
    ".csv": _csv,
    ".tsv": partial(_csv, quoted=False),
    ".parquet": parquet_texts,
    ".conllu": _conllu,
}
