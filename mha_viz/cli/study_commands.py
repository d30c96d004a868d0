"""The commands about studies: make one or go on with it, show it, search it, compare two."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from mha_viz.cli import command, options
from mha_viz.cli.format import TableFormat
from mha_viz.cli.notes import progress as progress_of
from mha_viz.cli.notes import tell
from mha_viz.cli.study_run import print_skipped, progress, sigterm_as_interrupt
from mha_viz.core.layer_numbers import checked_position, head_name
from mha_viz.core.names import Dtype
from mha_viz.core.reprs import count
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    from pandas import DataFrame

    from mha_viz.corpus.query.study import Study

_CHOSEN_HEADS = "heads chosen on {} for a relation, and what they find on {}"
Folder = Annotated[Path, typer.Argument(help="The folder of a finished study.", metavar="STUDY")]


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


@dataclass(kw_only=True)
class _Draw:
    """The texts that are drawn from a source."""

    sample: int | None = None
    seed: int = 0


@dataclass(kw_only=True)
class _StudyOptions(_Draw):
    """The options of `make` that `study` takes by the same names."""

    column: str | None = None
    batch_tokens: int = 8192
    keep_texts: bool = True
    jensen_shannon: bool = False
    cluster: str | None = None
    join: Literal["document"] | None = None
    group: str | None = None


@command.add(app)
def make(
    source: str,
    out: str,
    settings: _StudyOptions,
    model: str = options.DEFAULT_MODEL,
    device: str = "auto",
    dtype: Dtype = "float32",
) -> None:
    """Run a corpus through a model and store what every head does; again: goes on."""
    from mha_viz.corpus.run.study_builder import study

    devices = options.devices(device)
    first = options.Checkpoint(
        model=model, device=device if devices is None else "cpu", dtype=dtype
    )
    on_progress = progress(says_space=settings.keep_texts)
    with sigterm_as_interrupt(out):
        all_options = vars(settings) | {"devices": devices, "on_progress": on_progress}
        new_study = study(first.load(), source, out, **all_options)
    tokens = count(new_study.n_tokens, "token")
    typer.echo(f"{out}: {_title(new_study)}, {tokens}; intervals take {new_study.unit_note}")
    print_skipped(new_study)


@command.add(app, "set")
def study_set(
    source: str,
    model: list[str],
    out: Path,
    draw: _Draw,
    by: str = "entropy",
    device: str = "auto",
    dtype: Dtype = "float32",
    file_format: options.TableBesideFolder = TableFormat.table,
) -> None:
    """Study several models or checkpoints over the same texts: a row a head, a column a model."""
    from mha_viz.core.metrics import METRICS
    from mha_viz.corpus.run.study_set import checkpoints, studies

    METRICS[by]  # one that there is not ends it here, before hours of work
    one_run = len(model) == 1 and Path(model[0]).is_dir()
    one_run = one_run and not (Path(model[0]) / "config.json").exists()
    models = checkpoints(model[0]) if one_run else model
    all_options = vars(draw) | {"device": device, "dtype": dtype, "on_progress": progress()}
    model_studies = studies(models, source, out, **all_options)
    rows = model_studies.heads.query("metric == @by")
    table = rows.pivot(index=["layer", "head"], columns="model", values="mean")
    table = table[list(model_studies.studies)].reset_index()
    first = next(iter(model_studies.studies.values()))
    title = f"{by}, mean over {count(first.n_texts, 'text')}: {first.unit_note}"
    options.TableOutput(file_format=file_format).deliver(_with_head_names(table, first), title)


@command.add(app)
def probe(
    source: str,
    checkpoint: options.Checkpoint,
    draw: _Draw,
    output: options.TableOutput,
    best: int = 5,
) -> None:
    """Find each word's head with all heads together, weighted, beside the best of them alone."""
    from mha_viz.corpus.run.head_probe import probe_heads

    loaded = checkpoint.load()
    head_probe = probe_heads(loaded, source, best=best, **vars(draw))
    numbers = loaded.layer_numbers
    names = ", ".join(
        f"{head_name(*head, numbers=numbers)} {way}" for *head, way in head_probe.best
    )
    title = f"{loaded.name}: shares of words whose head is found, intervals of 95 %"
    output.deliver(head_probe.scores, f"{title}; the ensemble is {names}")


@command.add(app)
def show(
    study: Folder,
    output: options.TableOutput,
    by: str | None = None,
    chosen_on: Path | None = None,
    best: str | None = None,
    pairs: str | None = None,
) -> None:
    """Show heads over a study's texts: their labels and, of a treebank, whose arcs they find."""
    opened = _open(study)
    heads_title = _CHOSEN_HEADS.format("half of the sentences", "the other")
    if chosen_on is not None:
        opened = opened.chosen_on(_open(chosen_on))
        heads_title = _CHOSEN_HEADS.format(chosen_on.name, study.name)
    title = _title(opened)
    print_skipped(opened)
    if best is not None:
        table, about = opened.best_heads(best), f"{heads_title}; {opened.unit_note}"
    elif pairs is not None:
        table, about = opened.nearest_pairs(pairs), f"nearest pairs by {pairs}; {opened.unit_note}"
    elif by is None:
        table, about = opened.labels, "labels, intervals of 95 %"
    elif by == "relations":
        table, about = opened.relations.sort_values("accuracy", ascending=False, kind="stable"), by
    else:
        table, about = opened.heads, by
        metrics = list(dict.fromkeys(table["metric"]))
        if by not in metrics:
            names = ", ".join(metrics)
            raise ArgumentError(f"There is no metric {by!r} in it; there are: {names}.")
        table = table[table["metric"] == by].drop(columns="metric")
        table = table.sort_values("mean", ascending=False, kind="stable")
    output.deliver(_with_head_names(table, opened), f"{title}: {about}")
    on_screen = output.to_read and output.out is None
    if by is best is pairs is None and opened.has_trees and on_screen:
        typer.echo()
        output.deliver(_with_head_names(opened.best_heads(), opened), f"{title}: {heads_title}")


