"""Parts that all commands share: arguments, the source of texts, the place of results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from mha_viz.cli.format import Format, ListFormat, ReportFormat, TableFormat
from mha_viz.core.amounts import of_bytes
from mha_viz.core.names import Dtype
from mha_viz.core.output_file import check_writable, write_file
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
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
Devices = Annotated[
    str,
    typer.Option(help="auto, cpu, cuda, mps; cuda:0,cuda:1 or all: one process on each card."),
]
Precision = Annotated[Dtype, typer.Option(help="Precision of the weights; auto: config.json's.")]
Pair = Annotated[str | None, typer.Option(help="Second segment, or the decoder's text.")]
Part = Annotated[
    Literal["encoder", "decoder", "cross"] | None,
    typer.Option(help="Which attention of an encoder-decoder to show."),
]
Target = Annotated[str | None, typer.Option(help="Token to track.")]
Against = Annotated[str | None, typer.Option(help="Token whose logit is subtracted.")]
Position = Annotated[
    int | None,
    typer.Option(help="Position of the prediction, from 0. [default: last token or first mask]"),
]
_PAIR_BYTES = 40  # of a row of the CSV of a head
SHOWN = 20  # rows of a long table to read; files and JSON have all

_TABLE = "txt"  # the ending of a table to read; a name without one is a table, too


def _check_ending(option: str, path: Path, known: Iterable[str], hint: str = "") -> None:
    *others, last = (f".{ending}" for ending in known)
    if path.suffix.lower() not in (*others, last):
        expected = f"{', '.join(others)} or {last}" if others else last
        raise WriteError(f"{option} {path} ends in {path.suffix}; expected {expected}{hint}.")


def _file(names: tuple[str, ...], what: str, *endings: str, parents: bool = False) -> Any:
    """Return the option of a file to write, which is refused before anything is loaded.

    `endings` are those that it may have, besides none; () for any. `parents` makes folders.
    """

    def parse(given: str) -> Path:
        path = Path(given)
        if not given or path.is_dir():
            wrong = given or "nothing"
            raise WriteError(f"{names[0]} expects the name of a file to write, got {wrong}.")
        if endings and path.suffix:
            _check_ending(names[0], path, endings)
        check_writable(path, parents=parents)
        return path

    return typer.Option(*names, parser=parse, metavar="FILE", help=f"{what} (written atomically).")


_OUT, _RECORD = ("--out", "-o"), "File for the record, .safetensors"
_CHOICE = "File for the tested choice, .json, which opens again"
Out = Annotated[Path | None, _file(_OUT, "File to write")]
RecordOut = Annotated[Path | None, _file(_OUT, _RECORD, "safetensors", parents=True)]
JsonOut = Annotated[Path | None, _file(("--save",), _CHOICE, "json")]
Column = Annotated[Literal["single", "double"], typer.Option(help="Width of a paper's figures.")]
Words = Annotated[bool, typer.Option("--words", help="Merge sub-words to words.")]
_FORMAT = ("--format", "-f")


class Command(TyperCommand):
    """A command that takes --json where it has --format."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read --json as --format json."""
        if any("--format" in one.opts for one in self.params):
            end = args.index("--") if "--" in args else len(args)
            args = ["--format=json" if a == "--json" else a for a in args[:end]] + args[end:]
        return super().parse_args(ctx, args)


def _format_of(context: Any, param: Any, requested: Any) -> Any:
    """Return the format: the one requested, else that of the file's ending, else a table.

    It is decided before the command begins. Options on the command line come first, so that --out
    is known where this one was not given. Typer's own types of context and parameter are not those
    that it hands over.
    """
    out: Path | None = context.params.get("out")
    source = context.get_parameter_source(param.name or "")
    if out is None or not out.suffix or source is None or source.name != "DEFAULT":
        return requested
    known = {_TABLE if kind == "table" else str(kind): kind for kind in type(requested)}
    _check_ending("--out", out, known, "; any other name takes --format")
    return known[out.suffix[1:].lower()]


_JSON = "--json is short for --format json."


def _format() -> Any:
    help_text = f"By default the ending of --out decides. {_JSON}"
    return typer.Option(*_FORMAT, callback=_format_of, help=help_text)


ShowAs = Annotated[Format, _format()]
ReportAs = Annotated[ReportFormat, _format()]
TableAs = Annotated[TableFormat, _format()]
ListAs = Annotated[ListFormat, typer.Option(*_FORMAT, help=_JSON)]

MAX_FILE_BYTES = 1_000_000  # of a file of texts: more than any of these commands can run
_TEXT_ENDINGS = frozenset(
    ".txt .text .md .rst .csv .tsv .json .jsonl .conllu .parquet .gz .zip .log .html .htm .xml "
    ".tex .pdf .doc .docx .odt .rtf .xlsx .py .ipynb .yaml .yml".split()
)


