"""Changes that the app makes in Streamlit."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.scriptrunner import RerunData
from streamlit.testing.v1 import AppTest

from mha_viz import extras
from mha_viz.ui.operating import descriptors, malloc_trim, memory_limit, streamlit_run
from mha_viz.ui.server import lifecycle

PAGE = ((0,), (0, 0), (0, 0, 0)), ("", "outer", "inner")  # places, and fragments that draw there


def _block(place: tuple[int, ...], fragment: str) -> ForwardMsg:
    message = ForwardMsg()
    message.delta.add_block.allow_empty = True
    message.delta.fragment_id = fragment
    message.metadata.delta_path[:] = place
    return message


def _queued(fragments: list[str] | None) -> list[tuple[int, ...]]:
    """Places that a browser is told of after a run of these fragments overtakes the page's."""
    queue = ForwardMsgQueue()
    for place, fragment in zip(*PAGE, strict=True):
        queue.enqueue(_block(place, fragment))
    queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=fragments)
    queue.enqueue(_block((0, 0), "outer"))
    return [tuple(message.metadata.delta_path) for message in queue.flush()]


def test_a_fragment_that_overtakes_the_page_leaves_no_place_without_its_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Put back as it was after the test; and this process keeps its own limits.
    monkeypatch.setattr(ForwardMsgQueue, "clear", ForwardMsgQueue.clear)
    monkeypatch.setattr(AppSession, "_create_scriptrunner", AppSession._create_scriptrunner)
    monkeypatch.setattr(descriptors, "raise_limit", lambda: None)
    monkeypatch.setattr(malloc_trim, "share_arenas", lambda: None)
    monkeypatch.setattr(memory_limit, "keep", lambda let_go: None)
    assert _queued(["outer"]) == [(0,), (0, 0, 0), (0, 0)]  # what Streamlit does by itself
    lifecycle.begin()
    assert _queued(["outer"]) == [*PAGE[0], (0, 0)]
    assert _queued(None) == [(0, 0)]  # a run of the whole page draws all anew


def test_a_cluster_without_ray_ends_the_start_with_what_to_install(
    operated: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "_is_installed", lambda module: module != "ray")
    operated(cluster="auto")
    with pytest.raises(SystemExit) as ended:
        lifecycle.begin()
    assert "cluster = auto" in str(ended.value) and "mha-viz[cluster]" in str(ended.value)


@pytest.mark.parametrize("fragment", ["polling", None])
def test_a_fragment_waits_for_what_the_run_before_it_has_drawn(
    fragment: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begin the fragment while the last messages of the run before stand in the server's queue."""
    done: list[object] = []
    monkeypatch.setattr(AppSession, "_create_scriptrunner", lambda session, data: done.append(data))
    streamlit_run.finish_runs_first()
    loop, ended = asyncio.new_event_loop(), SimpleNamespace(request_rerun=lambda data: False)
    session = SimpleNamespace(_scriptrunner=ended, _event_loop=loop, _state=None)

    def last_message() -> None:
        done.append("drawn")
        session._scriptrunner = None

    request = RerunData(fragment_id=fragment)
    loop.call_soon(AppSession._create_scriptrunner, session, request)
    loop.call_soon(last_message)
    loop.call_later(0.1, loop.stop)
    with ThreadPoolExecutor(1) as thread:  # a browser of other tests may have a loop in this one
        thread.submit(loop.run_forever).result()
    loop.close()
    # A run of the whole page draws all anew, and need not wait.
    assert done == (["drawn", request] if fragment else [request, "drawn"])


@pytest.mark.parametrize(
    ("server", "active", "expected"),
    [(True, ["mine"], True), (True, ["other"], False), (False, ["mine"], False)],
)
def test_is_connected_is_true_of_an_active_session_of_a_server(
    server: bool, active: list[str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = SimpleNamespace(is_active_session=active.__contains__)
    runtime = SimpleNamespace(exists=lambda: server, get_instance=lambda: instance)
    monkeypatch.setattr(streamlit_run, "runtime", runtime)
    assert streamlit_run.is_connected("mine") is expected


def _page() -> None:
    import streamlit as st

    from mha_viz.ui.operating.streamlit_run import end_run
    from mha_viz.ui.run.ready import fragment, run_mark

    with run_mark():
        if st.button("again"):
            st.rerun()
        fragment(lambda: st.text("part"))()
        if st.button("stop"):
            end_run()
        if st.button("fail"):
            raise ValueError("a fault")


@pytest.mark.parametrize("button", [None, "stop", "fail", "again"])
def test_run_mark_whole_run_is_counted_once(button: str | None) -> None:
    page = AppTest.from_function(_page).run()
    assert page.session_state.session.runs == 1
    if button is not None:
        next(each for each in page.button if each.label == button).click()
    page.run()
    assert page.session_state.session.runs == 2