@dataclass(kw_only=True)
class _Terms:
    """The terms of `search`, which `Study.search` takes by the same names."""

    query: str | None = None
    key: str | None = None
    layer: int | None = None
    head: int | None = None
    relation: str | None = None
    direction: Literal["to_head", "to_dependent"] | None = None
    query_upos: str | None = None
    key_upos: str | None = None
    previous: bool = False
    min_weight: float = 0.3
    limit: int = 20


@command.add(app)
def search(study: Folder, terms: _Terms, output: options.TableOutput) -> None:
    """Find where a token looks at another one, the heaviest first."""
    opened = _open(study)
    rows = opened.search(**vars(terms) | {"layer": _position(opened, terms.layer)})
    shown = rows.assign(
        query=rows["query_token"] + " (" + rows["query"].astype(str) + ")",
        key=rows["key_token"] + " (" + rows["key"].astype(str) + ")",
    )
    arc = ["relation", "direction"] if terms.relation is not None else []
    table = shown[["layer", "head", "query", "key", *arc, "place", "text", "weight"]]
    output.deliver(_with_head_names(table, opened), f"{_title(opened)}: {len(rows)} found")


@command.add(app)
def examples(
    study: Folder,
    head: str,
    output: options.TableOutput,
    by: str = "previous_token",
    limit: int = 10,
    any_length: bool = False,
) -> None:
    """Show the texts on which a head scores highest, from texts of each length."""
    opened = _open(study)
    layer, number = options.parse_head(head, "Examples are of one head")
    terms: dict[str, Any] = {"by": by, "k": limit, "match_length": not any_length}
    rows = opened.examples(_position(opened, layer), number, **terms)
    table = rows[["value", "class_mean", "n_tokens", "place", "text"]]
    title = f"{_title(opened)}: L{layer} H{number} by {by}"
    output.deliver(table, title)


@command.add(app)
def compare(
    first: Folder, second: Folder, output: options.TableOutput, by: str = "metrics", limit: int = 20
) -> None:
    """Show which heads differ between two studies, in metrics or in what they find in trees."""
    if limit < 1:
        raise ArgumentError(f"--limit must be 1 or more, got {limit}.")
    from mha_viz.corpus.query.comparison import (
        compare,
        compare_distributions,
        compare_matched,
        compare_trees,
    )

    a, b = _open(first), _open(second)
    without = {"metrics": compare, "distributions": compare_distributions}
    without["matched"] = compare_matched  # gold trees, as the others ask
    table = (without[by](a, b) if by in without else compare_trees(a, b, by))[:limit]
    ranking = "nearest matches" if by == "matched" else "surest differences"
    title = f"{second.name} (b) less {first.name} (a): the {len(table)} {ranking}"
    output.deliver(_with_head_names(table, a, b), title)


@command.add(app)
def report(
    study: Folder,
    out: Path,
    by: str = "entropy",
    head: str | None = None,
    column: options.Column = "single",
) -> None:
    """Write a page with a study's tables, figures and commands, and each of them as a file."""
    named = None if head is None else options.parse_head(head, "Figures show one head")
    opened = _open(study)
    chosen = None if named is None else (_position(opened, named[0]), named[1])
    tell(f"wrote {opened.report(out, by, chosen, column)}")


def atlas(study: Folder, out: Path, by: str | None = None, model: str | None = None) -> None:
    """Write a study as a static site with a page for each head, which needs no server."""
    from mha_viz.checkpoints.loading import load

    opened = _open(study)
    loaded = None if model is None else load(model, dtype=opened.manifest["model"]["dtype"])
    tell(f"wrote {opened.atlas(out, loaded, by, progress_of('writing the atlas'))}")


@command.add(app)
def verify(study: Folder) -> None:
    """Read all of a study and compare every block of its file with its checksum."""
    opened = _open(study)
    rows = sum(opened.verify().values())
    typer.echo(f"{study}: all {count(rows, 'row')} are as they were written")


def _open(folder: Path) -> Study:
    from mha_viz.corpus.query.study import Study

    return Study.load(folder)


def _title(study: Study) -> str:
    return f"{study.manifest['model']['name']} over {count(study.n_texts, 'text')}"


def _position(study: Study, layer: int | None) -> Any:
    """Return the position of a layer by its number; None where none is named."""
    return None if layer is None else checked_position(study.layer_numbers, layer)


def _with_head_names(table: DataFrame, *studies: Study) -> DataFrame:
    """Return the table with layer and head as people write them; `studies` are those of a and b."""
    numbers = {"": studies[0], "_a": studies[0], "_b": studies[-1]}
    for side in [side for side in ("_b", "_a", "") if f"layer{side}" in table]:
        layer, head = f"layer{side}", f"head{side}"
        numbers_of_side = dict(enumerate(numbers[side].layer_numbers))
        layers = table[layer].replace(numbers_of_side) if numbers_of_side else table[layer]
        names = "L" + layers.astype(str) + " H" + table[head].astype(str)
        table = table.drop(columns=[layer, head])
        table.insert(0, head, names)
    return table
