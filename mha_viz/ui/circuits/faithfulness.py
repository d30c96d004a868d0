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
from mha_viz.ui.state import allowed, state
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.views import MAX_TESTED, MAX_URL_TEXT, Circuits
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import lazy_sections
from mha_viz.ui.widgets.exports import exports, figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.messages import plain
from mha_viz.web.labels import head_name

_SHORT = TEXTS.labels("faithfulness.bars")
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
    every = [(i, j) for i in range(record.n_layers) for j in range(record.n_heads)]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.control(
            "ask_tested",
            st.multiselect,
            "Heads of the circuit",
            every,
            value=list(known),
            take=lambda heads: state.change(tested=tuple(heads)),
            format_func=lambda head: head_name(*head),
            max_selections=MAX_TESTED,
            placeholder="Choose heads",
        )
        lazy_sections.in_popover("Open", ":material/upload:", "open-circuit", _open)
    return known


def _key(source: str, heads: tuple[tuple[int, int], ...]) -> Hashable:
    return state.of(Circuits).checkpoint, source, heads


def _measure(chosen: targets.Chosen, heads: tuple[tuple[int, int], ...], n_heads: int) -> None:
    with st.container(horizontal=True):
        play, search = ":material/play_arrow:", ":material/search:"
        tests = st.button("Test these heads", icon=play, key="test_heads", type="primary")
        proposes = st.button("Propose heads by effect", icon=search, key="propose_heads")
        writes = st.button("Write a report", icon=":material/article:", key="report_task")
    with targets.known_parts():
        if tests:
            work = targets.work_on(
                faithfulness, chosen, heads, passes=N_RANDOM + 4
            )  # random sets: one half
            found = progress.done(work, "stop_testing", "Measuring …", progress.of_total)
            progress.keep("circuit", _key(chosen.source, heads), found)
            st.rerun()
        if proposes:
            work = targets.work_on(find_heads, chosen, passes=n_heads)
            proposed = progress.done(work, "stop_proposing", "Searching …", progress.of_total)
            state.change(tested=proposed.heads[:MAX_TESTED])
            st.rerun()
        if writes:
            work = targets.work_on(_report, chosen, passes=_PASSES_OF_REPORT * n_heads)
            made = progress.done(work, "stop_report", "Measuring …", progress.of_total)
            progress.keep("report", _key(chosen.source, ()), made)
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
        st.info(plain(f"No share of {heads} is given. {found.held_out.refusal}"))
    else:
        shares = {"alone": _shares(found.held_out), "chosen": _shares(found.chosen_on)}
        st.markdown(TEXTS("faithfulness.result", heads=heads, found=found, **shares))
    look.beside([3, 2], lambda: _bars(scene, found), lambda: _file(found))


def _file(found: Faithfulness) -> None:
    file = f"circuit_{found.task}.json"
    exports.download("Circuit (JSON)", file, found.to_bytes, key="circuit-json")
    if len(state.of(Circuits).pairs) <= MAX_URL_TEXT:
        st.caption("The address of this page opens the same task and heads, too.")


def _bars(scene: Scene, found: Faithfulness) -> None:
    """Draw the behaviour that each setting of the heads leaves: a share, or logits without one."""
    table = found.table()
    refused = bool(found.held_out.refusal)
    share = "" if refused else TEXTS("faithfulness.share")
    texts = TEXTS.figure("figures.faithfulness", share=share)
    about = f"task: {found.task}", words.listed(found.heads, MAX_TESTED), f"seed {found.seed}"
    figures.show(
        signed_rows(
            table["heads"].replace(_SHORT).tolist(),
            (table["behaviour"] if refused else 100 * table["share"]).to_numpy(dtype=np.float64),
            "logits" if refused else "% of the behaviour",
            title=texts["name"],
            dark=look.dark(),
        ),
        table=table,
        caption=words.settings(scene, *about),
        **texts,
    )


def _shares(outcome: Outcome) -> str:
    """Say what the heads carry and what is left without them."""
    alone, missing = (_percent(outcome.share(one)) for one in (outcome.alone, outcome.missing))
    return f"{alone} of the behaviour; without them {missing} is left."


def _percent(share: float) -> str:
    """Write a share; all heads may add too little for one."""
    return "no defined share" if isnan(share) else f"{round(100 * share)}%".replace("-", "−")


def _open() -> None:
    """Draw the upload of a saved circuit, which opens its task, heads and results."""

    @guarded
    def take() -> None:
        given = st.session_state.get("circuit_file")
        if given is None:
            return
        allowed.check_upload(given.size)
        found = Faithfulness.from_bytes(given.getvalue(), "This file")
        if found.model != state.of(Circuits).model or found.task not in TASKS:
            raise RecordError(TEXTS("faithfulness.other", found=found))
        state.change(task=found.task, tested=found.heads[:MAX_TESTED])
        progress.keep("circuit", _key(found.task, found.heads), found)

    st.file_uploader(
        "A circuit that was saved here",
        "json",
        key="circuit_file",
        on_change=take,
        max_upload_size=allowed.upload_mb(),
    )