def _is_file_name(given: str) -> bool:
    """Return whether a text is the name of a file, existing or not, and not something to read."""
    if len(given) < 2 or any(map(str.isspace, given)):
        return False
    path = Path(given)
    if (
        path.suffix.lower() in _TEXT_ENDINGS
        or path.is_absolute()
        or given.startswith(("./", "../", "~/"))
    ):
        return True
    try:
        return "/" in given and path.parent.is_dir()
    except (OSError, ValueError):  # too long a name, or one with NUL in it
        return False


def read(text: str, pair: str | None = None) -> str:
    """Return the text, or that of standard input; check it and its pair before a model loads.

    Raises:
        TextError: as `clean_text` says; the name of a file.
    """
    for one in (text, pair or ""):
        if _is_file_name(one):
            raise TextError(
                f"{one} is the name of a file, and a text is expected here: give a file, or this "
                "name as a text, on standard input with - in its place."
            )
    given = sys.stdin.read() if text == "-" else text
    clean_text(given)
    if pair is not None:
        clean_text(pair, "second text")
    return given


def read_texts(given: str) -> list[str]:
    """Return each line of a file or of standard input that is not blank; or the text itself.

    Raises:
        TextError: no text, or one that cannot be used; a file that is too large or holds no text.
    """
    path = Path(given)
    try:
        is_file = given != "-" and path.is_file()
    except (OSError, ValueError):  # a long text, or one with NUL in it, names no file
        is_file = False
    if given != "-" and not is_file:
        if _is_file_name(given):
            raise TextError(
                f"There is no file {given}: expected a text, a file with one text a line, or - for "
                "standard input, which also takes a text that looks like a file name."
            )
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


def load(name: str, device: str, dtype: str) -> AttentionModel:
    """Return a model; imports what that needs only now, as --help must not wait for torch.

    Raises:
        ArgumentError: a device that this machine does not have, or an unknown precision.
        LoadError, OutOfMemoryError: as `mv.load`.
    """
    from mha_viz.checkpoints import trial

    if os.path.isdir(name):  # the process for its trial imports torch at the same time as this one
        trial.prepare()
    from mha_viz.checkpoints.loading import load

    return load(name, device=device, dtype=dtype)


def devices(given: str) -> list[str] | str | None:
    """Read the devices of a study, "all" or several with commas; None where it is one.

    Raises:
        ArgumentError: as `devices_of`, before a model is loaded.
    """
    if given != "all" and "," not in given:
        return None
    from mha_viz.checkpoints.device import devices_of

    found = given if given == "all" else [name.strip() for name in given.split(",")]
    devices_of(found)
    return found


def print_notes(notes: Iterable[str]) -> None:
    """Print to standard error what the user should know of a result."""
    for note in notes:
        typer.echo(f"note: {note}", err=True)


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


def confirm_rows(n_rows: int) -> None:
    """Ask before a table with very many rows, one for each pair of tokens, is written.

    Raises:
        ArgumentError: there is nobody to answer, or the answer is no.
    """
    from mha_viz.plots.table_text import MOST_UNASKED

    if n_rows <= MOST_UNASKED:
        return
    size = of_bytes(_PAIR_BYTES * n_rows)
    if not _is_asked():
        raise ArgumentError(f"The CSV has {n_rows:,} rows, about {size}: add --yes to write it.")
    if not typer.confirm(f"The CSV has {n_rows:,} rows, about {size}. Write it?", err=True):
        raise ArgumentError("Nothing was written: use --format html or png for a picture.")


def _is_asked() -> bool:
    """Return whether somebody sits at a terminal who can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def deliver_table(
    table: DataFrame, kind: TableFormat, out: Path | None, title: str, **more: object
) -> None:
    """Deliver a table to read under its title, or CSV, or JSON with all single numbers."""
    from mha_viz.cli import format as formats

    deliver(formats.table(table, kind, title, **more), out)


def parse_heads(given: str) -> list[tuple[int, int]]:
    """Read "3.7,2.1" as heads; ArgumentError for anything else.

    >>> parse_heads("3.7, 2.1")
    [(3, 7), (2, 1)]
    """
    heads = []
    for part in given.split(","):
        layer, dot, head = part.strip().partition(".")
        if not (dot and layer.isdecimal() and head.isdecimal() and len(part) <= 12):
            raise ArgumentError(f"Heads are given as layer.head, such as 3.7,2.1; got {part!r}.")
        heads.append((int(layer), int(head)))
    return heads


def parse_head(given: str, refusal: str) -> tuple[int, int]:
    """Read one head; an ArgumentError explains why it is only one."""
    heads = parse_heads(given)
    if len(heads) != 1:
        raise ArgumentError(f"{refusal}, got {given!r}.")
    return heads[0]


def progress(what: str) -> Callable[[int, int], None] | None:
    """Return a callback that shows progress on a terminal; None where there is none."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\n" if done >= total else ""
        typer.echo(f"\r{what}: {done:,} of {total:,} {end}", err=True, nl=False)

    return show
