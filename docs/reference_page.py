"""The page of the Python reference: every public name, and every metric with its formula.

The list is `mha_viz`'s own, so a new name is on the page without anybody's doing.
"""

import inspect
from types import ModuleType

import mha_viz
from mha_viz.core.metrics import METRICS

# The room that a name lives in -> what a reader looks for there. In the order of the page.
ROOMS = {
    "checkpoints": "Models",
    "engine": "A model and its runs",
    "core": "Attention, records and metrics",
    "reports": "Heads measured",
    "corpus": "Many texts",
    "circuits": "Heads that work together",
    "prediction": "What a model says",
    "interventions": "Heads changed",
    "notebook": "In a notebook",
}

HEAD = """\
# Python reference

`import mha_viz as mv` gives all of these names; each is imported when it is first used. Arrays have
their axes in the order `layer head query key`, layers and heads count from 0, entropies are in
nats.
"""

METRIC_HEAD = """\
## The metrics as functions

`mha_viz.METRICS` names them all, with unit, range and source; [The metrics](metrics.md) says what
each means. The symbols are those of [One by one](metrics.md#one-by-one).

`pattern` is `(layer, head, query, key)`; `z` is `(layer, head, query, d_head)`, pattern times
values; `W_O` has each layer's output weights `(head, d_head, d_model)`, `weights` each layer's
`(head, d_model, d_head)`; `is_special` is bool `(key,)`. What has another shape or kind is refused
with `ShapeError` or `DTypeError`.
"""


def render() -> str:
    """The Markdown of the whole page."""
    rooms = [*ROOMS, *sorted({_room(name) for name in public_names()} - ROOMS.keys())]
    parts = [_section(room) for room in rooms]
    errors = "## Errors\n\n::: mha_viz.errors\n    options: { show_root_heading: false }\n"
    return "\n".join([HEAD, *parts, errors, METRIC_HEAD, *_metrics()])


def public_names() -> list[str]:
    """List the names with entries of their own; `METRICS` and `errors` are sections."""
    values = {name: getattr(mha_viz, name) for name in mha_viz.__all__}
    return [
        name
        for name, value in values.items()
        if callable(value) and not isinstance(value, ModuleType) and name != "MhaVizError"
    ]


def _room(name: str) -> str:
    return inspect.unwrap(getattr(mha_viz, name)).__module__.split(".")[1]


def _section(room: str) -> str:
    entries = [f"::: mha_viz.{name}\n" for name in public_names() if _room(name) == room]
    return "\n".join([f"## {ROOMS.get(room, room.capitalize())}\n", *entries]) if entries else ""


def _metrics() -> list[str]:
    by_function: dict[str, list[str]] = {}
    for metric in METRICS.values():
        function = f"{metric.function.__module__}.{metric.function.__name__}"
        by_function.setdefault(function, []).append(f"```math\n{metric.formula}\n```\n")
    return [f"::: {name}\n\n" + "\n".join(formulas) for name, formulas in by_function.items()]
