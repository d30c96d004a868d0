"""A report: one page with tables, figures and commands, and a file of each; and its tables."""

import base64
import hashlib
import json
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.metrics.units import MIN_UNITS
from mha_viz.core.output_file import write_file
from mha_viz.corpus.query.best_heads import BEATS, QUESTIONS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.store.study_file import FILE
from mha_viz.corpus.treebank.relations import ALL, MIN_TARGETS, TO_HEAD
from mha_viz.corpus.treebank.trees import SAMPLE
from mha_viz.errors import ArgumentError
from mha_viz.paper import figures
from mha_viz.paper.all_heads import scatter
from mha_viz.paper.figures import (
    Head,
    StudyFigure,
    default_head,
    of_head,
    source_line,
)
from mha_viz.paper.figures import over_steps as over_steps
from mha_viz.plots.column_image import FORMATS
from mha_viz.plots.table_text import markdown, table_csv, table_latex, table_markdown
from mha_viz.plots.worksheet import STYLE
from mha_viz.web.labels import drawable, head_name
from mha_viz.web.standalone import NO_SCRIPT, document
from mha_viz.web.theme import format_number

_TEXTS = tomllib.loads((files(__package__) / "tables.toml").read_text("utf-8"))
_LIMITS = dict(min_targets=MIN_TARGETS, min_units=MIN_UNITS)
NOTES = {key: note.format(**_LIMITS) for key, note in _TEXTS["notes"].items()}


class StudyTable(NamedTuple):
    """A table of a study: its name in files and in words, its rows, and how it is shown."""

    key: str
    title: str
    rows: pd.DataFrame
    note: str
    shown: pd.DataFrame


def study_tables(study: Study) -> list[StudyTable]:
    """Make the tables of a report: best heads of gold trees, labels, metrics, pairs."""
    best = {by: study.best_heads(by) for by in (QUESTIONS if study.has_trees else ())}
    numbers = study.layer_numbers
    tables = {by: titled(rows, numbers) for by, rows in best.items() if len(rows)}
    notes = {by: f"{answer(best[by], by, numbers).replace('**', '')} {NOTES[by]}" for by in tables}
    tables |= {"labels": titled(study.labels, numbers), "metrics": titled(study.heads, numbers)}
    if study.pair_measures:
        measure = study.pair_measures[0]
        tables["pairs"] = titled(study.nearest_pairs(measure), numbers)
        notes["pairs"] = pairs_note(measure)
    notes, shown = NOTES | notes, tables | {"metrics": _by_metric(tables["metrics"])}
    titles = _TEXTS["titles"]
    return [StudyTable(k, titles[k], rows, notes[k], shown[k]) for k, rows in tables.items()]


def pairs_note(measure: str) -> str:
    """Say what the numbers of a table of pairs are."""
    return NOTES["pairs"].format(measure=METRICS[measure].title)


def _by_metric(rows: pd.DataFrame) -> pd.DataFrame:
    """Lay out means with their intervals: a row per head, a column per metric."""
    numbers = rows[["Mean", "Low", "High"]].map(format_number)
    cells = numbers["Mean"] + " (" + numbers["Low"] + " to " + numbers["High"] + ")"
    wide = rows.assign(cell=cells).pivot(index="Head", columns="Metric", values="cell")
    return wide.loc[rows["Head"].unique(), rows["Metric"].unique()].reset_index()


def short_title(arc: str) -> str:
    """Return a choice's name where there is little room.

    >>> short_title("obj.to_dependent"), short_title("all.to_head"), short_title("trees.")
    ('obj → dep.', 'any → head', 'trees')
    """
    relation, _, direction = arc.rpartition(".")
    if not direction:  # no relation, but a question of its own
        return relation
    name = "any" if relation == ALL else relation
    return f"{name} → {'head' if direction == TO_HEAD else 'dep.'}"


