"""The commands about studies: make one or go on with it, show it, search it, compare two."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from mha_viz.cli import options
from mha_viz.cli.format import TableFormat
from mha_viz.cli.options import Device, Devices, Model, Out, Precision, TableAs, deliver_table, load
from mha_viz.core.amounts import of_bytes
from mha_viz.core.reprs import count
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    from pandas import DataFrame

    from mha_viz.corpus.query.study import Study
    from mha_viz.corpus.run.progress import Progress

_CHOSEN_HEADS = "heads chosen on {} for a relation, and what they find on {}"
EXIT_SIGTERM = 143  # as a program that SIGTERM has ended
Folder = Annotated[Path, typer.Argument(help="The folder of a finished study.", metavar="STUDY")]
_Sample = Annotated[int | None, typer.Option(help="Number of texts to draw. [default: all]")]
_Layer = Annotated[int | None, typer.Option("--layer", "-l", help="Only this layer, from 0.")]
_Head = Annotated[
    int | None, typer.Option("--head", "-H", help="Only heads with this number, from 0.")
]


class _StudyGroup(TyperGroup):
    """`study SOURCE` makes a study; `show`, `search`, `examples` and others read one."""

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


@app.command(cls=options.Command)
def make(
    source: Annotated[
        str,
        typer.Argument(
            help="A file of texts, a folder, - for standard input, hf:OWNER/NAME:SPLIT, or sample."
        ),
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="The study's folder.")],
    model: Model = "tiny-bert",
    device: Devices = "auto",
    dtype: Precision = "float32",
    column: Annotated[
        str | None, typer.Option(help="Column of a table that holds the texts.")
    ] = None,
    sample: _Sample = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    batch_tokens: Annotated[int, typer.Option(help="Tokens per batch.")] = 8192,
    keep_texts: Annotated[
        bool,
        typer.Option("--texts/--no-texts", help="Keep the numbers of each text, or sums alone."),
    ] = True,
    jensen_shannon: Annotated[
        bool,
        typer.Option(
            "--jensen-shannon",
            help="Also compare pairs of heads by Jensen-Shannon divergence (slow).",
        ),
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(help="auto or HOST:PORT of a Ray cluster; --out may be s3://bucket/study."),
    ] = None,
    join: Annotated[
        Literal["document"] | None,
        typer.Option(help="Join the sentences of each document of a treebank."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Column that names the group of each text, such as its author."),
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
            on_progress=_progress(Path(out) if keep_texts else None),
            keep_texts=keep_texts,
            cluster=cluster,
            jensen_shannon=jensen_shannon,
            join=join,
            devices=devices,
            group=group,
        )
    tokens = count(found.n_tokens, "token")
    typer.echo(f"{out}: {_title(found)}, {tokens}; intervals take {found.unit_note}")
    _print_skipped(found)


@app.command(cls=options.Command, name="set")
def study_set(
    source: Annotated[str, typer.Argument(help="As for `study make`.")],
    model: Annotated[
        list[str],
        typer.Option(
            "--model", "-m", help="Once for each; or a folder of checkpoints step-0, step-100 ..."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder that gets a study for each model.")
    ],
    by: Annotated[str, typer.Option(help="Metric to show.")] = "entropy",
    device: Device = "auto",
    dtype: Precision = "float32",
    sample: _Sample = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    file_format: TableAs = TableFormat.table,
) -> None:
    """Study several models or checkpoints over the same texts: a row a head, a column a model."""
    from mha_viz.core.metrics import METRICS
    from mha_viz.corpus.run.study_set import checkpoints, studies

    METRICS[by]  # one that there is not ends it here, before hours of work
    one_run = len(model) == 1 and Path(model[0]).is_dir()
    one_run = one_run and not (Path(model[0]) / "config.json").exists()
    models = checkpoints(model[0]) if one_run else model
    options = dict(sample=sample, seed=seed, on_progress=_progress())
    made = studies(models, source, out, device=device, dtype=dtype, **options)
    rows = made.heads.query("metric == @by")
    table = rows.pivot(index=["layer", "head"], columns="model", values="mean")
    table = table[list(made.studies)].reset_index()
    first = next(iter(made.studies.values()))
    title = f"{by}, mean over {count(first.n_texts, 'text')}: {first.unit_note}"
    deliver_table(_with_head_names(table), file_format, None, title)


@app.command(cls=options.Command)
def probe(
    source: Annotated[str, typer.Argument(help="A treebank in CoNLL-U, or sample.")],
    model: Model = "tiny-bert",
    device: Device = "auto",
    dtype: Precision = "float32",
    best: Annotated[int, typer.Option(help="Number of heads in the ensemble.")] = 5,
    sample: _Sample = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Find each word's head with all heads together, weighted, beside the best of them alone."""
    from mha_viz.corpus.run.head_probe import probe_heads

    loaded = load(model, device, dtype)
    found = probe_heads(loaded, source, best=best, sample=sample, seed=seed)
    names = ", ".join(f"L{layer} H{head} {way}" for layer, head, way in found.best)
    title = f"{loaded.name}: shares of words whose head is found, intervals of 95 %"
    deliver_table(found.scores, file_format, out, f"{title}; the ensemble is {names}")


