"""The five views of the page Many texts, of which one is drawn.

Importing it imports torch, plotly, pyarrow and duckdb, so the page does it late.
"""

from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.corpus.query.study import Study
from mha_viz.ui.many_texts import (
    all_heads,
    atlas,
    change,
    find,
    fitting,
    grammar,
    one_head,
    summary,
    texts,
    two_studies,
)
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.state import selection
from mha_viz.ui.state.views import TABS, ManyTexts
from mha_viz.ui.widgets.controls import choosing, lazy_sections
from mha_viz.ui.widgets.messages.notices import stop_on_error

_VIEWS = {
    "heads": all_heads.draw,
    "one": one_head.draw,
    "grammar": grammar.draw,
    "find": find.draw,
    "change": change.draw,
}


def draw(choice_of_texts: DeltaGenerator) -> None:
    """Draw the study of the chosen texts, or its progress."""
    with choice_of_texts:
        view = texts.choose(selection.of(ManyTexts))
    two_studies.fit(view)
    study = texts.study_of(view, "study")
    if study is not None:
        selection.number_layers(study.layer_numbers)
        summary.draw(study, view)
        _views(study)


@fragment
def _views(study: Study) -> None:
    """Draw the chosen view in a fragment: a click reruns nothing else on the page."""
    with stop_on_error():
        view = fitting.fit(study, selection.of(ManyTexts))
        with st.container(horizontal=True, vertical_alignment="center", key="tabs"):
            choosing.segments("tab", "View", TABS, label_visibility="collapsed")
            options: dict[str, Any] = {"width": 85, "label_visibility": "collapsed"}
            choosing.menu("layer", "Layer", choosing.layers(study.n_layers), **options)
            choosing.menu("head", "Head", choosing.numbered("H", study.n_heads), **options)
            menu = partial(atlas.draw, study, view)
            lazy_sections.in_popover("Atlas", ":material/public:", "atlas", menu)
        _VIEWS[view.tab](study, view)
        selection.push_url()