def titled(
    rows: pd.DataFrame, numbers: Sequence[int] = (), other: Sequence[int] = ()
) -> pd.DataFrame:
    """Return rows about heads, of any of a study's tables, as they are on screen.

    `numbers` are the model's own of its layers, `other` those of the study it is compared with.
    """
    table = rows.copy()
    for side in [side for side in ("", "_b", "_a") if f"layer{side}" in rows]:
        heads = rows[[f"layer{side}", f"head{side}"]].to_numpy().tolist()
        layer_numbers = other if side == "_a" else numbers
        table[f"head{side}"] = [head_name(*head, numbers=layer_numbers) for head in heads]
    if "relation" in table:
        table["relation"] = (table["relation"] + "." + table["direction"]).map(short_title)
    for column, definitions in (("label", LABELS), ("metric", METRICS)):
        if column in table:
            table[column] = [definitions[key].title for key in table[column]]
    columns = {name: title for name, title in _TEXTS["columns"].items() if name in table}
    return table[list(columns)].rename(columns=columns).reset_index(drop=True)


def head_relations(relations: pd.DataFrame, head: Head, numbers: Sequence[int]) -> pd.DataFrame:
    """Return one head's rows of `Study.relations` as on screen, those that beat chance first.

    Relations asked for fewer than `MIN_TARGETS` times are left out; `numbers` as for `titled`.
    """
    rows = of_head(relations, head)
    rows = rows[rows["n"] >= MIN_TARGETS]
    rows = rows.sort_values(["beats", "accuracy"], ascending=False, kind="stable")
    return titled(rows, numbers).drop(columns="Head")


def answer(rows: pd.DataFrame, by: str, numbers: Sequence[int] = ()) -> str:
    """Sum the table up in a sentence; `numbers` as for `titled`.

    >>> rows = {"relation": ["det"], "direction": ["to_head"], "layer": [0], "head": [3]}
    >>> rows |= {"accuracy": [0.81], "verdict": ["beats all"]}
    >>> answer(pd.DataFrame(rows), "relations")
    '**Relations with a head that beats its baselines: 1 of 1**, as det → head by L0 H3 (0.81).'
    """
    table = titled(rows, numbers)
    if "verdict" not in rows:
        first = table.iloc[0]
        return (
            f"**Most above an even spread**: {first['Head']}, from {first['From']} to "
            f"{first['To']} ({first['Weight']:.2f} against {first['Spread evenly']:.2f})."
        )
    better, score = table[rows["verdict"] == BEATS], "UUAS" if by == "trees" else "Accuracy"
    whose = "Relations with a head that beats its" if by == "relations" else "Heads that beat their"
    sentence = f"**{whose} baselines: {len(better)} of {len(rows):,}**"
    names = [f"{row.get('Relation', '')} by {row['Head']} ({row[score]:.2f})".removeprefix(" by ")
             for row in better.head(3).to_dict("records")]  # fmt: skip
    return f"{sentence}, as {', '.join(names)}." if names else f"{sentence}."


def _shown(value: object) -> object:
    """Return what the page shows of a value; what is markup of the template stays markup."""
    if isinstance(value, float):
        return format_number(value)
    return value if hasattr(value, "__html__") else drawable(str(value))


_FILES = files(__package__)
# Templates of pages, by their folder and name; what they are given is escaped.
PAGES = Environment(
    autoescape=True, finalize=_shown, undefined=StrictUndefined, loader=PackageLoader("mha_viz", "")
)
_ESCAPING = Environment(undefined=StrictUndefined)  # by these filters, as Markdown needs it
_ESCAPING.filters |= {"text": markdown, "table": table_markdown}
_MARKDOWN = _ESCAPING.from_string((_FILES / "report.md").read_text("utf-8"))