@app.command(cls=options.Command)
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
            help="Of a treebank: best heads by relations, trees, coreference or parts_of_speech; "
            "or published: those of BERT-base beside Clark et al. 2019."
        ),
    ] = None,
    pairs: Annotated[
        str | None, typer.Option(help="The nearest pairs of heads, by hellinger, cka and others.")
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
    if best is not None:
        table, told = found.best_heads(best), f"{heads_title}; {found.unit_note}"
    elif pairs is not None:
        table, told = found.nearest_pairs(pairs), f"nearest pairs by {pairs}; {found.unit_note}"
    elif by is None:
        table, told = found.labels, "labels, intervals of 95 %"
    elif by == "relations":
        table, told = found.relations.sort_values("accuracy", ascending=False, kind="stable"), by
    else:
        table, told = found.heads, by
        known = list(dict.fromkeys(table["metric"]))
        if by not in known:
            raise ArgumentError(f"There is no metric {by!r} in it; there are: {', '.join(known)}.")
        table = table[table["metric"] == by].drop(columns="metric")
        table = table.sort_values("mean", ascending=False, kind="stable")
    deliver_table(_with_head_names(table), file_format, out, f"{title}: {told}")
    if (
        by is best is pairs is None
        and found.has_trees
        and file_format is TableFormat.table
        and out is None
    ):
        typer.echo()
        table = _with_head_names(found.best_heads())
        deliver_table(table, file_format, None, f"{title}: {heads_title}")


@app.command(cls=options.Command)
def search(
    study: Folder,
    query: Annotated[str | None, typer.Option(help="Query token; * is any.")] = None,
    key: Annotated[str | None, typer.Option(help="Key token.")] = None,
    layer: _Layer = None,
    head: _Head = None,
    relation: Annotated[
        str | None, typer.Option(help="Relation of a treebank, such as nsubj.")
    ] = None,
    direction: Annotated[
        Literal["to_head", "to_dependent"] | None, typer.Option(help="Direction of the relation.")
    ] = None,
    query_upos: Annotated[
        str | None, typer.Option(help="Part of speech of the query, such as VERB.")
    ] = None,
    key_upos: Annotated[str | None, typer.Option(help="Part of speech of the key.")] = None,
    previous: Annotated[
        bool, typer.Option("--previous", help="Only the nearest such key before the query.")
    ] = False,
    min_weight: Annotated[float, typer.Option(help="Smallest weight, 0 to 1.")] = 0.3,
    limit: Annotated[int, typer.Option(help="Largest number of rows.")] = 20,
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


@app.command(cls=options.Command)
def examples(
    study: Folder,
    head: Annotated[str, typer.Option("--head", "-H", help="layer.head, such as 3.7.")],
    by: Annotated[str, typer.Option(help="A metric, or a label.")] = "previous_token",
    limit: Annotated[int, typer.Option(help="Largest number of rows.")] = 10,
    any_length: Annotated[
        bool,
        typer.Option(
            "--any-length", help="Do not balance lengths: the strongest texts are mostly short."
        ),
    ] = False,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Show the texts on which a head scores highest, from texts of each length."""
    found = _open(study)
    place = options.parse_head(head, "Examples are of one head")
    rows = found.examples(*place, by=by, k=limit, match_length=not any_length)
    table = rows[["value", "class_mean", "n_tokens", "place", "text"]]
    title = f"{_title(found)}: L{place[0]} H{place[1]} by {by}"
    deliver_table(table, file_format, out, title)


@app.command(cls=options.Command)
def compare(
    first: Folder,
    second: Folder,
    by: Annotated[
        str,
        typer.Option(
            help="metrics, distributions, matched (heads), relations, trees, coreference or best."
        ),
    ] = "metrics",
    limit: Annotated[int, typer.Option(help="Largest number of rows.")] = 20,
    file_format: TableAs = TableFormat.table,
    out: Out = None,
) -> None:
    """Show which heads differ between two studies, in metrics or in what they find in trees."""
    from mha_viz.corpus.query.comparison import compare, compare_distributions, compare_matched
    from mha_viz.corpus.query.tree_comparison import compare_trees

    a, b = _open(first), _open(second)
    without = {"metrics": compare, "distributions": compare_distributions}
    without["matched"] = compare_matched  # gold trees, as the others ask
    table = (without[by](a, b) if by in without else compare_trees(a, b, by))[:limit]
    what = "nearest matches" if by == "matched" else "surest differences"
    title = f"{second.name} (b) less {first.name} (a): the {len(table)} {what}"
    deliver_table(_with_head_names(table), file_format, out, title)


@app.command(cls=options.Command)
def report(
    study: Folder,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the report.")],
    by: Annotated[str, typer.Option(help="Metric that the figures show.")] = "entropy",
    head: Annotated[
        str | None, typer.Option(help="Of the figures of one head: layer.head, such as 3.7.")
    ] = None,
    column: options.Column = "single",
) -> None:
    """Write a page with a study's tables, figures and commands, and each of them as a file."""
    chosen = None if head is None else options.parse_head(head, "Figures show one head")
    typer.echo(f"wrote {_open(study).report(out, by, chosen, column)}", err=True)


@app.command(cls=options.Command)
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
    for side in [side for side in ("_b", "_a", "") if f"layer{side}" in table]:
        layer, head = f"layer{side}", f"head{side}"
        names = "L" + table[layer].astype(str) + " H" + table[head].astype(str)
        table = table.drop(columns=[layer, head])
        table.insert(0, head, names)
    return table


def _print_skipped(found: Study) -> None:
    """Print which texts were left out or cut to standard error, so that a table holds no notes."""
    if n_skipped := found.manifest["counts"]["n_skipped"]:
        typer.echo(f"note: {n_skipped:,} could not be read", err=True)
        for place, reason in found.manifest["skipped"][:5]:
            typer.echo(f"note:   {place}: {reason}", err=True)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)


def _progress(folder: Path | None = None) -> Callable[[Progress], None]:
    """Return a callback that shows progress on a terminal.

    Once it can be told, it also says how much space the study in `folder` will take, if much.
    """
    from mha_viz.corpus.run.space import space_note

    n_seen = 0

    def show(now: Progress) -> None:
        nonlocal folder, n_seen
        if sys.stderr.isatty():
            line = now.in_words()
            typer.echo(f"\r{line:<70}", err=True, nl=now.n_texts == now.n_total)
        if folder is None or now.n_texts == n_seen:
            return
        n_seen = now.n_texts
        if (note := space_note(folder, now.n_total)) is not None:
            folder = None
            if note:
                typer.echo(f"\nnote: {note}", err=True)

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
