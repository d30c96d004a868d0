"""Readers of one file of texts from its beginning: each text with its place, never the file whole.

A reader is a generator. It yields texts as they stand and reports to `skip` what it could not read;
what makes the whole file useless is a `SourceError`.
"""

from __future__ import annotations

import csv
import gzip
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from io import BufferedIOBase
from itertools import chain, count, pairwise, repeat
from pathlib import PurePath

import pyarrow as pa
from pyarrow import parquet, types

from mha_viz.corpus.sources.json_texts import is_json_list, json_texts
from mha_viz.corpus.sources.reading import MAX_LINE, OpenFile, Passage, first_lines
from mha_viz.corpus.treebank.conll_2012 import read_conll_2012
from mha_viz.corpus.treebank.trees import Tree, read_conllu
from mha_viz.errors import SourceError, translating

_ROWS = 256  # taken at a time
_BUFFER = 1 << 20  # bytes of a column that are read ahead; without a limit it is a row group's
PAGE_WIDTHS = range(40, 121)  # characters of a line, in a text that was wrapped to a page
GZIP = b"\x1f\x8b"  # what a packed file begins with, whatever its name


def passages(file: OpenFile, ending: str) -> Iterator[Passage]:
    """Read the texts of a file, packed by gzip or not, one after another.

    The ending of its name (`ending_of`) tells its kind; where it is "" the content does.
    """
    try:
        if _begin(file.stream).startswith(GZIP):
            file = replace(file, stream=gzip.GzipFile(fileobj=file.stream))
        begin = _begin(file.stream)
        # letters with zeros beside them are UTF-16 or UTF-32 without a mark
        wide = bool(ending) and ending != ".parquet" and 4 * begin.count(0) > len(begin)
        if wide or begin.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise SourceError(
                f"{file.name} is UTF-16 or UTF-32, and UTF-8 is expected: save it as UTF-8."
            )
        yield from (READERS.get(ending) or _reader_by_content(begin, file))(file)
    except (OSError, EOFError, zlib.error) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise SourceError(
            f"{file.name} cannot be read to its end: {reason.rstrip('.')}."
        ) from error


def ending_of(name: str) -> str:
    """Return the ending that tells a file's kind, without ".gz": ".csv" of "Reviews.CSV.gz".

    >>> ending_of("Reviews.CSV.gz"), ending_of("cctv_0001.v4_gold_conll"), ending_of("notes")
    ('.csv', '.conll', '')
    """
    ending = PurePath(name.lower().removesuffix(".gz")).suffix
    ending = ".conll" if ending.endswith("_conll") else ending
    return ending if ending in READERS else ""


def _begin(stream: BufferedIOBase) -> bytes:
    begin = stream.read(512)
    stream.seek(0)
    return begin


def _reader_by_content(begin: bytes, file: OpenFile) -> Reader:
    """Choose the reader for what has no name that would tell: standard input, a pipe, "notes"."""
    if begin.startswith(b"PAR1"):
        return READERS[".parquet"]
    if b"\0" in begin:
        kinds = ", ".join(READERS)
        raise SourceError(f"{file.name} is no text: expected a file of the kinds {kinds}.")
    if begin.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return READERS[".jsonl"]
    if is_json_list(begin):
        return READERS[".json"]
    if re.match(rb"# ?(newdoc|newpar|global\.|sent_id ?=|text ?=)|1(-\d+)?\t.*\t", begin):
        return READERS[".conllu"]
    if begin.startswith(b"#begin document"):
        return READERS[".conll"]
    return READERS[".txt" if file.column is None and file.group is None else ".csv"]


def _text(file: OpenFile) -> Iterator[Passage]:
    file.refuse_column("plain text")
    numbered = file.lines()
    head = first_lines(numbered)
    lines = ((number, line.strip()) for number, line in chain(head, numbered))
    if is_wrapped([line for _, line in head]):
        yield from _paragraphs(lines, file)
    else:
        yield from (Passage(f"{file.name}:{number}", line) for number, line in lines if line)


