"""Change: what differs in another study, and what a model learned step by step."""

from functools import partial

import pandas as pd
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.sample_study import training_steps
from mha_viz.corpus.run.study_set import LABEL, formed
from mha_viz.paper import figures
from mha_viz.ui.many_texts import TEXTS, two_studies
from mha_viz.ui.many_texts.study_figure import show
from mha_viz.ui.state.views import CHANGES, ManyTexts
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.messages import words

_FORMING = {LABEL + "previous_token": "previous-token", "induction": "induction"}


def draw(study: Study, view: ManyTexts) -> None:
    """Draw the comparison with a second study, or the steps of a training run."""
    steps = training_steps(study)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if steps is not None:
            choosing.segments("change", "Change", CHANGES)
        if steps is not None and view.change == "training":
            choosing.menu("over", "Metric or label", _titles(steps), width=280)
            draw_below = partial(_training, study, view, steps)
        else:
            two_studies.controls(study, view)
            draw_below = partial(two_studies.draw, study, view)
    draw_below()


def _titles(steps: pd.DataFrame) -> dict[str, str]:
    titles = {key: metric.title for key, metric in METRICS.items()}
    titles |= {LABEL + key: f"Label: {label.title}" for key, label in LABELS.items()}
    return {key: title for key, title in titles.items() if key in set(steps["name"])}


def _training(study: Study, view: ManyTexts, steps: pd.DataFrame) -> None:
    """Draw one metric or label over the steps, and say which heads came first."""
    st.markdown(f"{_order(steps)} {TEXTS('training.run', steps=steps['step'].max())}")
    source = figures.source_line(study, "a run of its recipe")
    show(figures.over_steps(steps, view.over, source, view.chosen, study.layer_numbers), "steps")


def _order(steps: pd.DataFrame) -> str:
    """Say when the first head of each kind formed."""
    kinds = []
    for name, kind in _FORMING.items():
        if (first := formed(steps, name)) is None:
            kinds.append(f"{kind} head after the last step")
        else:
            head = words.head_name(first["layer"], first["head"])
            kinds.append(f"{kind} head by step {first['step']:,} ({head})")
    return f"**First {kinds[0]}, first {kinds[1]}.**"
