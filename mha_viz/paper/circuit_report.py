"""The report of a task: its pairs, the heads that do it, the edges between, and what is left."""

import tomllib
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mha_viz.circuits.effects.edge_circuit import ENOUGH, N_RANDOM, EdgeCurve, edge_faithfulness
from mha_viz.circuits.effects.edge_effects import EdgeScores, edge_effects
from mha_viz.circuits.effects.faithfulness import FoundHeads, faithfulness, find_heads
from mha_viz.circuits.effects.over_pairs import TaskAttribution, task_attribution
from mha_viz.circuits.effects.tested_heads import Faithfulness
from mha_viz.circuits.tasks.accuracy import TaskAccuracy, attended, task_accuracy
from mha_viz.circuits.tasks.make_task import TASKS, task_of
from mha_viz.circuits.tasks.task import Example, Task
from mha_viz.core.amounts import format_number
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError
from mha_viz.paper.figures import StudyFigure
from mha_viz.paper.report import Report, StudyTable, write_files
from mha_viz.plots.bars import signed_rows
from mha_viz.plots.curves import LineAxes, curves
from mha_viz.plots.head_values import importance_map
from mha_viz.plots.table_text import table_csv
from mha_viz.prediction.replay import OnProgress
from mha_viz.text.cleaning import in_a_row
from mha_viz.text.encoding import label_of
from mha_viz.text.tokens import Encoded
from mha_viz.web.labels import head_name

_TEXTS = tomllib.loads((files(__package__) / "circuit_report.toml").read_text("utf-8"))
_N_PAIRS, _N_HEADS, _N_ROWS, _N_MEASURED = 8, 8, 20, 50
_PAIRS = "pairs.csv"


class _Findings(NamedTuple):
    """All that was measured; of families whose edges have no effects, the reason."""

    accuracy: TaskAccuracy
    proposed: FoundHeads
    tested: Faithfulness
    attended: pd.DataFrame
    writes: TaskAttribution
    edges: tuple[EdgeScores, EdgeCurve] | str


def circuit_report(
    model: AttentionModel,
    task: Task | str,
    folder: str | Path,
    on_progress: OnProgress | None = None,
    *,
    enough: float = ENOUGH,
    column: str = "single",
) -> Path:
    """Explain how a model does a task, from heads to edges, and write it down on one page.

    In this order: whether the model does the task; which heads matter (`find_heads`, tested by
    `faithfulness`); where they look; what they write (`task_attribution`); the edges between them
    (`edge_effects`, the strongest measured); how few edges carry the behaviour
    (`edge_faithfulness`); and what is not explained. Everything is chosen on one half of the pairs
    and tested on the other.

    Args:
        model: a causal or masked model of one stack, through our attention function.
        task: of `make_task`, or its name.
        folder: where index.html, index.md, the pairs, and each table and figure are written.
        on_progress: called in each step with how much is done, and of how much; an exception stops
            the work.
        enough: the share of the behaviour that the heads and the circuit are to carry, in (0, 1].
        column: the width of figures, "single" (3.25 inches) or "double".

    Returns:
        index.html. Families whose edges have no effects (BERT) have no tables of edges: the page
        says why.

    Raises:
        ArgumentError: `enough` out of range, a task of another model, or one that the model's heads
            do not do.
        AttentionUnavailableError, WriteError: as `faithfulness`, and a folder that cannot be
            written.

    Source: that of each step, in the function that it names.

    >>> import tempfile
    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> task = mv.make_task(model, "induction", n_examples=4)
    >>> circuit_report(model, task, tempfile.mkdtemp(), enough=0.5).name  # doctest: +SKIP
    'index.html'
    """
    files = circuit_report_files(model, task_of(model, task), on_progress, enough, column)
    return write_files(files, Path(folder))


