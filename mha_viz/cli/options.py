"""Parts that all commands share: arguments, the source of texts, the place of results."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mha_viz.cli import format as formats
from mha_viz.cli.format import Format, ListFormat, ReportFormat, TableFormat
from mha_viz.cli.notes import print_notes, tell
from mha_viz.cli.texts import check_second, read_text
from mha_viz.core.amounts import of_bytes
from mha_viz.core.names import Dtype
from mha_viz.core.output_file import check_writable, write_file
from mha_viz.errors import ArgumentError, WriteError

if TYPE_CHECKING:
    from pandas import DataFrame

    from mha_viz.circuits.tasks.task import Task
    from mha_viz.core.record.attention_record import AttentionRecord
    from mha_viz.engine.model import AttentionModel


Text = Annotated[
    str, typer.Argument(help="The text; - reads it from standard input.", callback=read_text)
]
Corrupt = Annotated[
    str, typer.Argument(help="Text of as many tokens with another answer.", callback=check_second)
]
Pair = Annotated[
    str | None, typer.Option(help="Second segment, or the decoder's text.", callback=check_second)
]
Column = Literal["single", "double"]  # of a paper
_PAIR_BYTES = 40  # of a row of the CSV of a head
DEFAULT_MODEL = "tiny-gpt2"  # of every command
SHOWN = 20  # rows of a long table to read; files and JSON have all

# The endings of formats that are not their names; a file without one is a table to read.
_ENDINGS = {"table": ("txt",), "markdown": ("md", "markdown"), "latex": ("tex", "latex")}


def _endings(kinds: Any) -> dict[str, Any]:
    """Return the format of each ending."""
    return {end: kind for kind in kinds for end in _ENDINGS.get(str(kind), (str(kind),))}


_KNOWN_ENDINGS = frozenset(_endings([*Format, *TableFormat, *ReportFormat]))


def _check_ending(option: str, path: Path, endings: Iterable[str], hint: str = "") -> None:
    *first_endings, last = (f".{ending}" for ending in endings)
    if path.suffix.lower() not in (*first_endings, last):
        expected = f"{', '.join(first_endings)} or {last}" if first_endings else last
        raise WriteError(f"{option} {path} ends in {path.suffix}; expected {expected}{hint}.")


def _file(names: tuple[str, ...], help_text: str, *endings: str) -> Any:
    """Return the option of a file to write, which is refused before anything is loaded.

    `endings` are those that it may have, besides none; () for any.
    """

    def parse(value: str) -> Path:
        path = Path(value)
        if not value or path.is_dir():
            wrong = value or "nothing"
            raise WriteError(f"{names[0]} expects the name of a file to write, got {wrong}.")
        if endings and path.suffix:
            _check_ending(names[0], path, endings)
        check_writable(path)
        return path

    return typer.Option(
        *names, parser=parse, metavar="FILE", help=f"{help_text} (written atomically)."
    )


_OUT, _RECORD = ("--out", "-o"), "File for the record, .safetensors"
_CHOICE = "File for the tested choice, .json, which opens again"
Out = Annotated[Path | None, _file(_OUT, "File to write")]
RecordOut = Annotated[Path | None, _file(_OUT, _RECORD, "safetensors")]
JsonOut = Annotated[Path | None, _file(("--save",), _CHOICE, "json")]
_FORMAT = ("--format", "-f")


def _format_of(context: Any, param: Any, requested: Any) -> Any:
    """Return the format: the one requested, else that of the file's ending, else a table.

    A file whose ending names another format than the one requested is refused. It is decided
    before the command begins. Options on the command line come first, so that --out is known where
    this one was not given. Typer's own types of context and parameter are not those that it hands
    over.
    """
    out: Path | None = context.params.get("out")
    source = context.get_parameter_source(param.name or "")
    if out is None or not out.suffix or source is None:
        return requested
    kinds, ending = _endings(type(requested)), out.suffix[1:].lower()
    if source.name == "DEFAULT":
        _check_ending("--out", out, kinds, "; any other name takes --format")
        return kinds[ending]
    if ending in _KNOWN_ENDINGS and kinds.get(ending) is not requested:
        right = next(end for end, kind in kinds.items() if kind is requested)
        raise WriteError(
            f"--out {out} ends in {out.suffix}, and --format is {requested}: leave one out, or "
            f"give a file that ends in .{right}."
        )
    return requested


_JSON = "--json is short for --format json."
_AS_ENDING = typer.Option(
    *_FORMAT, callback=_format_of, help=f"By default the ending of --out decides. {_JSON}"
)
ShowAs = Annotated[Format, _AS_ENDING]
ReportAs = Annotated[ReportFormat, _AS_ENDING]
TableAs = Annotated[TableFormat, _AS_ENDING]
# Beside an --out that is a folder, whose name says nothing of a format.
TableBesideFolder = Annotated[TableFormat, typer.Option(*_FORMAT, help=_JSON)]
ListAs = Annotated[ListFormat, typer.Option(*_FORMAT, help=_JSON)]


@dataclass(kw_only=True)
class Checkpoint:
    """The model of a command, and how it is loaded."""

    model: str = DEFAULT_MODEL
    device: str = "auto"
    dtype: Dtype = "float32"

    def load(self) -> AttentionModel:
        """Return the model; imports what that needs only now: --help must not wait for torch.

        Raises:
            ArgumentError: a device that this machine does not have, or an unknown precision.
            LoadError, OutOfMemoryError: as `mv.load`.
        """
        from mha_viz.checkpoints.loading import load

        return load(self.model, device=self.device, dtype=self.dtype)


@dataclass(kw_only=True)
class NamedCheckpoint(Checkpoint):
    """The model of a command about nothing else."""

    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Shipped name, folder or Hub id.")
    ] = DEFAULT_MODEL


@dataclass(kw_only=True)
class TextRun(Checkpoint):
    """A text, and the model that it runs through."""

    text: Text
    pair: Pair = None
    part: Literal["encoder", "decoder", "cross"] | None = None

    def trace(self, model: AttentionModel, keep: tuple[str, ...]) -> AttentionRecord:
        """Run the text, and keep of it what this family has."""
        keep = keep if model.backend == "mha_viz" else ("pattern",)
        return model.trace(self.text, self.pair, part=self.part, keep=keep)


@dataclass(kw_only=True)
class Tracked:
    """The tokens whose prediction is followed, and where."""

    target: str | None = None
    against: str | None = None
    position: int | None = None


@dataclass(kw_only=True)
class TaskChoice:
    """A task of `make_task`: by its name, or of pairs, or of a template."""

    task: Annotated[
        str | None, typer.Argument(help="induction, phrase, agreement, closing or ioi.")
    ] = None
    pairs: Path | None = None
    template: str | None = None
    examples: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self._given = [
            choice for choice in (self.task, self.pairs, self.template) if choice is not None
        ]
        if len(self._given) != 1:
            raise ArgumentError("Give one task: its name, or --pairs FILE, or --template TEXT.")
        if self.pairs is not None and not self.pairs.is_file():
            raise ArgumentError(
                f"There is no file {self.pairs}: --pairs expects a CSV or TSV file."
            )

    def make(self, model: AttentionModel) -> Task:
        """Make the task for a model, and print which pairs were left out."""
        from mha_viz.circuits.tasks.make_task import TASKS, make_task

        if self.task is not None and self.task not in TASKS and "|" not in self.task:
            raise ArgumentError(
                f"There is no task {self.task!r:.80}: give {', '.join(TASKS)}, or your own "
                "pairs by --pairs FILE or --template TEXT."
            )
        task = make_task(model, self._given[0], self.examples, self.seed)
        print_notes(task.left_out)
        return task


@dataclass(kw_only=True)
class TableOutput:
    """The form and the place of a command's table."""

    file_format: TableAs = TableFormat.table
    out: Out = None

    @property
    def to_read(self) -> bool:
        """True for a table that people read, which may be a part of all rows."""
        return self.file_format is TableFormat.table

    def deliver(self, table: DataFrame, title: str, **more: object) -> None:
        """Deliver it to read under its title, or as CSV, or as JSON with all single numbers."""
        deliver(formats.table(table, self.file_format, title, **more), self.out)


