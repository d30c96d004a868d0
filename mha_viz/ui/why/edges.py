"""Edges over a task: the strongest, measured, and how few carry the behaviour on unseen pairs."""

from functools import partial
from typing import NamedTuple

import pandas as pd
import streamlit as st

from mha_viz.circuits.effects.edge_circuit import ENOUGH, N_RANDOM, edge_faithfulness
from mha_viz.circuits.effects.edge_effects import N_MEASURED, edge_effects
from mha_viz.circuits.effects.edge_runs import EdgeRuns
from mha_viz.circuits.tasks.task import Task
from mha_viz.core.reprs import count
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError
from mha_viz.plots.curves import LineAxes, curves
from mha_viz.plots.edge_graph import edge_graph
from mha_viz.prediction.replay import OnProgress
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import turn_for
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state.views import Why
from mha_viz.ui.why import TEXTS, tasks
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import downloads, figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.notices import continue_on_error

_SHOWN, _DRAWN = 20, 80  # edges in the table, and in the picture
_EDGE_PASSES = 4 * N_RANDOM + N_MEASURED  # over all pairs, about


class EdgeFindings(NamedTuple):
    """The numbers that are drawn: the runs behind them hold the model."""

    strongest: pd.DataFrame
    circuit: pd.DataFrame  # the smallest that carries enough; else the largest that was run
    curve: pd.DataFrame
    size: int | None
    area: float
    n_edges: int
    n_measured: int
    positions: pd.DataFrame | None  # the circuit's by position; None of pairs of several lengths


def find_edges(
    model: AttentionModel, task: Task, on_progress: OnProgress | None = None
) -> EdgeFindings:
    """Score all edges, measure the strongest, and run circuits of growing sizes."""
    scores = edge_effects(model, task, on_progress=on_progress)
    scores.measure(on_progress=on_progress)
    curve = edge_faithfulness(scores, on_progress=on_progress)
    size = curve.size_for()
    circuit = curve.circuits[-1 if size is None else curve.sizes.index(size)]
    strongest = scores.table().head(_SHOWN).drop(columns="exact")
    drawn = circuit.table()[["sender", "receiver", "score", "known"]].head(_DRAWN)
    numbers = size, curve.area, scores.n_edges, scores.n_measured
    positions = circuit.by_position() if scores.by_position.shape[-1] > 1 else None
    return EdgeFindings(strongest, drawn, curve.table(), *numbers, positions)


def draw(scene: Scene, view: Why, chosen: tasks.Chosen) -> None:
    """Draw the curve and the circuit of a task. Not a fragment, as Stop must end what measures."""
    st.header("Which edges carry it", anchor=False)
    key = view.checkpoint, chosen.source
    with continue_on_error():
        _check(view, chosen.task)
        if st.button(**TEXTS.control("find_edges"), key="find_edges", type="primary"):
            passes = _EDGE_PASSES
            findings = tasks.measured(view, find_edges, chosen, passes=passes, name="edges")
            progress.results("edges")[key] = findings
            st.rerun()
    findings = progress.results("edges").get(key)
    if findings is not None:
        _edge_result(scene, chosen.task, findings)
    st.caption(TEXTS("edges.tells"))


def _check(view: Why, task: Task) -> None:
    """Raise AttentionUnavailableError for a family whose edges differ."""
    model, pair = memory.model(*view.checkpoint), task.examples[:1]

    def refusal() -> str:
        try:
            with turn_for(model, pair[0].clean.text):
                EdgeRuns(model, pair, "logit_difference")
        except AttentionUnavailableError as error:
            return str(error)
        return ""

    key = (*view.checkpoint, "edges")
    if reason := memory.cache().get(key, refusal, lambda _: 500):
        raise AttentionUnavailableError(reason)


def _edge_result(scene: Scene, task: Task, findings: EdgeFindings) -> None:
    if findings.size is None:
        st.markdown(TEXTS("edges.none", enough=ENOUGH, findings=findings))
    else:
        row = findings.curve[findings.curve["edges"] == findings.size].iloc[0]
        st.markdown(
            TEXTS("edges.result", n=count(findings.size, "edge"), findings=findings, row=row)
        )
    caption = tasks.settings(scene, task.name, f"seed {task.seed}")
    draw_graph = partial(_graph, scene, "edge_graph", findings.circuit, caption)
    look.beside(2, partial(_curve, findings.curve, caption), draw_graph)
    if findings.positions is None:
        st.caption(TEXTS("edges.pooled"))
    else:
        _graph(
            scene, "edge_positions", findings.positions.head(_DRAWN), caption, findings.positions
        )
    st.markdown(TEXTS("edges.strongest", n=findings.n_measured))
    shown = findings.strongest.map(lambda x: words.format_number(x) if isinstance(x, float) else x)
    st.dataframe(shown, hide_index=True)
    name = "Strongest edges"
    downloads.table_file(findings.strongest, key="edges-table", name=name, caption=caption)


def _curve(table: pd.DataFrame, caption: str) -> None:
    texts, names = TEXTS.figure("figures.edge_curve"), TEXTS.labels("edges.lines")
    lines = {title: (table["edges"], table[name]) for name, title in names.items()}
    bands = {names["faithfulness"]: (table["low"], table["high"])}
    y_title = "share of the behaviour"
    axes = LineAxes(
        title=texts["name"], x_title="edges", y_title=y_title, x_axis="log", bands=bands
    )
    figures.show(curves(lines, axes, dark=look.dark()), table=table, caption=caption, **texts)


def _graph(
    scene: Scene,
    figure: str,
    rows: pd.DataFrame,
    caption: str,
    by_position: pd.DataFrame | None = None,
) -> None:
    """Draw edges by layer, and by position where `by_position` has values."""
    texts = TEXTS.figure(f"figures.{figure}", n=len(rows))
    names, columns = ["sender", "receiver", "score"], list[str]()
    if by_position is not None:
        tokens = by_position.drop_duplicates("position").sort_values("position").token
        names, columns = [*names, "position"], [f"{i} {token}" for i, token in enumerate(tokens)]
    edges, size = rows[names].itertuples(index=False, name=None), scene.record.shape[:2]
    drawn = edge_graph(
        list(edges), *size, title=texts["name"], unit="logits", columns=columns, dark=look.dark()
    )
    table = rows if by_position is None else by_position
    figures.show(drawn, table=table, caption=caption, **texts)