def circuit_report_files(
    model: AttentionModel,
    task: Task,
    on_progress: OnProgress | None = None,
    enough: float = ENOUGH,
    column: str = "single",
) -> dict[str, bytes]:
    """Make the files of `circuit_report`, by their names."""
    findings = _measure(model, task, enough, on_progress)
    tables = _tables(model, task, findings, enough)
    dtype = str(model.dtype).removeprefix("torch.")
    source = (
        f"{model.name}, {dtype}; {len(task.examples)} pairs of “{task.name}”, seed {task.seed}: "
        "half of them to choose on, half to test."
    )
    report = Report(
        title=f"How {model.name} does “{task.name}”",
        source=source,
        notes=[
            f"{_TEXTS['left']['title']}. {' '.join(_unexplained(findings, enough))}",
            *task.left_out,
        ],
        tables=tables,
        figures=_figures(findings, source),
        commands=[_command(model, task, enough)],
        needed=f"All pairs lie in {_PAIRS}.",
        manifest={
            "model": model.name,
            "task": task.name,
            "seed": task.seed,
            "heads": [head_name(*head) for head in findings.proposed.heads],
            "enough": enough,
            "stand_in": task.stand_in,
        },
    )
    return report.files(column) | {_PAIRS: table_csv(_pairs(model, task.examples), "")}


def _measure(
    model: AttentionModel, task: Task, enough: float, on_progress: OnProgress | None
) -> _Findings:
    proposed = find_heads(model, task, enough, on_progress)
    edges: tuple[EdgeScores, EdgeCurve] | str
    try:
        scores = edge_effects(model, task, on_progress=on_progress)
        scores.measure(_N_MEASURED, on_progress)
        edges = scores, edge_faithfulness(scores, on_progress=on_progress)
    except AttentionUnavailableError as error:
        edges = str(error)
    return _Findings(
        accuracy=task_accuracy(model, task),
        proposed=proposed,
        tested=faithfulness(model, task, proposed.heads, on_progress),
        attended=attended(model, task, proposed.heads[:_N_HEADS]),
        writes=task_attribution(model, task, on_progress),
        edges=edges,
    )


def _tables(
    model: AttentionModel, task: Task, findings: _Findings, enough: float
) -> list[StudyTable]:
    proposed, tested = findings.proposed, findings.tested
    first = proposed.order[: max(len(proposed.heads), _N_ROWS)]
    rows: dict[str, pd.DataFrame] = {
        "task": _pairs(model, task.examples[:_N_PAIRS]),
        "heads": pd.DataFrame(
            {
                "Head": [head_name(*head) for head in first],
                "Effect": [float(proposed.effect[head]) for head in first],
                "Share of the first ones": proposed.share[1 : len(first) + 1],
                "Chosen": [head in proposed.heads for head in first],
            }
        ),
        "attended": findings.attended,
        "writes": _strongest(findings.writes.table(), "share")[
            ["component", "share", "low", "high"]
        ],
    }
    values: dict[str, Any] = dict(
        accuracy=findings.accuracy.sentence,
        n=len(proposed.heads),
        n_chosen=len(task.to_choose_on),
        n_held_out=len(task.held_out),
        chosen=f"{tested.chosen_on.share(tested.chosen_on.alone):.0%}",
        held_out=f"{tested.held_out.share(tested.held_out.alone):.0%}",
        missing=f"{tested.held_out.share(tested.held_out.missing):.0%}",
        beside_random=tested.beside_random,
        value=f"{format_number(findings.writes.value)} logits",
        enough=f"{enough:.0%}",
        n_random=N_RANDOM,
    )
    if not isinstance(findings.edges, str):
        scores, curve = findings.edges
        values |= dict(n_measured=scores.n_measured, n_edges=f"{scores.n_edges:,}")
        rows["edges"] = scores.table().head(_N_ROWS).drop(columns="exact")
        rows["curve"] = curve.table()
        size = curve.size_for(enough)
        if size is not None:
            rows["circuit"] = curve.circuits[curve.sizes.index(size)].minimality()
    titles, notes = _TEXTS["titles"], _TEXTS["notes"]
    shown = rows | {"attended": _attended_by_kind(findings.attended)}
    return [
        StudyTable(key, titles[key], table, notes[key].format(**values), shown[key])
        for key, table in rows.items()
    ]


