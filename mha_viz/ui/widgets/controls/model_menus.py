"""Menus of models: those of this machine, those to fetch, and the second one to compare with."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import streamlit as st

from mha_viz.checkpoints.catalog import ModelInfo, SuggestedModel, find_model
from mha_viz.checkpoints.hub_cache import is_hub_id
from mha_viz.core.amounts import of_bytes
from mha_viz.errors import MhaVizError
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.state import allowed, selection, views
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser, session
from mha_viz.ui.widgets.controls import choosing, fetching
from mha_viz.ui.widgets.messages.notices import plain

OTHER = "Another model …"


def model_picker() -> None:
    """Draw the menu of models: those of this machine, and those fetched on demand.

    A name typed under `OTHER` is looked up before it is accepted.
    """
    fetching.use_downloaded()
    models = {info.name: info for info in allowed.models()}
    view = selection.current()
    linked = [view.model] if view.model in selection.folders() else []
    if session().typed_models is None:
        session().typed_models = linked
    typed = session().typed_models or []
    present = [*models, *(name for name in typed if name not in models)]
    absent = {model.name: model for model in allowed.absent(models)}
    if view.model not in present:
        view = _not_here(view.model, present[0], absent)
    to_fetch = fetching.selected()
    offered = dict.fromkeys((*_other(), *present, *absent, *([to_fetch] if to_fetch else [])))
    titles = {name: _describe(name, models.get(name), absent.get(name)) for name in offered}

    @guarded
    def choose() -> None:
        session().problems = []
        chosen = from_browser("ask_model")
        if chosen in present:
            view = selection.change(model=chosen, query=-1, key=-1)
            if view.chosen == session().auto_head:  # nobody has chosen it
                selection.change(layer=-1, head=-1)
        session().names_model = chosen == OTHER
        fetching.select("" if chosen in (*present, OTHER) else chosen)

    shown = OTHER if session().names_model else to_fetch or view.model
    selection.show("ask_model", shown, tuple(titles.values()))
    options: dict[str, Any] = {"format_func": titles.__getitem__, "label_visibility": "collapsed"}
    st.selectbox("Model", list(titles), key="ask_model", on_change=choose, **options)


def _not_here(name: str, instead: str, absent: Mapping[str, SuggestedModel]) -> views.Shared:
    """Write that a link's model is not here and how to get it; show another one."""
    if not allowed.may_be_named(name):
        selection.add_problem(f"{allowed.not_shown(name)} Showing {instead}.")
        return selection.change(model=instead)
    how = f"type its name under “{OTHER}” to fetch it"
    if name in absent:
        fetching.select(name)
        how = "a click on Download fetches it"
    selection.add_problem(
        f"The model {name!r} that the link names is not on this machine. Showing {instead}; {how}."
    )
    return selection.change(model=instead)


def other_model() -> None:
    """Draw the box for the name of any BERT, GPT-2, Llama, T5 … in a folder or on the Hub.

    It is one place on the page, empty or not. A message of the run before would otherwise stay
    above what is being loaded until the whole page has been drawn.
    """
    slot = st.empty()
    if session().names_model and _other():
        with slot.container():
            _name_box()


def _name_box() -> None:
    @guarded
    def take() -> None:
        name = from_browser("ask_other").strip()
        session().refused = ""
        if not name:
            return
        try:
            find_model(name, download=False)
        except MhaVizError as error:
            if not is_hub_id(name):
                session().refused = str(error)
                return
            fetching.fetch(name)
        else:
            session().typed_models = [*(session().typed_models or ()), name]
            selection.folders().add(name)
            selection.change(model=name, query=-1, key=-1)
        session().names_model = False

    options: dict[str, Any] = {"placeholder": "/path/to/model  or  owner/name", "max_chars": 4096}
    st.text_input("Folder or Hub id", key="ask_other", on_change=take, **options)
    if session().refused:
        st.error(plain(session().refused))


def _other() -> tuple[str, ...]:
    """Return the entry for typing a model's name, which a public server does not have."""
    return () if settings().public else (OTHER,)


def _describe(name: str, info: ModelInfo | None, absent: SuggestedModel | None = None) -> str:
    if absent is not None:
        size = f"{of_bytes(absent.n_bytes)} " if absent.n_bytes else ""
        return f"{name.rpartition('/')[2]} · {size}to fetch"
    if info is None or not info.family:
        return name
    return f"{name} · {info.family} {info.n_layers}×{info.n_heads}"


def other_models() -> list[str]:
    """Return the models to compare with; "" is the model itself, the last its untrained copy."""
    typed, other = session().typed_models or (), selection.of(views.Compare).model_b
    linked = [other] if other in selection.folders() else []
    names = dict.fromkeys((*(info.name for info in allowed.models()), *typed, *linked))
    return ["", *names, views.UNTRAINED_COPY]


def other_model_menu(names: Sequence[str], **options: Unpack[choosing.Look]) -> None:
    """Draw the menu of a second model; "" is the model itself."""
    titles = {name: title for name, title in model_titles().items() if name in names}
    options["also"] = _same_head
    choosing.menu("model_b", "Other model", titles, **options)


def model_titles() -> dict[str, str]:
    """Return the models to compare with, and what menus call them; "" is the model itself."""
    models = {info.name: info for info in allowed.models()}
    fixed = {"": "The same", views.UNTRAINED_COPY: "The same with random weights"}
    return {name: fixed.get(name) or _describe(name, models.get(name)) for name in other_models()}


def _same_head() -> None:
    """Choose the head with the same number, through which another text or model is seen first."""
    view = selection.current()
    selection.change(layer_b=view.layer, head_b=view.head)
