"""A circuit put to the test: how much of a behaviour some heads carry, against chance."""

from collections.abc import Hashable
from io import BytesIO
from math import isnan
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import streamlit as st

from mha_viz.circuits.tasks.faithfulness import N_RANDOM, faithfulness, find_heads
from mha_viz.circuits.tasks.tasks import TASKS, Task
from mha_viz.circuits.tasks.tested_heads import Faithfulness, Outcome
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import RecordError
from mha_viz.paper.circuit_report import circuit_report_files
from mha_viz.plots.bars import signed_rows
from mha_viz.prediction.loss import OnProgress
from mha_viz.ui.circuits import TEXTS, targets
from mha_viz.ui.run.scene import Scene, is_head
from mha_viz.ui.state import state
from mha_viz.ui.state.views import MAX_TESTED, MAX_URL_TEXT, Circuits
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import controls
from mha_viz.ui.widgets.exports import exports, figures
from mha_viz.ui.widgets.messages import progress, words

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
            found = measured(faithfulness, chosen, heads, passes=n_passes, what="testing")
            progress.keep("circuit", _key(chosen.source, heads), found)
        if proposes:
            proposed = measured(find_heads, chosen, passes=n_heads, what="proposing")
            state.change(tested=proposed.heads[:MAX_TESTED])
        if writes:
            n_passes = _PASSES_OF_REPORT * n_heads
            made = measured(_report, chosen, passes=n_passes, what="report")
            progress.keep("report", _key(chosen.source, ()), made)
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
    heads = words.listed(found.heads, 5)
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
    about = f"task: {found.task}", words.listed(found.heads, MAX_TESTED), f"seed {found.seed}"
    figures.show(drawn, table=table, caption=words.settings(scene, *about), **texts)


def _shares(outcome: Outcome) -> str:
    """Say what the heads carry and what is left without them."""
    shares = [outcome.share(one) for one in (outcome.alone, outcome.missing)]
    alone, missing = (
        # All heads may add too little for one.
        "no defined share" if isnan(share) else f"{round(100 * share)}%".replace("-", "−")
        for share in shares
    )
    return f"{alone} of the behaviour; without them {missing} is left."


def _take_file(content: bytes) -> None:
    """Open the task, heads and results of a saved circuit."""
    found = Faithfulness.from_bytes(content, "This file")
    if found.model != state.of(Circuits).model or found.task not in TASKS:
        raise RecordError(TEXTS("faithfulness.other", found=found))
    state.change(task=found.task, tested=found.heads[:MAX_TESTED])
    progress.keep("circuit", _key(found.task, found.heads), found)
