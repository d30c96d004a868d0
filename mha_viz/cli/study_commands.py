"""The commands about studies: make one or go on with it, show it, search it, compare two."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from mha_viz.cli import options
from mha_viz.cli.format import TableFormat
from mha_viz.cli.options import Devices, Model, Out, Precision, TableAs, deliver_table, load
from mha_viz.core.amounts import of_bytes
from mha_viz.core.reprs import count
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    from pandas import DataFrame

    from mha_viz.corpus.query.study import Study
    from mha_viz.corpus.run.run import Progress

_CHOSEN_HEADS = "heads chosen on {} for a relation, and what they find on {}"
EXIT_SIGTERM = 143  # as a program that SIGTERM has ended
Folder = Annotated[Path, typer.Argument(help="The folder of a finished study.", metavar="STUDY")]
_Layer = Annotated[int | None, typer.Option("--layer", "-l", help="Of this layer only, from 0.")]
_Head = Annotated[int | None, typer.Option("--head", "-H", help="Heads with this number only.")]


class _StudyGroup(TyperGroup):
    """`study SOURCE` makes a study; `show`, `search`, `compare` and `verify` read one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else "--help"
        if first not in (*self.commands, "-h", "--help"):
            args = ["make", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_StudyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Study a corpus: what every head does over many texts.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _study() -> None:
    """Study a corpus: `study SOURCE --out FOLDER`, the same as `study make SOURCE ...`."""


@app.command()
def make(
    source: Annotated[
        str, typer.Argument(help="A file of texts, a folder, - for standard input, or sample.")
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="The study's folder.")],
    model: Model = "tiny-bert",
    device: Devices = "auto",
    dtype: Precision = "float32",
    column: Annotated[str | None, typer.Option(help="Of a table: which one holds texts.")] = None,
    sample: Annotated[int | None, typer.Option(help="How many texts to draw; else all.")] = None,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    batch_tokens: Annotated[int, typer.Option(help="How many tokens run at once.")] = 8192,
    keep_texts: Annotated[
        bool,
        typer.Option(
            "--texts/--no-texts", help="Keep each text's own numbers; without, sums alone."
        ),
    ] = True,
    cluster: Annotated[
        str | None,
        typer.Option(help="auto or HOST:PORT of a Ray cluster; --out may be s3://bucket/study."),
    ] = None,
    join: Annotated[
        str | None,
        typer.Option(help="document: of a treebank, joins each document's sentences to texts."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Column of a table: texts that depend on each other, as of one author; or text."
        ),
    ] = None,
) -> None:
    """Run a corpus through a model and store what every head does; again: goes on."""
    from mha_viz.corpus.run.run import study

    devices = options.devices(device)
    with _sigterm_as_interrupt(out):
        found = study(
            load(model, device if devices is None else "cpu", dtype),
            source,
            out,
            column=column,
            sample=sample,
            seed=seed,
            batch_tokens=batch_tokens,
            on_progress=_progress(),
            keep_texts=keep_texts,
            cluster=cluster,
            join=join,
            devices=devices,
            group=group,
        )
    tokens = count(found.n_tokens, "token")
    typer.echo(f"{out}: {_title(found)}, {tokens}; intervals take {found.unit_note}")
    _print_skipped(found)


