"""What all commands share: their arguments, where text comes from, and where results go."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mha_viz.cli.format import Format, ReportFormat, TableFormat
from mha_viz.core.output_file import write_file
from mha_viz.errors import ArgumentError, TextError, WriteError
from mha_viz.text.cleaning import clean_text

if TYPE_CHECKING:
    from pandas import DataFrame

    from mha_viz.engine.model import AttentionModel

Text = Annotated[str, typer.Argument(help="The text; - reads it from standard input.")]
Texts = Annotated[
    str, typer.Argument(help="A text, a file with one text a line, or - for standard input.")
]
Model = Annotated[str, typer.Option("--model", "-m", help="Shipped name, folder or Hub id.")]
Pair = Annotated[str | None, typer.Option(help="Second segment, or the decoder's text.")]
Part = Annotated[str | None, typer.Option(help="encoder, decoder or cross, where there are such.")]


def _place_to_write(given: str) -> Path:
    """What --out names; a folder is refused before anything is loaded."""
    if not given or Path(given).is_dir():
        raise WriteError(f"--out expects the name of a file to write, got {given or 'nothing'}.")
    return Path(given)


Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        parser=_place_to_write,
        metavar="FILE",
        help="File to write; it is whole or, should writing fail, as it was before.",
    ),
]
Words = Annotated[bool, typer.Option("--words", help="Merge sub-words to words.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
_Format = typer.Option("--format", "-f", help="Else as --out ends, or a table.")
ShowAs = Annotated[Format | None, _Format]
ReportAs = Annotated[ReportFormat | None, _Format]
TableAs = Annotated[TableFormat | None, _Format]

MAX_FILE_BYTES = 1_000_000  # of a file of texts: more than any of these commands can run
K = TypeVar("K", bound=StrEnum)


def read(text: str, pair: str | None = None) -> str:
    """The text, or that of standard input; it and its pair are checked before a model is loaded.

    Raises:
        TextError: as `clean_text` says.
    """
    given = sys.stdin.read() if text == "-" else text
    clean_text(given)
    if pair is not None:
        clean_text(pair, "second text")
    return given


def read_texts(given: str) -> list[str]:
    """Each line of a file or of standard input that is not blank; or the text itself.

    Raises:
        TextError: no text, or one that cannot be used; a file that is too large or holds no text.
    """
    path = Path(given)
    try:
        is_file = given != "-" and path.is_file()
    except (OSError, ValueError):  # a long text, or one with NUL in it, names no file
        is_file = False
    if given != "-" and not is_file:
        return [read(given)]
    if is_file and path.stat().st_size > MAX_FILE_BYTES:
        raise TextError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes: give fewer texts.")
    try:
        content = sys.stdin.read() if given == "-" else path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise TextError(f"{path} is not a text in UTF-8.") from error
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    if not lines:
        raise TextError("There is no text in it: expected one text a line.")
    for line in lines:
        clean_text(line)
    return lines


def load(name: str) -> AttentionModel:
    """A model; imports what that needs only now, as --help must not wait for torch."""
    from mha_viz.checkpoints.loading import load

    return load(name)


def tell_notes(notes: Iterable[str]) -> None:
    """What the user should know of a result, on standard error."""
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def kind_of(known: type[K], asked: K | None, out: Path | None) -> K:
    """The format: as asked for, else as the file's name ends, else a table."""
    ending = "" if out is None else out.suffix.lstrip(".").lower()
    return asked or known(ending if ending in list(known) else "table")


def deliver(content: str | bytes, out: Path | None) -> None:
    """Write a result into its file, or print it; bytes never go to a terminal."""
    if out is not None:
        write_file(out, content if isinstance(content, bytes) else content.encode())
        typer.echo(f"wrote {out}", err=True)
    elif isinstance(content, str):
        typer.echo(content, nl=False)
    elif sys.stdout.isatty():
        raise ArgumentError("A picture would fill the terminal with signs: give a file with --out.")
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def deliver_table(
    table: DataFrame, file_format: TableFormat | None, out: Path | None, title: str, **more: object
) -> None:
    """A table to read under its title, or CSV, or JSON with what else there is to say."""
    from mha_viz.cli import format as printed

    kind = kind_of(TableFormat, file_format, out)
    deliver(printed.table(table, kind, title, **more), out)
