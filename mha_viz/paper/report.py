"""A report: one page with tables, figures and commands, and a file of each."""

import base64
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from mha_viz.core.output_file import write_file
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.store.storage import MANIFEST
from mha_viz.corpus.treebank.trees import SAMPLE
from mha_viz.errors import ArgumentError
from mha_viz.paper.figures import (
    Head,
    StudyFigure,
    default_head,
    source_line,
    study_figures,
)
from mha_viz.paper.figures import over_steps as over_steps
from mha_viz.paper.tables import StudyTable, study_tables
from mha_viz.plots.column_image import FORMATS
from mha_viz.plots.table_text import markdown, table_csv, table_latex, table_markdown
from mha_viz.plots.worksheet import STYLE
from mha_viz.web.labels import drawable
from mha_viz.web.standalone import NO_SCRIPT, document
from mha_viz.web.theme import format_number


def _shown(value: object) -> object:
    """Return what the page shows of a value; what is markup of the template stays markup."""
    if isinstance(value, float):
        return format_number(value)
    return value if hasattr(value, "__html__") else drawable(str(value))


_TEXTS = files(__package__)
_PAGE = Environment(autoescape=True, finalize=_shown, undefined=StrictUndefined).from_string(
    (_TEXTS / "report.html").read_text("utf-8")
)
_ESCAPING = Environment(undefined=StrictUndefined)  # by these filters, as Markdown needs it
_ESCAPING.filters |= {"text": markdown, "table": table_markdown}
_MARKDOWN = _ESCAPING.from_string((_TEXTS / "report.md").read_text("utf-8"))


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
            told, name = (table.rows, f"{table.title}\n{self.source}"), f"tables/{table.key}"
            content[f"{name}.csv"] = table_csv(*told)
            content[f"{name}.md"] = table_markdown(*told).encode()
            content[f"{name}.tex"] = table_latex(*told).encode()
        for name, figure in self.figures.items():
            for kind in FORMATS:
                content[f"figures/{name}.{kind}"] = figure.image(kind, column)
        codes = {
            name: base64.b64encode(content[f"figures/{name}.svg"]).decode() for name in self.figures
        }
        manifest = json.dumps(self.manifest, indent=2, ensure_ascii=False)
        filled = self._asdict() | {"codes": codes, "manifest": manifest}
        page = document(self.title, STYLE, _PAGE.render(filled), policy=NO_SCRIPT)
        pages = {"index.html": page.encode(), "index.md": _MARKDOWN.render(filled).encode()}
        return content | pages


def write_files(made: Mapping[str, bytes], folder: Path) -> Path:
    """Write the files of a report; return its page."""
    for name, content in made.items():
        write_file(folder / name, content, parents=True)
    return folder / "index.html"


def write_report(
    study: Study, folder: str | Path, metric: str, head: Head | None, column: str
) -> Path:
    """Write the report of `Study.report`; return its page."""
    place, head = Path(folder), default_head(study) if head is None else head
    if (place / MANIFEST).exists():
        raise ArgumentError(f"{place} holds a study: give another folder for its report.")
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
    return write_files(report.files(column), place)


def commands(study: Study) -> list[str]:
    """List the commands that make the study again, and check it."""
    source, model, settings = (study.manifest[name] for name in ("source", "model", "settings"))
    hashes = [file["sha256"] for file in source["files"]]
    shipped = hashes == [hashlib.sha256(SAMPLE.read_bytes()).hexdigest()]
    given = {
        "--model": model["name"], "--dtype": model["dtype"], "--column": source["column"],
        "--sample": source["sample"], "--seed": source["seed"] if source["sample"] else None,
        "--join": settings.get("join"), "--group": source.get("group"),
        "--batch-tokens": settings["batch_tokens"],
    }  # fmt: skip
    words = ["mha-viz", "study", "sample" if shipped else "SOURCE"]
    words += [word for name, of in given.items() if of is not None for word in (name, str(of))]
    words += ["--no-texts"] * (not settings["keep_texts"])
    words += ["--jensen-shannon"] * settings.get("jensen_shannon", False)
    return [shlex.join([*words, "--out", "study"]), "mha-viz study verify study"]