def devices(value: str) -> list[str] | str | None:
    """Read the devices of a study, "all" or several with commas; None where it is one.

    Raises:
        ArgumentError: as `devices_of`, before a model is loaded.
    """
    if value != "all" and "," not in value:
        return None
    from mha_viz.checkpoints.device import devices_of

    names = value if value == "all" else [name.strip() for name in value.split(",")]
    devices_of(names)
    return names


def deliver(content: str | bytes, out: Path | None) -> None:
    """Write a result into its file, or print it; bytes never go to a terminal."""
    if out is not None:
        write_file(out, content if isinstance(content, bytes) else content.encode())
        tell(f"wrote {out}")
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


def parse_heads(value: str) -> list[tuple[int, int]]:
    """Read "3.7,2.1" as heads; ArgumentError for anything else.

    >>> parse_heads("3.7, 2.1")
    [(3, 7), (2, 1)]
    """
    heads = []
    for part in value.split(","):
        layer, dot, head = part.strip().partition(".")
        if not (dot and layer.isdecimal() and head.isdecimal() and len(part) <= 12):
            raise ArgumentError(f"Heads are given as layer.head, such as 3.7,2.1; got {part!r}.")
        heads.append((int(layer), int(head)))
    return heads


def parse_head(value: str, refusal: str) -> tuple[int, int]:
    """Read one head; an ArgumentError explains why it is only one."""
    heads = parse_heads(value)
    if len(heads) != 1:
        raise ArgumentError(f"{refusal}, got {value!r}.")
    return heads[0]
