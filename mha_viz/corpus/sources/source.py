"""Sources of a study's texts: files, a folder of them, standard input, strings, datasets."""

import hashlib
import os
import stat
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from io import BufferedReader
from itertools import count, islice
from pathlib import Path
from typing import Any

from mha_viz.corpus.sources import one_pass_source
from mha_viz.corpus.sources.documents import DOCUMENT, join_documents
from mha_viz.corpus.sources.hub_datasets import find_dataset, write_rows
from mha_viz.corpus.sources.readers import READERS, ending_of, passages
from mha_viz.corpus.sources.reading import OpenFile, Passage
from mha_viz.corpus.sources.sampling import SeenTexts, fair_sample
from mha_viz.corpus.treebank import trees
from mha_viz.corpus.treebank.trees import Sentence
from mha_viz.errors import ArgumentError, SourceError, TextError
from mha_viz.text.cleaning import clean_text, visible
from mha_viz.text.encoding import Reader

SHARD_TEXTS = 256
TEXT, FILE = "text", "file"  # units beside `DOCUMENT` that are told without a column
SAMPLE = "sample"  # the treebank that comes with the package
MAX_SKIPPED_NAMED = 100  # places of what was skipped


@dataclass(frozen=True)
class Item:
    """A text of a corpus."""

    number: int  # its place among the different texts of the source, from 0; in a sample, too
    text: str  # cleaned (`clean_text`)
    location: str  # where it stands, as "speech.txt:17"
    # its words and tree, of a CoNLL-U file; or several, joined, with their trees.
    sentence: Sentence | None = None
    continues: bool = False  # the document of the text before (see `Passage`)
    n_lost: int = 0  # the mentions whose antecedents all stand in earlier texts of the document
    group: str = ""  # see `Passage`
    # the number of its group among those of the sample, in the order of their first texts
    unit: int = field(default=0, compare=False)


@dataclass(frozen=True)
class File:
    """A file of texts."""

    open: Callable[[], BufferedReader]  # gives its bytes from the start
    name: str  # in places and messages; below its folder, where a folder is the source
    ending: str  # that tells its kind, as ".csv"; "" where the content has to


@dataclass(frozen=True)
class SourceOptions:
    """The choice of a source's texts, as `study` takes it; `join` is of the model."""

    column: str | None = None
    sample: int | None = None
    seed: int = 0
    join: Reader | None = None
    group: str | None = None


