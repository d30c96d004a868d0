"""A circuit put to the test: how much of a behaviour some heads or edges carry, against chance."""

from collections.abc import Hashable
from functools import partial
from io import BytesIO
from math import isnan
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.circuits.effects.edge_circuit import ENOUGH, edge_faithfulness
from mha_viz.circuits.effects.edge_circuit import N_RANDOM as N_CIRCUITS
from mha_viz.circuits.effects.edge_effects import N_MEASURED, edge_effects
from mha_viz.circuits.effects.edge_runs import EdgeRuns
from mha_viz.circuits.effects.faithfulness import N_RANDOM, faithfulness, find_heads
from mha_viz.circuits.effects.tested_heads import Faithfulness, Outcome
from mha_viz.circuits.tasks.make_task import TASKS
from mha_viz.circuits.tasks.task import Task
from mha_viz.core.reprs import count
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError, RecordError
from mha_viz.paper.circuit_report import circuit_report_files
from mha_viz.plots.bars import signed_rows
from mha_viz.plots.curves import LineAxes, curves
from mha_viz.plots.edge_graph import edge_graph
from mha_viz.prediction.replay import OnProgress
from mha_viz.ui.circuits import TEXTS, targets
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import turn_for
from mha_viz.ui.run.scene import Scene, is_head
from mha_viz.ui.state import state
from mha_viz.ui.state.views import MAX_TESTED, MAX_URL_TEXT, Circuits
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import controls
from mha_viz.ui.widgets.exports import exports, figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.web.theme import true_minus

_PASSES_OF_REPORT = 5  # for each head, about: its effect, and edges in both halves of the texts


def draw(scene: Scene) -> None:
    """Draw task, heads and what they carry. Not a fragment, as Stop must end what measures."""
    chosen = targets.choose()
    heads = _heads(scene)
    _measure(chosen, heads, scene.head_count)
    found = progress.results("circuit").get(_key(chosen.source, heads))
    if found is not None:
        _result(scene, found)
    instead = TEXTS(f"faithfulness.{chosen.task.stand_in}")
    st.caption(TEXTS("faithfulness.tells", instead=instead))


def _heads(scene: Scene) -> tuple[tuple[int, int], ...]:
    """Return the chosen circuit; the framed head until one is chosen."""
    record, view = scene.record, state.of(Circuits)
    known = tuple(head for head in view.tested if is_head(record, head)) or (view.chosen,)
    every = list(np.ndindex(record.n_layers, record.n_heads))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.control(
            *("ask_tested", st.multiselect, "Heads of the circuit", every),
            value=list(known),
            take=lambda heads: state.change(tested=tuple(heads)),
            format_func=lambda head: words.head_name(*head),
            max_selections=MAX_TESTED,
            placeholder="Choose heads",
        )
        label = "A circuit that was saved here"
        controls.open_file("circuit_file", "open-circuit", label, _take_file)
    return known


def _key(source: str, heads: tuple[tuple[int, int], ...]) -> Hashable:
    return state.of(Circuits).checkpoint, source, heads


def _measure(chosen: targets.Chosen, heads: tuple[tuple[int, int], ...], n_heads: int) -> None:
    with st.container(horizontal=True):
        play, search = ":material/play_arrow:", ":material/search:"
        tests = st.button("Test these heads", icon=play, key="test_heads", type="primary")
        proposes = st.button("Propose heads by effect", icon=search, key="propose_heads")
        writes = st.button("Write a report", icon=":material/article:", key="report_task")
    measured = targets.measured
    with targets.known_parts():
        if tests:
            n_passes = N_RANDOM + 4  # random sets: one half
            named = words.by_number(heads)
            found = measured(faithfulness, chosen, named, passes=n_passes, what="testing")
            progress.results("circuit")[_key(chosen.source, heads)] = found
        if proposes:
            proposed = measured(find_heads, chosen, passes=n_heads, what="proposing")
            state.change(tested=words.by_position(proposed.heads[:MAX_TESTED]))
        if writes:
            n_passes = _PASSES_OF_REPORT * n_heads
            made = measured(_report, chosen, passes=n_passes, what="report")
            progress.results("report")[_key(chosen.source, ())] = made
        if tests or proposes or writes:
            st.rerun()
    if (made := progress.results("report").get(_key(chosen.source, ()))) is not None:
        name = f"report_{chosen.task.name}.zip"
        exports.download("Report (ZIP)", name, lambda: made, key="report-zip")
        st.caption(TEXTS("faithfulness.report"))


def _report(model: AttentionModel, task: Task, on_progress: OnProgress | None = None) -> bytes:
    """Make the report of a task as a ZIP file."""
    file = BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for name, content in circuit_report_files(model, task, on_progress).items():
            archive.writestr(name, content)
    return file.getvalue()


