"""What the readers of all kinds of files share: a text with its place, lines, the text's column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase, TextIOWrapper
from itertools import count

from mha_viz.corpus.trees import Sentence
from mha_viz.errors import SourceError
from mha_viz.text.cleaning import visible

MAX_LINE = 1 << 20  # characters: a file without line ends must not be read whole
HEAD = 1 << 16  # characters from which a file's paragraphs or fields are told

# Columns of this name, from what says most surely that it is the text to what may be.
USUAL = ("text", "content", "sentence", "document", "body", "article", "review", "passage", "raw")
_MOST_LISTED = 20
_ENDS = ("\n", "\r")  # of lines

Skip = Callable[[str, str], None]  # takes a place and the reason


@dataclass(frozen=True)
class Passage:
    """A text as its file has it.

    Args:
        place: where it begins, as "speech.txt:17": a line, an element of a JSON list, or a row of
            a Parquet file.
        text: not yet cleaned; bytes that are no UTF-8 stand in it as U+DC80 to U+DCFF.
        sentence: its words and tree, of a CoNLL-U file.
        document: the number of its document in the file, from 1; 0: of none that is known.
        goes_on: whether the text before is of the same document, and it was joined to texts.
        n_lost: of such a text, the mentions whose antecedents all stand in earlier ones.
    """

    place: str
    text: str
    sentence: Sentence | None = None
    document: int = 0
    goes_on: bool = False
    n_lost: int = 0


def lines(stream: BufferedIOBase, name: str, skip: Skip) -> Iterator[tuple[int, str]]:
    """A file's lines with their numbers, from 1; one that is too long is skipped, and never held.

    A line ends with LF, CR LF or CR, as old Macs wrote it.

    Args:
        stream: the file.
        name: of it, for places.
        skip: is told the place and the reason.
    """
    # "sig" is the mark that Windows puts before UTF-8
    text = TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")  # type: ignore[type-var]
    for number in count(1):
        line = text.readline(MAX_LINE + 1)
        if not line:
            return
        if len(line) > MAX_LINE and not line.endswith(_ENDS):
            while (rest := text.readline(MAX_LINE)) and not rest.endswith(_ENDS):
                pass
            skip(f"{name}:{number}", f"The line is longer than {MAX_LINE:,} characters.")
            continue
        yield number, line


def first_lines(numbered: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    """Lines up to the first `HEAD` characters, taken from those to come."""
    taken: list[tuple[int, str]] = []
    size = 0
    for number, line in numbered:
        taken.append((number, line))
        size += len(line)
        if size >= HEAD:
            break
    return taken


def chosen_column(
    name: str, column: str | None, columns: Sequence[str], texts: Sequence[str]
) -> str:
    """The column that was asked for; else one with a usual name, or the only one that holds text.

    Args:
        name: of the file, for messages.
        column: what was asked for, or None.
        columns: all columns.
        texts: those that hold text, as far as one can tell.

    Raises:
        SourceError: there is no such column, or none that can be told; it lists what there is.

    >>> chosen_column("reviews.csv", None, ["id", "Text", "title"], ["Text", "title"])
    'Text'
    """
    listed = ", ".join(f"“{visible(title)}”" for title in columns[:_MOST_LISTED]) or "no columns"
    if len(columns) > _MOST_LISTED:
        listed += f" and {len(columns) - _MOST_LISTED:,} more"
    if column is not None:
        if column not in columns:
            raise SourceError(f"{name} has no column “{visible(column)}”; it has {listed}.")
        if column not in texts:
            raise SourceError(f"The column “{visible(column)}” of {name} holds no text.")
        return column
    usual = [title for word in USUAL for title in texts if title.lower() == word]
    if not usual and len(texts) != 1:
        raise SourceError(f"Name the column of {name} that holds the texts; it has {listed}.")
    return (usual or list(texts))[0]


def no_columns(name: str, column: str | None, what: str) -> None:
    """Refuse a column that was named for a file without columns.

    Args:
        name: of the file.
        column: what was asked for, or None.
        what: the file is, as "plain text".

    Raises:
        SourceError: one was named.
    """
    if column is not None:
        raise SourceError(
            f"{name} is {what} and has no column “{visible(column)}”: leave the column away."
        )