class Source:
    """The texts of a corpus, read anew from the start by each iteration, and never held whole.

    A text that occurs again is counted and left out: copies of one text are one observation, and
    any mean over them would look surer than it is. Texts that depend on each other are one unit:
    those of one `group`, else of one document, else of one file of several. The counts are those of
    the last iteration, and `skipped` has place and reason of the first 100 that could not be read.
    """

    def __init__(
        self,
        name: str,
        files: list[File],
        ignored: Iterable[tuple[str, str]] = (),
        options: SourceOptions = SourceOptions(),  # it is frozen
    ) -> None:
        """Use `open_source`."""
        self.name, self._options = name, options
        self._kinds: set[str] = set()  # of units, that were met
        self.n_units = self.n_skipped = self.n_duplicates = self.n_going_on = self.n_lost = 0
        self.skipped: list[tuple[str, str]] = []
        self._files = files
        self._ignored = list(ignored)

    @property
    def unit(self) -> str:
        """The kind of unit: "document", "file", "text", or the column of groups."""
        return " or ".join(sorted(self._kinds))

    def __iter__(self) -> Iterator[Item]:
        self.n_units = self.n_skipped = self.n_duplicates = self.n_going_on = self.n_lost = 0
        self.skipped = []
        for name, reason in self._ignored:
            self._skip(name, reason)
        items = self._items()
        if self._options.sample is not None:
            items = iter(fair_sample(items, self._options.sample, self._options.seed))
        units: dict[int, int] = {}  # by hash, so that long names take no room
        for item in items:
            self.n_going_on += item.continues
            self.n_lost += item.n_lost
            new = self.n_units
            unit = units.setdefault(hash(item.group), new) if item.group else new
            self.n_units += unit == new
            yield replace(item, unit=unit)

    def check_documents(self) -> None:
        """Raise SourceError where there are no documents whose sentences can be joined."""
        if not any(passage.document for passage in self._passages()):
            raise SourceError(
                f"There is no document to join the sentences of in {self.name}: expected "
                "CoNLL-2012, or CoNLL-U with lines “# newdoc”. Study each sentence by itself, "
                "without joining."
            )

    def _items(self) -> Iterator[Item]:
        numbers, seen_texts = count(), SeenTexts()
        for passage in self._passages():
            try:
                text = _readable(passage.text)
            except TextError as error:
                self._skip(passage.location, str(error))
                continue
            if not seen_texts.add(text):
                self.n_duplicates += 1
                continue
            tree = passage.sentence, passage.continues, passage.n_lost
            yield Item(next(numbers), text, passage.location, *tree, str(passage.group))
        if next(numbers) == 0:
            first = "".join(f" Skipped first, {at}: {reason}" for at, reason in self.skipped[:1])
            raise SourceError(f"There is no text to study in {self.name}.{first}")

    def _passages(self) -> Iterator[Passage]:
        for file in self._files:
            has_passages = False
            try:
                with _reading(file):
                    stream = file.open()
                with stream:
                    options = self._options
                    group = None if options.group == TEXT else options.group
                    opened = OpenFile(stream, file.name, options.column, self._skip, group)
                    texts = passages(opened, file.ending)
                    if options.join is not None:
                        texts = join_documents(texts, options.join)
                    for passage in texts:
                        has_passages = True
                        yield self._grouped(passage, file.name)
            except SourceError as error:
                if len(self._files) == 1 and not has_passages:
                    raise
                self._skip(file.name, str(error))  # the rest of the file

    def _grouped(self, passage: Passage, file: str) -> Passage:
        """Name the group of a text; "" where it is alone."""
        kind, group = TEXT, ""
        column = self._options.group
        if column is not None and column != TEXT:
            kind, group = column, "" if passage.group is None else str(passage.group).strip()
        elif column is None and passage.document:
            kind, group = DOCUMENT, f"{passage.document} {file}"
        elif column is None and len(self._files) > 1:
            kind, group = FILE, file
        self._kinds.add(kind)
        return replace(passage, group=group)

    def _skip(self, location: str, reason: str) -> None:
        self.n_skipped += 1
        if len(self.skipped) < MAX_SKIPPED_NAMED:
            self.skipped.append((location, reason))

    def identity(self) -> dict[str, Any]:
        """Return what makes it the same source: its files' names, sizes and hashes; the choice."""
        options = self._options
        return {
            "files": [_fingerprint(file) for file in self._files],
            "column": options.column,
            "sample": options.sample,
            "seed": options.seed,
            "duplicates": "left out",  # earlier versions studied them, and numbered texts otherwise
        } | ({} if options.group is None else {"group": options.group})


def open_source(
    source: object,
    *,
    column: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    join: Reader | None = None,
    group: str | None = None,
) -> Source:
    """Open the texts of a corpus, in their order.

    The ending of a file's name gives its kind: .txt (a text a line, or a paragraph where the lines
    were wrapped to a page; `readers.is_wrapped`), .json (a list), .jsonl and .ndjson (JSON lines),
    .csv, .tsv, .parquet, .conllu and .conll or _conll (CoNLL-2012), each also packed (.gz). The
    files of a folder, and of all folders in it, are read in the order of their names; hidden files
    are left out. What cannot be read is counted and skipped.
    Standard input, pipes and strings are first copied into a temporary file, for they can be read
    only once; so are the texts of a dataset.

    Arguments are those of `study`. Without `column` it is one that is called "text" or the like, or
    the only one that holds text; what is drawn is held in memory; `join` is of a model for which
    the sentences of each document are joined; a file or folder may be called "sample".

    Raises:
        SourceError: nothing there, or nothing in it that could be read.
        ArgumentError: a sample of less than 1 text.

    >>> [(item.number, item.text) for item in open_source(["One.", "  ", "Two."])]
    [(0, 'One.'), (1, 'Two.')]
    """
    if sample is not None and sample < 1:
        raise ArgumentError(f"sample={sample}: expected the number of texts to draw, 1 or more.")
    opened = partial(Source, options=SourceOptions(column, sample, seed, join, group))
    if named_dataset := find_dataset(source):
        name, dataset = named_dataset
        named = None if group == TEXT else group
        write = partial(write_rows, dataset, name, column, named)
        return _copied(name, ".jsonl", write, opened)
    if isinstance(source, (str, os.PathLike)):
        if str(source) == "-":
            return _copied("standard input", "", partial(one_pass_source.pipe, None), opened)
        path = Path(source)
        if str(source) == SAMPLE and not path.exists():
            path = trees.SAMPLE
        return _from_path(path, opened)
    if isinstance(source, (bytes, dict)) or not isinstance(source, Iterable):
        raise SourceError(
            f"Expected a file, a folder, “-”, strings or a dataset, got {type(source).__name__}."
        )
    return _copied("texts", ".jsonl", partial(one_pass_source.strings, source), opened)


