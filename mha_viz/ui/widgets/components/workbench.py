"""The workbench in Streamlit: the grid of all heads, and the chosen head beside it.

Both are drawn, and every choice is made, in the browser (workbench.js); Python hears of choices
afterwards and keeps them in the page's view.
"""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from mha_viz.errors import ArgumentError
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.links import validate_choices
from mha_viz.ui.state.session import from_browser, session
from mha_viz.ui.state.views import Choice
from mha_viz.ui.widgets.components.component import LateComponent, carry, event_of
from mha_viz.web.browser import component_script
from mha_viz.web.payload import unpack

LEADS_TO = ("compare", "many_texts", "why")  # pages that it has buttons for

_bench = LateComponent("workbench")
_requests = st.components.v2.component(
    "mha_viz.exact_requests", js=component_script("exact_requests")
)


def workbench(
    payload: bytes,
    settings: Mapping[str, Any],
    *,
    key: str,
    take: Callable[[dict[str, Choice]], None],
) -> None:
    """Draw the workbench: all heads, and the chosen one beside them.

    It brings the payload and the script. `settings` are the view, and the titles of what its menus
    offer; with "guide" it has the tour, and hears keys of the whole page. `take` is called with
    choices before the run that they cause.
    """
    data = {"name": key, "heard": session().heard.get(key), **settings}
    try:
        data["payload"] = unpack(payload)[0]["id"]
    except (ArgumentError, KeyError) as error:
        data["error"] = f"This picture cannot be drawn: {error}"

    @guarded
    def on_event() -> None:
        sent = event_of(from_browser(f"{key}-heads"), "view")
        if not sent:
            return
        if sent.get("leave") in LEADS_TO:
            session().leads_to = sent["leave"]
        if sent.get("random") is True:
            session().wants_random = True
        if isinstance(sent.get("id"), str):
            session().heard[key] = sent["id"][:40]
        take(validate_choices(sent.get("view")))

    with st.container(gap=None):
        _bench(key=f"{key}-heads", data=data, on_view_change=on_event)
        _bench.bring(f"{key}-script")
        carry(payload, key=f"{key}-payload")


def exact_requests(*, key: str, take: Callable[[dict[str, Choice]], None]) -> None:
    """Let the workbench ask the fragment in which this stands for exact weights of what is shown.

    A fragment that draws nothing else answers sooner than the workbench's own. `take` is called
    with the choices that say what is shown, before the run that they cause.
    """

    @guarded
    def on_event() -> None:
        take(validate_choices(event_of(from_browser(key), "view").get("view")))

    _requests(key=key, on_view_change=on_event)
