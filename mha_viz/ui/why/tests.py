"""The view Test: a circuit on unseen pairs, beside the importance of heads and pruning."""

from collections.abc import Hashable
from functools import partial
from io import BytesIO
from math import isnan
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import streamlit as st

from mha_viz.circuits.effects.faithfulness import N_RANDOM, faithfulness, find_heads
from mha_viz.circuits.effects.tested_heads import Faithfulness, Outcome
from mha_viz.circuits.tasks.make_task import TASKS
from mha_viz.circuits.tasks.task import Task
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import RecordError
from mha_viz.paper.circuit_report import circuit_report_files
from mha_viz.plots.bars import signed_rows
from mha_viz.prediction.replay import OnProgress
from mha_viz.ui.run.scene import Scene, is_head
from mha_viz.ui.state import selection
from mha_viz.ui.state.link_values import MAX_URL_TEXT
from mha_viz.ui.state.views import MAX_TESTED, TITLES, Why
from mha_viz.ui.why import TEXTS, importance, pruning, tasks
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import downloads, figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.notices import continue_on_error
from mha_viz.web.theme import true_minus

_PASSES_OF_REPORT = 5  # for each head, about: its effect, and edges in both halves of the texts


def draw(scene: Scene, view: Why) -> None:
    """Draw a task's circuit and what it carries, or importance and pruning."""
    if view.test == "circuit":
        _draw_circuit(scene, view, tasks.choose(scene, view, _circuit_row))
        return
    importance.draw(scene, view, _switch)
    pruning.draw(scene, view)
    with st.expander("What an ablation tells, and what it does not"):
        st.markdown(TEXTS("importance.tells"))


def _circuit_row() -> None:
    _switch()
    tasks.menu()


def _switch() -> None:
    choosing.segments("test", "Test", TITLES["tests"], label_visibility="collapsed")


def _draw_circuit(scene: Scene, view: Why, chosen: tasks.Chosen) -> None:
    """Draw the heads and what they carry. Not a fragment, as Stop must end what measures."""
    heads = _heads(scene, view, chosen)
    result = progress.results("circuit").get(_key(view, chosen.source, heads))
    if result is not None:
        _result(scene, view, result)
    instead = TEXTS(f"faithfulness.{chosen.task.stand_in}")
    st.caption(TEXTS("faithfulness.tells", instead=instead))


def _heads(scene: Scene, view: Why, chosen: tasks.Chosen) -> tuple[tuple[int, int], ...]:
    """Return the chosen circuit, beside what can be done; the framed head until one is chosen."""
    record = scene.record
    circuit = tuple(head for head in view.tested if is_head(record, head)) or (view.chosen,)
    every = list(np.ndindex(record.n_layers, record.n_heads))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        selection.control(
            *("ask_tested", st.multiselect, "Heads of the circuit", every),
            value=list(circuit),
            take=lambda heads: selection.change(tested=tuple(heads)),
            format_func=lambda head: words.head_name(*head),
            max_selections=MAX_TESTED,
            placeholder="Choose heads",
            width=400,
        )
        requested = _buttons()
        label = "A circuit that was saved here"
        choosing.open_file("circuit_file", "open-circuit", label, _take_file)
    _measure(view, chosen, circuit, scene.head_count, requested)
    return circuit


def _key(view: Why, source: str, heads: tuple[tuple[int, int], ...]) -> Hashable:
    return view.checkpoint, source, heads


def _buttons() -> str:
    """Draw what can be done with heads; return the key of the pressed button, "" for none."""
    play, search = ":material/play_arrow:", ":material/search:"
    buttons = {
        "test_heads": st.button("Test", icon=play, key="test_heads", type="primary"),
        "propose_heads": st.button("Propose by effect", icon=search, key="propose_heads"),
        "report_task": st.button("Report", icon=":material/article:", key="report_task"),
    }
    return next((key for key, is_pressed in buttons.items() if is_pressed), "")