def _pairs(model: AttentionModel, examples: tuple[Example, ...]) -> pd.DataFrame:
    """Write pairs as `make_task` reads them; those of random tokens token by token."""

    def words(text: Encoded) -> str:
        return text.text or in_a_row(token.text for token in text.tokens)

    return pd.DataFrame(
        {
            "clean": [words(example.clean) for example in examples],
            "corrupt": [words(example.corrupt) for example in examples],
            "answer": [label_of(model.tokenizer, example.right) for example in examples],
            "wrong": [label_of(model.tokenizer, example.wrong) for example in examples],
        }
    )


def _attended_by_kind(table: pd.DataFrame) -> pd.DataFrame:
    """Lay out a row per head and a column per kind of key; the last row is of uniform weights."""
    names = [head_name(*head) for head in table[["layer", "head"]].to_numpy().tolist()]
    long = table.assign(Head=names)
    wide = long.pivot(index="Head", columns="kind", values="weight")
    wide = wide.loc[long.Head.unique(), long.kind.unique()]
    wide.loc["spread evenly"] = long.groupby("kind").uniform.first()
    return wide.rename_axis(columns=None).reset_index()


def _strongest(table: pd.DataFrame, column: str) -> pd.DataFrame:
    ordered = table.sort_values(column, key=abs, ascending=False, kind="stable", ignore_index=True)
    return ordered.head(_N_ROWS)


def _figures(findings: _Findings, source: str) -> dict[str, StudyFigure]:
    names, proposed = _TEXTS["figures"], findings.proposed
    rows, effect = _strongest(findings.writes.table(), "share"), proposed.effect.numpy()
    heads = [head_name(*at) for at in np.ndindex(effect.shape)]
    figures = {
        "heads": StudyFigure(
            names["heads"],
            partial(importance_map, effect, names["heads"], "logits"),
            pd.DataFrame({"Head": heads, "Effect": effect.ravel()}),
            source,
        ),
        "writes": StudyFigure(
            names["writes"],
            partial(signed_rows, rows["component"].tolist(), rows["share"].to_numpy(), "logits"),
            rows,
            source,
        ),
    }
    if not isinstance(findings.edges, str):
        curve = findings.edges[1]
        table = curve.table()
        lines = {name: (table.edges, table[name]) for name in ("faithfulness", "complement")}
        lines["random"] = (table.edges, table.random)
        axes = LineAxes(
            title=names["curve"],
            x_title="edges",
            y_title="share of the behaviour",
            x_axis="log",
            bands={"faithfulness": (table.low, table.high)},
        )
        draw = partial(curves, lines, axes)
        figures["curve"] = StudyFigure(axes["title"], draw, table, source)
    return figures


def _unexplained(findings: _Findings, enough: float) -> list[str]:
    """Say in sentences what was not explained."""
    texts, n_pairs = _TEXTS["left"], len(findings.accuracy.difference)
    n_wrong = n_pairs - findings.accuracy.n_preferred
    held_out = findings.tested.held_out
    shares = {key: f"{held_out.share(getattr(held_out, key)):.0%}" for key in ("alone", "missing")}
    unexplained = f"{1 - held_out.share(held_out.alone):.0%}"
    sentences = [texts["task"].format(n=n_wrong, of=n_pairs)] * bool(n_wrong)
    sentences.append(
        held_out.refusal or texts["heads"].format(rest=unexplained, missing=shares["missing"])
    )
    if isinstance(findings.edges, str):
        sentences.append(texts["no_edges"].format(reason=findings.edges))
    elif (size := findings.edges[1].size_for(enough)) is None:
        sentences.append(texts["no_curve"].format(enough=f"{enough:.0%}"))
    else:
        curve = findings.edges[1]
        at = curve.sizes.index(size)
        unexplained = f"{1 - float(curve.faithfulness[at]):.0%}"
        complement = f"{float(curve.complement[at]):.0%}"
        sentences.append(texts["curve"].format(size=size, rest=unexplained, complement=complement))
    return [*sentences, texts["always"]]


def _command(model: AttentionModel, task: Task, enough: float) -> str:
    drawn = f"{task.name} --examples {len(task.examples)} --seed {task.seed}"
    task_option = drawn if task.name in TASKS else f"--pairs {_PAIRS}"
    return (
        f"mha-viz circuits report {task_option} --model {model.name} --enough {enough} --out report"
    )