class Report(NamedTuple):
    """The content of a report: a page, and a file of each table and figure."""

    title: str
    source: str  # what was measured, with which settings
    notes: Sequence[str]
    tables: Sequence[StudyTable]
    figures: Mapping[str, StudyFigure]
    commands: Sequence[str]  # which make it again
    needed: str  # by the commands
    manifest: Mapping[str, Any]

    def files(self, column: str) -> dict[str, bytes]:
        """Make index.html, index.md, `tables/` and `figures/`."""
        content: dict[str, bytes] = {}
        for table in self.tables:
            content_of, name = (table.rows, f"{table.title}\n{self.source}"), f"tables/{table.key}"
            content[f"{name}.csv"] = table_csv(*content_of)
            content[f"{name}.md"] = table_markdown(*content_of).encode()
            content[f"{name}.tex"] = table_latex(*content_of).encode()
        for name, figure in self.figures.items():
            for kind in FORMATS:
                content[f"figures/{name}.{kind}"] = figure.image(kind, column)
        codes = {
            name: base64.b64encode(content[f"figures/{name}.svg"]).decode() for name in self.figures
        }
        manifest = json.dumps(self.manifest, indent=2, ensure_ascii=False)
        filled = self._asdict() | {"codes": codes, "manifest": manifest}
        page = PAGES.get_template("paper/report.html").render(filled)
        page = document(self.title, STYLE, page, policy=NO_SCRIPT)
        pages = {"index.html": page.encode(), "index.md": _MARKDOWN.render(filled).encode()}
        return content | pages


def study_figures(
    study: Study, metric: str = "entropy", head: Head | None = None
) -> dict[str, StudyFigure]:
    """Make the figures of `Study.figures`."""
    if metric not in set(study.heads["metric"]):
        raise ArgumentError(f"There is no metric {metric!r} in this study.")
    chosen = default_head(study) if head is None else head
    study.check_head(*chosen)
    drawn = {
        "heads": figures.metric_map(study, metric),
        "scatter": scatter(study),
        "quantiles": figures.quantiles(study, metric),
        "histogram": figures.histogram(study, metric, chosen),
        **{axis: figures.profile(study, axis, chosen) for axis in figures.PROFILES},
    }
    if study.pair_measures:
        drawn["pairs"] = figures.pairs(study, study.pair_measures[0], chosen)
    if study.has_trees:
        drawn["parts_of_speech"] = figures.parts_of_speech(study, chosen)
    return {name: figure for name, figure in drawn.items() if figure is not None}


def write_files(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write the files of a report; return its page."""
    for name, content in files.items():
        write_file(folder / name, content, parents=True)
    return folder / "index.html"


def write_report(
    study: Study, folder: str | Path, metric: str, head: Head | None, column: str
) -> Path:
    """Write the report of `Study.report`; return its page."""
    target, head = Path(folder), default_head(study) if head is None else head
    if (target / FILE).exists():
        raise ArgumentError(f"{target} holds a study: give another folder for its report.")
    chosen = shlex.join(["--by", metric, "--head", "{}.{}".format(*head), "--column", column])
    report = Report(
        title=f"Study of {study.manifest['model']['name']}",
        source=source_line(study, study.unit_note),
        notes=study.notes,
        tables=study_tables(study),
        figures=study_figures(study, metric, head),
        commands=[*commands(study), f"mha-viz study report study {chosen} --out report"],
        needed="The texts are those whose files have the SHA-256 below; SOURCE is where they lie.",
        manifest=study.manifest,
    )
    return write_files(report.files(column), target)


def commands(study: Study) -> list[str]:
    """List the commands that make the study again, and check it."""
    source, model, settings = (study.manifest[name] for name in ("source", "model", "settings"))
    hashes = [file["sha256"] for file in source["files"]]
    shipped = hashes == [hashlib.sha256(SAMPLE.read_bytes()).hexdigest()]
    options = {
        "--model": model["name"], "--dtype": model["dtype"], "--column": source["column"],
        "--sample": source["sample"], "--seed": source["seed"] if source["sample"] else None,
        "--join": settings.get("join"), "--group": source.get("group"),
        "--batch-tokens": settings["batch_tokens"],
    }  # fmt: skip
    words = ["mha-viz", "study", "sample" if shipped else "SOURCE"]
    words += [word for name, of in options.items() if of is not None for word in (name, str(of))]
    words += ["--no-texts"] * (not settings["keep_texts"])
    words += ["--jensen-shannon"] * settings.get("jensen_shannon", False)
    return [shlex.join([*words, "--out", "study"]), "mha-viz study verify study"]
