"""The report of a study: one page with its tables, figures and commands, and a file of each."""

import base64
import hashlib
import json
import shlex
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from mha_viz.core.output_file import write_file
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.store.storage import MANIFEST
from mha_viz.corpus.treebank.trees import SAMPLE
from mha_viz.errors import ArgumentError
from mha_viz.paper.figures import Head, default_head, source_line, study_figures
from mha_viz.paper.figures import over_steps as over_steps
from mha_viz.paper.tables import study_tables
from mha_viz.plots.board import STYLE
from mha_viz.plots.column_image import FORMATS
from mha_viz.plots.csv_file import table_csv
from mha_viz.plots.table_text import table_latex, table_markdown
from mha_viz.web.labels import drawable
from mha_viz.web.standalone import NO_SCRIPT, document
from mha_viz.web.theme import format_number


def _shown(value: object) -> object:
    """Return what the page shows of a value; what is markup of the template stays markup."""
    if isinstance(value, float):
        return format_number(value)
    return value if hasattr(value, "__html__") else drawable(str(value))


_PAGE = Environment(autoescape=True, finalize=_shown, undefined=StrictUndefined).from_string(
    (files(__package__) / "report.html").read_text("utf-8")
)


def write_report(
    study: Study, folder: str | Path, metric: str, head: Head | None, column: str
) -> Path:
    """Write the report of `Study.report`; return its page."""
    place, head = Path(folder), default_head(study) if head is None else head
    if (place / MANIFEST).exists():
        raise ArgumentError(f"{place} holds a study: give another folder for its report.")
    figures, tables = study_figures(study, metric, head), study_tables(study)
    title = f"Study of {study.manifest['model']['name']}"
    source = source_line(study, study.unit_note)
    content: dict[str, bytes] = {}
    for table in tables:
        told, name = (table.rows, f"{table.title}\n{source}"), f"tables/{table.key}"
        content |= {f"{name}.csv": table_csv(*told), f"{name}.md": table_markdown(*told).encode()}
        content |= {f"{name}.tex": table_latex(*told).encode()}
    for name, figure in figures.items():
        for kind in FORMATS:
            content[f"figures/{name}.{kind}"] = figure.image(kind, column)
    codes = [base64.b64encode(content[f"figures/{name}.svg"]).decode() for name in figures]
    chosen = shlex.join(["--by", metric, "--head", "{}.{}".format(*head), "--column", column])
    page = _PAGE.render(
        title=title,
        source=source,
        notes=study.notes,
        tables=tables,
        figures=list(zip(figures.values(), codes, strict=True)),
        commands=[*commands(study), f"mha-viz study report study {chosen} --out report"],
        manifest=json.dumps(study.manifest, indent=2, ensure_ascii=False),
    )
    content["index.html"] = document(title, STYLE, page, policy=NO_SCRIPT).encode()
    for name, made in content.items():
        write_file(place / name, made, parents=True)
    return place / "index.html"


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
