"""Heads while a model learned: a metric or label over the steps of a run of its recipe."""

import pandas as pd
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.study_set import LABEL, formed
from mha_viz.paper.figures import over_steps, source_line
from mha_viz.ui.corpus import TEXTS
from mha_viz.ui.corpus.overview import show
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Corpus
from mha_viz.ui.widgets.controls import choosing
from mha_viz.web.labels import head_name

_FORMING = {LABEL + "previous_token": "previous-token", "induction": "induction"}


def draw(study: Study, steps: pd.DataFrame) -> None:
    """Draw one of its metrics and labels over the steps, and say which heads came first."""
    st.header("While the model learned", anchor=False)
    st.markdown(f"{_order(steps)} {TEXTS('training.run', steps=steps['step'].max())}")
    known = {key: METRICS[key].title for key in METRICS if key in set(steps["name"])}
    labels = {LABEL + key: f"Label: {label.title}" for key, label in LABELS.items()}
    known |= {key: title for key, title in labels.items() if key in set(steps["name"])}
    if state.of(Corpus).over not in known:
        state.change(over="previous_token")
    choosing.menu("over", "Metric or label", known, width=280)
    view = state.of(Corpus)
    source = source_line(study, "a run of its recipe")
    show(over_steps(steps, view.over, source, view.chosen), "corpus-steps", TEXTS("figures.steps"))


def _order(steps: pd.DataFrame) -> str:
    """Say when the first head of each kind formed."""
    said = []
    for name, kind in _FORMING.items():
        if (first := formed(steps, name)) is None:
            said.append(f"{kind} head after the last step")
        else:
            head = head_name(first["layer"], first["head"])
            said.append(f"{kind} head by step {first['step']:,} ({head})")
    return f"**First {said[0]}, first {said[1]}.**"
