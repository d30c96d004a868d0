"""The beginning of every page: pick a model and a text, and run the text through the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from mha_viz.ui.run import late_imports
from mha_viz.ui.state import allowed, selection
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import DEFAULT, HeadsView
from mha_viz.ui.widgets.controls import fetching, model_menus, sentence_bar
from mha_viz.ui.widgets.messages import notices

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel
    from mha_viz.ui.run.scene import Scene


_WARNINGS = 6  # that a page mostly has at most


def picked(
    fit: Callable[[Scene], None] | None = None, is_typed: Callable[[], bool] = lambda: True
) -> Scene:
    """Draw the bar at a page's top and run the text, as `bar_and_scene` does."""
    return bar_and_scene(fit, is_typed)[1]


def bar_and_scene(
    fit: Callable[[Scene], None] | None = None, is_typed: Callable[[], bool] = lambda: True
) -> tuple[sentence_bar.Bar, Scene]:
    """Draw the bar at a page's top and run the text through the model; end the run on errors.

    `fit` brings the rest of the view back to what there is, before the page says what there is not.
    Where `is_typed` says no, once the view is known, the page brings its own texts: nothing is
    typed, and the scene is of the first sentence that anybody sees.

    Parts that come and go have containers of their own, so that what follows is at the same place
    in every run: if Streamlit looks for a fragment elsewhere, the whole page stays blank.
    """
    session().shown_problems = []
    selection.sync_from_url()
    has_sentence = is_typed()
    bar = sentence_bar.bar(text=has_sentence)
    more, fault, warnings = st.container(), st.empty(), st.container()
    work = st.container(key="work")  # page.css: in no room, but where a run was stopped
    with more:
        model_menus.other_model()
        fetching.draw()
    with notices.stop_on_error(fault), work:
        allowed.check_text(selection.current().source)
        late_imports.await_torch()
        from mha_viz.ui.heads import drawing, tokenization
        from mha_viz.ui.run.scene import compute, fit_head

        view = selection.current()
        model = drawing.known_model(view)
        if has_sentence:
            with bar.second_row:
                sentence_bar.part_picker(model.parts)
            sentence_bar.second_text(bar, model.parts, model.accepts_pair)
            view = selection.current()
        else:
            view = replace(view, text=DEFAULT.text, pair="", part=model.parts[0])
        with bar.model_facts:
            drawing.model_facts(model, view.dtype)
        scene = compute(view)
        notices.clear_next(2)  # how far a run was that was given up, and its button
        fit_head(scene, selection.of(HeadsView))
        if fit is not None and has_sentence:
            fit(scene)
    with warnings:
        drawing.model_notes(model)
        tokenization.text_notes(scene.record)
        session().shown_problems = notices.problems()
        notices.clear_next(_WARNINGS)
    return bar, scene


def bar_and_model() -> tuple[sentence_bar.Bar, AttentionModel]:
    """Draw the bar of a page that brings its own texts, and load the model."""
    session().shown_problems = []
    bar = sentence_bar.bar(text=False)
    more, warnings = st.container(), st.container()
    with more:
        model_menus.other_model()
        fetching.draw()
    late_imports.await_transformers()
    from mha_viz.ui.heads import drawing

    view = selection.current()
    model = drawing.load_model(view)
    with bar.model_facts:
        drawing.model_facts(drawing.known_model(view), view.dtype)
    with warnings:
        drawing.model_notes(model)
        session().shown_problems = notices.problems()
        notices.clear_next(_WARNINGS)
    return bar, model