@app.command()
def show(
    study: Folder,
    by: Annotated[
        str | None, typer.Option(help="A metric, or relations: every head by it.")
    ] = None,
    chosen_on: Annotated[
        Path | None,
        typer.Option(help="A study of another treebank, on which heads are chosen for relations."),
    ] = None,
    best: Annotated[
        str | None,
        typer.Option(
            help="Of a treebank: best heads by relations, trees, coreference or parts_of_speech."
        ),
    ] = None,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Show heads over a study's texts: their labels and, of a treebank, whose arcs they find."""
    found = _open(study)
    heads_title = _CHOSEN_HEADS.format("half of the sentences", "the other")
    if chosen_on is not None:
        found = found.chosen_on(_open(chosen_on))
        heads_title = _CHOSEN_HEADS.format(chosen_on.name, study.name)
    title = _title(found)
    _print_skipped(found)
    what = by
    if best is not None:
        table, what = found.best_heads(best), f"{heads_title}; {found.unit_note}"
    elif by is None:
        table, what = found.labels, "labels, intervals of 95 %"
    elif by == "relations":
        table = found.relations.sort_values("accuracy", ascending=False, kind="stable")
    else:
        heads = found.heads
        known = list(dict.fromkeys(heads["metric"]))
        if by not in known:
            raise ArgumentError(f"There is no metric {by!r} in it; there are: {', '.join(known)}.")
        table = heads[heads["metric"] == by].sort_values("mean", ascending=False, kind="stable")
        table = table.drop(columns="metric")
    deliver_table(_with_head_names(table), file_format, out, f"{title}: {what}")
    to_read = best is None and by is None and file_format is TableFormat.table and out is None
    if to_read and found.has_trees:
        typer.echo()
        table = _with_head_names(found.best_heads())
        deliver_table(table, file_format, None, f"{title}: {heads_title}")


@app.command()
def search(
    study: Folder,
    query: Annotated[str | None, typer.Option(help="The token that looks; * is anything.")] = None,
    key: Annotated[str | None, typer.Option(help="The token that is looked at.")] = None,
    layer: _Layer = None,
    head: _Head = None,
    relation: Annotated[str | None, typer.Option(help="Of a treebank: such as nsubj.")] = None,
    direction: Annotated[
        str | None, typer.Option(help="Of the relation: to_head or to_dependent.")
    ] = None,
    query_upos: Annotated[
        str | None, typer.Option(help="Of a treebank: part of speech that looks, such as VERB.")
    ] = None,
    key_upos: Annotated[str | None, typer.Option(help="That is looked at.")] = None,
    previous: Annotated[
        bool, typer.Option("--previous", help="Only at the nearest such key before the query.")
    ] = False,
    min_weight: Annotated[float, typer.Option(help="The least weight, 0 to 1.")] = 0.3,
    limit: Annotated[int, typer.Option(help="The most rows.")] = 20,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Find where a token looks at another one, the heaviest first."""
    found = _open(study)
    rows = found.search(
        *(query, key, layer, head, relation),
        min_weight=min_weight,
        limit=limit,
        direction=direction,
        query_upos=query_upos,
        key_upos=key_upos,
        previous=previous,
    )
    shown = rows.assign(
        query=rows["query_token"] + " (" + rows["query"].astype(str) + ")",
        key=rows["key_token"] + " (" + rows["key"].astype(str) + ")",
    )
    arc = ["relation", "direction"] if relation is not None else []
    table = shown[["layer", "head", "query", "key", *arc, "place", "text", "weight"]]
    deliver_table(_with_head_names(table), file_format, out, f"{_title(found)}: {len(rows)} found")


@app.command()
def compare(
    first: Folder,
    second: Folder,
    limit: Annotated[int, typer.Option(help="The most rows.")] = 20,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Show which heads differ between two studies, and by how many standard errors."""
    from mha_viz.corpus.query.comparison import compare

    a, b = _open(first), _open(second)
    table = compare(a, b).head(limit)
    title = f"{second.name} less {first.name}: the {len(table)} largest differences"
    deliver_table(_with_head_names(table), file_format, out, title)


@app.command()
def verify(study: Folder) -> None:
    """Compare every file of a study with the hash that was taken when it was written."""
    from mha_viz.corpus.query.verification import verify_study

    found = verify_study(study)
    files, size = count(found.n_files, "file"), of_bytes(found.n_bytes)
    typer.echo(f"{study}: all {files} are as they were written ({size})")


def _open(folder: Path) -> Study:
    from mha_viz.corpus.query.study import Study

    return Study.load(folder)


def _title(found: Study) -> str:
    return f"{found.manifest['model']['name']} over {count(found.n_texts, 'text')}"


def _with_head_names(table: DataFrame) -> DataFrame:
    """Return the table with layer and head as people write them."""
    names = "L" + table["layer"].astype(str) + " H" + table["head"].astype(str)
    rest = table.drop(columns=["layer", "head"])
    rest.insert(0, "head", names)
    return rest


def _print_skipped(found: Study) -> None:
    """Print which texts were left out or cut to standard error, so that a table holds no notes."""
    if n_skipped := found.manifest["counts"]["n_skipped"]:
        skipped = (f"  {place}: {reason}" for place, reason in found.manifest["skipped"][:5])
        options.print_notes([f"{n_skipped:,} could not be read", *skipped])
    options.print_notes(found.notes)


def _progress() -> Callable[[Progress], None] | None:
    """Return a callback that shows progress on a terminal; None where there is none."""
    if not sys.stderr.isatty():
        return None

    def show(now: Progress) -> None:
        total = "" if now.n_total is None else f" of {now.n_total:,}"
        left = ""
        if now.seconds_left is not None:
            minutes, seconds = divmod(round(now.seconds_left), 60)
            left = f", {minutes}:{seconds:02d} left"
        line = f"{now.n_texts:,}{total} texts, {now.texts_per_second:,.1f} a second{left}"
        typer.echo(f"\r{line:<70}", err=True, nl=now.n_texts == now.n_total)

    return show


@contextmanager
def _sigterm_as_interrupt(out: str) -> Iterator[None]:
    """Let SIGTERM end the work in order, as Ctrl-C does; a note explains how to continue."""
    from mha_viz.corpus.store.address import is_address

    def stop(_number: int, _frame: object) -> None:
        raise SystemExit(EXIT_SIGTERM)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if is_address(out) or Path(out, "study.json").exists():
            typer.echo("\nnote: stopped; the same command goes on from here", err=True)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
