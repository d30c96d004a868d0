"""Adapter for Streamlit's internals: the run of a page, its session, and its visitor.

Streamlit documents none of this. Whatever else the app needs of it is added here, so that a new
release of Streamlit can break one file only.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

import streamlit as st
from streamlit import runtime
from streamlit.runtime.app_session import AppSession, AppSessionState
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import (
    RerunData,
    RerunException,
    StopException,
    get_script_run_ctx,
)

from mha_viz.ui.operating import addresses
from mha_viz.web.browser import component_script

_DAY = 24 * 60 * 60  # seconds
_TURN = 0.01  # seconds between two looks at whether a run has been sent
Superseded = RerunException  # ends a run where a newer click supersedes it


def session_id() -> str | None:
    """Return the name of the session whose page is run in this thread; None where none is."""
    context = get_script_run_ctx(suppress_warning=True)
    return None if context is None else context.session_id


def visitor_address() -> str | None:
    """Return the address that the page which runs was opened from; None for one of many."""
    session = session_id()
    if session is None or not runtime.exists():
        return None
    client = runtime.get_instance().get_client(session)
    context = client.client_context if client is not None else None
    return addresses.counted((context and context.remote_ip) or "")


def page_hash() -> str:
    """Return Streamlit's name of the page that this run is of; "" where there is no server."""
    context = get_script_run_ctx(suppress_warning=True)
    return "" if context is None else context.page_script_hash


def is_history_navigation() -> bool:
    """Return whether the browser's Back or Forward caused this run."""
    context = get_script_run_ctx(suppress_warning=True)
    return context is not None and context.is_history_navigation


def raise_if_superseded() -> None:
    """End this run if a newer click has superseded it, or its page was left."""
    # Streamlit does so where its state is read. It does where something is drawn, too; but an
    # element takes a place, and all below would move.
    "view" in st.session_state  # noqa: B015


def end_run() -> NoReturn:
    """End this run of the page.

    `st.stop` lets nothing more be drawn, and a run that ends in a message has a mark still to draw.
    """
    raise StopException


def keep_queued_messages() -> None:
    """Have all that is queued for a page sent before what a fragment's run draws.

    Streamlit drops what is queued of that fragment, but keeps what is of fragments inside it. Where
    that overtakes a run of the whole page, the browser is told to draw in containers that it does
    not have: it fails there, and hears nothing more.
    """
    clear = ForwardMsgQueue.clear

    def clear_for_pages(
        queue: ForwardMsgQueue,
        retain_lifecycle_msgs: bool = False,
        fragment_ids_this_run: list[str] | None = None,
    ) -> None:
        nothing: list[str] | None = None if fragment_ids_this_run is None else []
        clear(queue, retain_lifecycle_msgs, nothing)

    ForwardMsgQueue.clear = clear_for_pages  # type: ignore[assignment, method-assign]


def finish_runs_first() -> None:
    """Have all that a run has drawn sent before the run of a fragment begins.

    A fragment that polls may ask for its run just as the thread of the page's run ends. Streamlit
    then begins a thread for it and drops what the first has drawn and nobody has taken yet: under
    load most of the page, which stays empty, as its fragments are told to poll no more.
    """
    create = AppSession._create_scriptrunner

    def create_in_turn(session: AppSession, request: RerunData) -> None:
        is_partial = bool(request.fragment_id or request.fragment_id_queue)
        if is_partial and session._scriptrunner is not None:
            session._event_loop.call_later(_TURN, again, session, request)
        else:
            create(session, request)

    def again(session: AppSession, request: RerunData) -> None:
        runner = session._scriptrunner  # another one by now, or none once all of it is sent
        if session._state == AppSessionState.SHUTDOWN_REQUESTED:
            return
        if runner is None or not runner.request_rerun(request):
            create_in_turn(session, request)

    AppSession._create_scriptrunner = create_in_turn  # type: ignore[method-assign, assignment]


def run_after_reconnection() -> None:
    """Have the browser ask for a run of this page when it has found a server again.

    Streamlit does so for a page with a fragment that polls. Any other one stays as it is drawn, and
    a server that was started anew does not hear its first click.
    """

    @st.fragment(run_every=_DAY)
    def poll() -> None:
        pass

    poll()


def is_partial() -> bool:
    """Return whether this run is of some fragments only, and not of the whole page."""
    context = get_script_run_ctx(suppress_warning=True)
    return context is not None and bool(context.fragment_ids_this_run)


def is_connected(session: str) -> bool:
    """Return whether a page of the session is open and connected."""
    return runtime.exists() and runtime.get_instance().is_active_session(session)


def drop_uploads(session: str, but: int) -> None:
    """Let go of the files that a session has sent, but for so many that came last."""
    files = runtime.get_instance().uploaded_file_mgr if runtime.exists() else None
    if isinstance(files, MemoryUploadedFileManager):
        uploads = list(files.file_storage.get(session, ()))
        for file_id in uploads[: max(0, len(uploads) - but)]:
            files.remove_file(session, file_id)


def is_kept(session: str) -> bool:
    """Return whether Streamlit still has the session, connected or not.

    Sessions never end where there is no server (a test of one page).
    """
    return not runtime.exists() or runtime.get_instance().get_app_session(session) is not None


def end_unless_connected(session: str) -> bool:
    """End a session whose page did not come back; return whether there was one to end.

    Streamlit keeps it until somebody else leaves.
    """
    if not runtime.exists() or runtime.get_instance().is_active_session(session):
        return False
    runtime.get_instance().close_session(session)
    return True


def serve(content: Callable[[], bytes], mime: str, name: str) -> str | None:
    """Serve a file until this page has run again and return its URL; None where there is no server.

    As a download it outlives the run that replaces it, while a page still shows what was there.
    """
    if not runtime.exists():
        return None
    files = runtime.get_instance().media_file_mgr
    return files.add(content(), mime, name, is_for_static_download=True)


def n_sessions() -> float:
    """Return the number of sessions with an open page."""
    if not runtime.exists():
        return 0.0
    name = "active_sessions"
    stats = runtime.get_instance().stats_mgr.get_stats([name]).get(name, ())
    return float(sum(getattr(stat, "value", 0) for stat in stats))


@cache
def script_component(name: str) -> Callable[..., Any]:
    """Return a component that is a script alone, made when it is first drawn.

    The server imports the modules of the pages before it can take components.
    """
    return st.components.v2.component(f"mha_viz.{name}", js=component_script(name))