def _measure(
    view: Why,
    chosen: tasks.Chosen,
    heads: tuple[tuple[int, int], ...],
    n_heads: int,
    requested: str,
) -> None:
    """Do what was requested, and keep it; offer the report that was written."""
    measured = partial(tasks.measured, view)
    with continue_on_error():
        if requested == "test_heads":
            n_passes = N_RANDOM + 4  # random sets: one half
            named = words.by_number(heads)
            result = measured(faithfulness, chosen, named, passes=n_passes, name="testing")
            progress.results("circuit")[_key(view, chosen.source, heads)] = result
        if requested == "propose_heads":
            proposed = measured(find_heads, chosen, passes=n_heads, name="proposing")
            selection.change(tested=words.by_position(proposed.heads[:MAX_TESTED]))
        if requested == "report_task":
            n_passes = _PASSES_OF_REPORT * n_heads
            report = measured(_report, chosen, passes=n_passes, name="report")
            progress.results("report")[_key(view, chosen.source, ())] = report
        if requested:
            st.rerun()
    if (report := progress.results("report").get(_key(view, chosen.source, ()))) is not None:
        name = f"report_{chosen.task.name}.zip"
        downloads.download("Report (ZIP)", name, lambda: report, key="report-zip")
        st.caption(TEXTS("faithfulness.report"))


def _report(model: AttentionModel, task: Task, on_progress: OnProgress | None = None) -> bytes:
    file = BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for name, content in circuit_report_files(model, task, on_progress).items():
            archive.writestr(name, content)
    return file.getvalue()


def _result(scene: Scene, view: Why, result: Faithfulness) -> None:
    """Draw what the choice carries beside random sets of as many heads, and the file."""
    heads = words.listed(result.heads, 5, ())
    if result.held_out.refusal:
        st.info(words.plain(f"No share of {heads} is given. {result.held_out.refusal}"))
    else:
        shares = {"alone": _shares(result.held_out), "chosen": _shares(result.chosen_on)}
        st.markdown(TEXTS("faithfulness.result", heads=heads, result=result, **shares))
    bars_column, file_column = st.columns([3, 2], gap="medium")
    with bars_column:
        _bars(scene, result)
    with file_column:
        file = f"circuit_{result.task}.json"
        downloads.download("Circuit (JSON)", file, result.to_bytes, key="circuit-json")
        if len(view.pairs) <= MAX_URL_TEXT:
            st.caption("The address of this page opens the same task and heads, too.")


def _bars(scene: Scene, result: Faithfulness) -> None:
    """Draw the behaviour under each setting of the heads: a share, or logits without one."""
    table, refused = result.table(), bool(result.held_out.refusal)
    texts = TEXTS.figure(
        "figures.faithfulness", share="" if refused else TEXTS("faithfulness.share")
    )
    labels = table["heads"].replace(TEXTS.labels("faithfulness.bars")).tolist()
    values = (table["behaviour"] if refused else 100 * table["share"]).to_numpy(dtype=np.float64)
    unit = "logits" if refused else "% of the behaviour"
    drawn = signed_rows(labels, values, unit, title=texts["name"], dark=look.dark())
    about = words.listed(result.heads, MAX_TESTED, ()), f"seed {result.seed}"
    figures.show(drawn, table=table, caption=tasks.settings(scene, result.task, *about), **texts)


def _shares(outcome: Outcome) -> str:
    """Say what the heads carry and what is left without them."""
    shares = [outcome.share(run) for run in (outcome.alone, outcome.missing)]
    alone, missing = (
        # All heads may add too little for one.
        "no defined share" if isnan(share) else true_minus(f"{round(100 * share)}%")
        for share in shares
    )
    return f"{alone} of the behaviour; without them {missing} is left."


def _take_file(content: bytes) -> None:
    """Open the task, heads and results of a saved circuit."""
    result, view = Faithfulness.from_bytes(content, "This file"), selection.of(Why)
    if result.model != view.model or result.task not in TASKS:
        raise RecordError(TEXTS("faithfulness.other", result=result))
    if result.layer_numbers != words.layer_numbers():
        raise RecordError(TEXTS("faithfulness.other", result=result))
    heads = words.by_position(result.heads)
    selection.change(task=result.task, tested=heads[:MAX_TESTED])
    progress.results("circuit")[_key(view, result.task, heads)] = result