def shards(source: Source) -> Iterator[tuple[int, list[Item]]]:
    """Yield the texts in order, in numbered parts of 256 that are measured and stored as one."""
    items = iter(source)
    for number in count():
        part = list(islice(items, SHARD_TEXTS))
        if not part:
            return
        yield number, part


def _from_path(path: Path, opened: Callable[..., Source]) -> Source:
    name = visible(path.name or str(path), 80)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a name with NUL in it
        raise SourceError(
            f"There is no file or folder “{visible(str(path), 200)}”. To study texts of your own, "
            "write them into a file or hand over a list of them."
        ) from error
    if stat.S_ISDIR(mode):
        return opened(name, *_files_of(path, name))
    if stat.S_ISREG(mode):
        return opened(name, [_regular(path, name)])
    if stat.S_ISFIFO(mode):
        return _copied(name, "", partial(one_pass_source.pipe, path), opened)
    raise SourceError(f"{name} is neither a file of texts nor a folder of such files.")


def _regular(path: Path, name: str) -> File:
    return File(lambda: path.open("rb"), name, ending_of(path.name))


def _files_of(folder: Path, name: str) -> tuple[list[File], list[tuple[str, str]]]:
    """List the files that can be read, by their names, and those of other kinds with the reason."""
    readable: list[File] = []
    ignored: list[tuple[str, str]] = []
    paths = {path.relative_to(folder).as_posix(): path for path in _walk(folder, ignored)}
    for below, path in sorted(paths.items()):
        if ending_of(below) and path.is_file():
            readable.append(_regular(path, visible(below, 200)))
        else:
            ignored.append((visible(below, 200), "It is no file of a kind that can be read."))
    if not readable:
        raise SourceError(
            f"The folder {name} holds no file of texts: expected {', '.join(READERS)}, each also "
            "with .gz."
        )
    return readable, ignored


def _walk(folder: Path, ignored: list[tuple[str, str]]) -> Iterator[Path]:
    """Yield what is in a folder and not hidden; links to folders are named, and not followed."""

    def closed(error: OSError) -> None:
        below = Path(str(error.filename)).relative_to(folder)
        ignored.append((visible(str(below), 200), f"{error.strerror or error}."))

    for parent, folders, names in os.walk(folder, onerror=closed):
        folders[:] = [name for name in folders if not name.startswith(".")]
        linked = [name for name in folders if Path(parent, name).is_symlink()]
        yield from (Path(parent, name) for name in names + linked if not name.startswith("."))


def _copied(
    name: str, ending: str, write: one_pass_source.Write, opened: Callable[..., Source]
) -> Source:
    """Make a source of a copy on the disk, which goes with it."""
    copy = one_pass_source.TemporaryCopy(name, write)
    source = opened(name, [File(copy.open, name, ending)])
    weakref.finalize(source, copy.close)
    return source


@contextmanager
def _reading(file: File) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(f"{file.name} cannot be read: {error.strerror or error}.") from error


def _fingerprint(file: File) -> dict[str, Any]:
    with _reading(file), file.open() as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return {"name": file.name, "size": stream.tell(), "sha256": digest}


def _readable(text: str) -> str:
    """Clean the text; half a character that stands for a byte is named as that byte."""
    if not text.strip():
        raise TextError("The text is empty.")
    try:
        return clean_text(text)
    except TextError as error:
        byte = next((char for char in text if "\udc80" <= char <= "\udcff"), None)
        if byte is None:
            raise
        raise TextError(f"The byte 0x{ord(byte) - 0xDC00:02X} in it is not UTF-8.") from error