def _result(scene: Scene, found: Faithfulness) -> None:
    """Show what the choice carries, beside random sets of as many heads; and the file."""
    heads = words.listed(found.heads, 5, ())
    if found.held_out.refusal:
        st.info(words.plain(f"No share of {heads} is given. {found.held_out.refusal}"))
    else:
        shares = {"alone": _shares(found.held_out), "chosen": _shares(found.chosen_on)}
        st.markdown(TEXTS("faithfulness.result", heads=heads, found=found, **shares))
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _bars(scene, found)
    with right:
        file = f"circuit_{found.task}.json"
        exports.download("Circuit (JSON)", file, found.to_bytes, key="circuit-json")
        if len(state.of(Circuits).pairs) <= MAX_URL_TEXT:
            st.caption("The address of this page opens the same task and heads, too.")


def _bars(scene: Scene, found: Faithfulness) -> None:
    """Draw the behaviour that each setting of the heads leaves: a share, or logits without one."""
    table, refused = found.table(), bool(found.held_out.refusal)
    texts = TEXTS.figure(
        "figures.faithfulness", share="" if refused else TEXTS("faithfulness.share")
    )
    labels = table["heads"].replace(TEXTS.labels("faithfulness.bars")).tolist()
    values = (table["behaviour"] if refused else 100 * table["share"]).to_numpy(dtype=np.float64)
    unit = "logits" if refused else "% of the behaviour"
    drawn = signed_rows(labels, values, unit, title=texts["name"], dark=look.dark())
    about = f"task: {found.task}", words.listed(found.heads, MAX_TESTED, ()), f"seed {found.seed}"
    figures.show(drawn, table=table, caption=words.settings(scene, *about), **texts)


def _shares(outcome: Outcome) -> str:
    """Say what the heads carry and what is left without them."""
    shares = [outcome.share(one) for one in (outcome.alone, outcome.missing)]
    alone, missing = (
        # All heads may add too little for one.
        "no defined share" if isnan(share) else true_minus(f"{round(100 * share)}%")
        for share in shares
    )
    return f"{alone} of the behaviour; without them {missing} is left."


def _take_file(content: bytes) -> None:
    """Open the task, heads and results of a saved circuit."""
    found = Faithfulness.from_bytes(content, "This file")
    if found.model != state.of(Circuits).model or found.task not in TASKS:
        raise RecordError(TEXTS("faithfulness.other", found=found))
    if found.layer_numbers != words.layer_numbers():
        raise RecordError(TEXTS("faithfulness.other", found=found))
    heads = words.by_position(found.heads)
    state.change(task=found.task, tested=heads[:MAX_TESTED])
    progress.results("circuit")[_key(found.task, heads)] = found


_SHOWN, _DRAWN = 20, 80  # edges in the table, and in the picture
_EDGE_PASSES = 4 * N_CIRCUITS + N_MEASURED  # over all pairs, about


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


def draw_edges(scene: Scene) -> None:
    """Draw task, curve and circuit. Not a fragment, as Stop must end what measures."""
    chosen = targets.choose()
    key = state.of(Circuits).checkpoint, chosen.source
    with targets.known_parts():
        _check(chosen.task)
        if st.button(**TEXTS.control("find_edges"), key="find_edges", type="primary"):
            found = targets.measured(find_edges, chosen, passes=_EDGE_PASSES, what="edges")
            progress.results("edges")[key] = found
            st.rerun()
    found = progress.results("edges").get(key)
    if found is not None:
        _edge_result(scene, chosen.task, found)
    st.caption(TEXTS("edges.tells"))


def _check(task: Task) -> None:
    """Raise AttentionUnavailableError, before anyone begins, for a family whose edges differ."""
    model, pair = targets.model(), task.examples[:1]

    def refusal() -> str:
        try:
            with turn_for(model, pair[0].clean.text):
                EdgeRuns(model, pair, "logit_difference")
        except AttentionUnavailableError as error:
            return str(error)
        return ""

    key = (*state.of(Circuits).checkpoint, "edges")
    if found := memory.cache().get(key, refusal, lambda _: 500):
        raise AttentionUnavailableError(found)


def _edge_result(scene: Scene, task: Task, found: EdgeFindings) -> None:
    if found.size is None:
        st.markdown(TEXTS("edges.none", enough=ENOUGH, found=found))
    else:
        row = found.curve[found.curve["edges"] == found.size].iloc[0]
        st.markdown(TEXTS("edges.result", n=count(found.size, "edge"), found=found, row=row))
    caption = words.settings(scene, f"task: {task.name}", f"seed {task.seed}")
    draw_graph = partial(_graph, scene, "edge_graph", found.circuit, caption)
    look.beside(2, partial(_curve, found.curve, caption), draw_graph)
    if found.positions is None:
        st.caption(TEXTS("edges.pooled"))
    else:
        _graph(scene, "edge_positions", found.positions.head(_DRAWN), caption, found.positions)
    st.markdown(TEXTS("edges.strongest", n=found.n_measured))
    shown = found.strongest.map(lambda x: words.format_number(x) if isinstance(x, float) else x)
    st.dataframe(shown, hide_index=True)
    name = "Strongest edges"
    exports.table_file(found.strongest, key="edges-table", name=name, caption=caption)


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
    """Draw edges by layer; by position, too, where their parts there are given."""
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
