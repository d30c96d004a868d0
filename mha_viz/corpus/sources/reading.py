"""Common parts of the readers of all kinds of files: a text with its place, lines, the text's
column.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase, TextIOBase, TextIOWrapper
from itertools import count

from mha_viz.corpus.treebank.trees import Sentence
from mha_viz.errors import SourceError
from mha_viz.text.cleaning import visible

MAX_LINE = 1 << 20  # characters: a file without line ends must not be read whole
HEAD = 1 << 16  # characters from which a file's paragraphs or fields are told

# Columns of this name, from what says most surely that it is the text to what may be.
USUAL = ("text", "content", "sentence", "document", "body", "article", "review", "passage", "raw")
_MAX_LISTED = 20
_ENDS = ("\n", "\r")  # of lines

Skip = Callable[[str, str], None]  # takes a place and the reason


@dataclass(frozen=True)
class Passage:
    """A text as its file has it."""

    location: str  # as "speech.txt:17": a line, or an element of a list, or a row of a table
    text: str  # not yet cleaned; bytes that are no UTF-8 stand in it as U+DC80 to U+DCFF
    sentence: Sentence | None = None  # its words and tree, of a CoNLL-U file
    document: int = 0  # its number in the file, from 1; 0: of none that is known
    continues: bool = False  # whether the text before is of the same document
    n_lost: int = 0  # mentions whose antecedents are all in earlier texts
    group: object = None  # the same for texts that depend on each other


@dataclass(frozen=True)
class OpenFile:
    """A file of texts that is open."""

    stream: BufferedIOBase  # its bytes; it can go back
    name: str  # in places and messages
    column: str | None  # of a table or of JSON objects; None finds one
    skip: Skip  # is given the place and the reason of what cannot be read
    group: str | None = None  # the column that says which texts depend on each other

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines with their numbers, from 1; one too long is skipped, never held.

        A line ends with LF, CR LF or CR, as old Macs wrote it.
        """
        text = self.text()
        for number in count(1):
            line = text.readline(MAX_LINE + 1)
            if not line:
                return
            if len(line) > MAX_LINE and not line.endswith(_ENDS):
                while (tail := text.readline(MAX_LINE)) and not tail.endswith(_ENDS):
                    pass
                reason = f"The line is longer than {MAX_LINE:,} characters."
                self.skip(f"{self.name}:{number}", reason)
                continue
            yield number, line

    def text(self) -> TextIOBase:
        """Decode the bytes, without the mark that Windows puts before UTF-8."""
        return TextIOWrapper(self.stream, "utf-8-sig", "surrogateescape", newline="")  # type: ignore[type-var]

    def columns(self, columns: Sequence[str], texts: Sequence[str]) -> tuple[str, str]:
        """Return the column of texts and that of groups; without groups each text is one.

        Raises SourceError: as `chosen_column`.
        """
        if self.group is not None:
            chosen_column(self.name, self.group, columns, columns)
        column = chosen_column(self.name, self.column, columns, texts)
        return column, self.group or column

    def refuse_column(self, kind: str) -> None:
        """Raise SourceError if a column was named for a file without columns."""
        column = self.column if self.group is None else self.group
        if column is not None:
            raise SourceError(
                f"{self.name} is {kind} and has no column “{visible(column)}”: leave it away."
            )


def first_lines(numbered: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    """Take lines up to the first `HEAD` characters from those to come."""
    lines: list[tuple[int, str]] = []
    size = 0
    for number, line in numbered:
        lines.append((number, line))
        size += len(line)
        if size >= HEAD:
            break
    return lines


def chosen_column(
    name: str, column: str | None, columns: Sequence[str], texts: Sequence[str]
) -> str:
    """Return the column given; else one with a usual name, or the only one that holds text.

    Raises SourceError: there is no such column, or none that can be told; it lists what there is.

    >>> chosen_column("reviews.csv", None, ["id", "Text", "title"], ["Text", "title"])
    'Text'
    """
    listed = ", ".join(f"“{visible(title)}”" for title in columns[:_MAX_LISTED]) or "no columns"
    if len(columns) > _MAX_LISTED:
        listed += f" and {len(columns) - _MAX_LISTED:,} more"
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