def is_wrapped(text: list[str]) -> bool:
    """Tell whether lines were broken to fit a page, so that a paragraph and not a line is one text.

    So it is where blank lines part the paragraphs, and most lines inside of them come near the
    width of the page: they are longer than two thirds of it. The width is the length that one line
    in twenty goes beyond, and no page is narrower than 40 characters or wider than 120.
    """
    stripped = "\n".join(line.strip() for line in text).strip().split("\n")
    lengths = sorted(len(line) for line in stripped if line)
    if "" not in stripped or not lengths:
        return False
    width = lengths[-1 - len(lengths) // 20]
    inner = [len(line) for line, after in pairwise(stripped) if line and after]
    return width in PAGE_WIDTHS and sum(3 * n > 2 * width for n in inner) > len(inner) / 2


def _paragraphs(numbered: Iterable[tuple[int, str]], file: OpenFile) -> Iterator[Passage]:
    """Join lines between blank lines by spaces."""
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
            reason = f"The paragraph is longer than {MAX_LINE:,} characters."
            file.skip(f"{file.name}:{begin}", reason)
        else:
            yield Passage(f"{file.name}:{begin}", " ".join(parts))
        parts, size = [], 0


def _parquet(opened: OpenFile) -> Iterator[Passage]:
    """Read the texts of one column.

    A Parquet file is read from its end, so one packed by gzip is unpacked onto the disk.
    """
    with ExitStack() as files:

        def damaged(error: BaseException) -> SourceError:
            reason = str(error).strip().partition("\n")[0][:200].rstrip(".")
            reason = reason or type(error).__name__
            return SourceError(f"{opened.name} cannot be read as Parquet: {reason}.")

        files.enter_context(translating(damaged))
        seekable: object = opened.stream
        if isinstance(opened.stream, gzip.GzipFile):
            unpacked = files.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(opened.stream, unpacked)
            seekable = unpacked
        # Without pre_buffer: it would hold all row groups at once.
        file = parquet.ParquetFile(seekable, buffer_size=_BUFFER, pre_buffer=False)
        fields = list(file.schema_arrow)
        texts = [field.name for field in fields if is_text(field.type)]
        column, group = opened.columns([field.name for field in fields], texts)
        numbers = count(1)
        for batch in file.iter_batches(batch_size=_ROWS, columns=list({column, group})):
            for value, of in zip(batch[column], batch[group], strict=True):
                location = f"{opened.name}:{next(numbers)}"
                try:
                    text, name = value.as_py(), of.as_py()
                except UnicodeDecodeError as error:
                    opened.skip(location, f"The text is not UTF-8 ({error.reason}).")
                    continue
                if text is None:
                    opened.skip(location, "There is no text.")
                else:
                    yield Passage(location, text, group=name)


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column of this type holds text."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _csv(file: OpenFile, *, quoted: bool = True) -> Iterator[Passage]:
    rows = _rows(file, quoted)
    header = [title.strip() for title in next(rows, ("", []))[1]]
    at, group = map(header.index, file.columns(header, header)) if header else (0, 0)
    for location, row in rows:
        if len(row) == len(header):
            yield Passage(location, row[at], group=row[group])
        else:
            file.skip(location, f"The row has {len(row)} fields, and the header has {len(header)}.")


def _rows(file: OpenFile, quoted: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of a table, each with the place where it begins; .tsv knows no quotes."""
    numbered = file.lines()
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
        location = f"{file.name}:{read + 1}"
        try:
            row = next(rows, None)
        except csv.Error as error:
            file.skip(location, f"The row cannot be read: {error}.")
            continue
        if row is None:
            return
        if row:
            yield location, row


def _treebank(file: OpenFile, read: Callable[..., Iterator[Tree]]) -> Iterator[Passage]:
    file.refuse_column("a treebank")
    for tree in read(_every_line(file.lines()), file.name, file.skip):
        yield Passage(tree.location, tree.text, tree.sentence, tree.document)


def _every_line(numbered: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Yield lines with a stand-in for each that was too long, so that they are counted right."""
    before = 0
    for number, line in numbered:
        yield from repeat("(a line that is too long)", number - before - 1)
        yield line
        before = number


Reader = Callable[[OpenFile], Iterator[Passage]]
READERS: dict[str, Reader] = {
    ".txt": _text,
    ".json": partial(json_texts, is_json=True),
    ".jsonl": json_texts,
    ".ndjson": json_texts,
    ".csv": _csv,
    ".tsv": partial(_csv, quoted=False),
    ".parquet": _parquet,
    ".conllu": partial(_treebank, read=read_conllu),
    ".conll": partial(_treebank, read=read_conll_2012),
}
