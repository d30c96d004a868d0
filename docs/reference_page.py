"""The pages of the Python reference: every public name by subject, and every metric's formula.

The list is `mha_viz`'s own, so a new name is on a page without anybody's doing.
"""

import inspect
from types import ModuleType
from typing import NamedTuple

import mha_viz
from mha_viz.core.metrics import METRICS


class Subject(NamedTuple):
    """A page of the reference: its title, and the folders of `mha_viz` whose names it has."""

    title: str
    folders: tuple[str, ...]


# The page's name -> its subject, in the order of the navigation.
SUBJECTS = {
    "models": Subject("Models and their runs", ("checkpoints", "engine")),
    "records": Subject(
        "Attention and records", ("core.attention", "core.record", "text", "notebook")
    ),
    "heads": Subject(
        "Heads measured and compared", ("reports", "core.compare", "core.measure", "core.metrics")
    ),
    "texts": Subject("Many texts", ("corpus",)),
    "circuits": Subject("Heads that work together", ("circuits", "paper.circuit_report")),
    "predictions": Subject("Predictions and interventions", ("prediction", "interventions")),
}

HEAD = """\
# Python reference

`import mha_viz as mv` gives all of these names; each is imported when it is first used. Arrays have
their axes in the order `layer head query key`, layers and heads count from 0, entropies are in
nats. The metrics as functions have [a page](reference/metrics.md), and so have
[the errors](reference/errors.md). [Names that stay](python.md#names-that-stay) says which may
change.
"""

METRIC_HEAD = """\
# The metrics as functions

`mha_viz.METRICS` names them all, with unit, range and source; [The metrics](../metrics.md) says
what each means. The symbols are those of [One by one](../metrics.md#one-by-one).

`pattern` is `(layer, head, query, key)`; `z` is `(layer, head, query, d_head)`, pattern times
values; `W_O` has each layer's output weights `(head, d_head, d_model)`, `weights` each layer's
`(head, d_model, d_head)`; `is_special` is bool `(key,)`. What has another shape or kind is refused
with `ShapeError` or `DTypeError`.
"""

ERRORS = "# Errors\n\n::: mha_viz.errors\n    options: { show_root_heading: false }\n"


def pages() -> dict[str, str]:
    """Return the Markdown of each page of the reference, by its path in the site."""
    subjects = {f"reference/{page}.md": _subject_page(page) for page in SUBJECTS}
    others = {"reference/metrics.md": _metrics_page(), "reference/errors.md": ERRORS}
    return {"reference.md": _overview()} | subjects | others


def public_names() -> dict[str, str]:
    """Map each name with an entry to its subject's page; `METRICS` and `errors` have pages."""
    values = {name: getattr(mha_viz, name) for name in mha_viz.__all__}
    return {
        name: _page_of(value)
        for name, value in values.items()
        if callable(value) and not isinstance(value, ModuleType) and name != "MhaVizError"
    }


def _page_of(value: object) -> str:
    module = inspect.unwrap(value).__module__.removeprefix("mha_viz.") + "."
    for page, subject in SUBJECTS.items():
        if module.startswith(tuple(f"{folder}." for folder in subject.folders)):
            return page
    raise LookupError(f"No subject of the reference has the folder of mha_viz.{module}")


def _overview() -> str:
    parts = [HEAD]
    for page, subject in SUBJECTS.items():
        rows = [
            f"| [`{name}`](reference/{page}.md#mha_viz.{name}) | {_first_line(name)} |"
            for name, its_page in public_names().items()
            if its_page == page
        ]
        title = f"## [{subject.title}](reference/{page}.md)\n"
        parts.append("\n".join([title, "| Name | |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def _first_line(name: str) -> str:
    docstring = inspect.getdoc(getattr(mha_viz, name)) or ""
    return docstring.partition("\n")[0].replace("|", "\\|")


def _subject_page(page: str) -> str:
    names = [name for name, its_page in public_names().items() if its_page == page]
    return "\n".join([f"# {SUBJECTS[page].title}\n", *(f"::: mha_viz.{name}\n" for name in names)])


def _metrics_page() -> str:
    by_function: dict[str, list[str]] = {}
    for metric in METRICS.values():
        function = f"{metric.function.__module__}.{metric.function.__name__}"
        by_function.setdefault(function, []).append(f"```math\n{metric.formula}\n```\n")
    entries = [f"::: {name}\n\n" + "\n".join(formulas) for name, formulas in by_function.items()]
    return "\n".join([METRIC_HEAD, *entries])
