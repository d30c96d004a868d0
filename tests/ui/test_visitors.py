"""Memory of a visitor's page on the server, which goes when the visitor does."""

import pytest

from tests.ui.serving import OpenPage, served
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

TEXT = "the cat sat on the mat because it was warm"
# Bytes of what records are made of, views of them included: four axes. The models themselves keep
# a product of 32 x 32 for each of their heads.
HELD = """
import gc, torch
seen = {}
for thing in gc.get_objects():
    if isinstance(thing, torch.Tensor) and thing.ndim == 4 and thing.shape[2:] != (32, 32):
        seen[thing.untyped_storage().data_ptr()] = thing.untyped_storage().nbytes()
answer = sum(seen.values())
"""
LET_GO = """
from mha_viz.ui.run import memory
cache = memory.cache()
cache.max_bytes, max_bytes = 0, cache.max_bytes
cache.leave(memory.Visitor())
cache.max_bytes = max_bytes
answer = len(cache)
"""
# What stands in for the first model goes when the libraries behind the page are there.
ALL_IMPORTED = "from mha_viz.ui.run.late_imports import late_imports; answer = late_imports().done"
# Streamlit's loop remembers the last session that it served, until the next one; it is shut down.
SESSIONS = """
import gc
from streamlit.runtime.app_session import AppSession
sessions = [thing for thing in gc.get_objects() if isinstance(thing, AppSession)]
answer = sum(session._state.name != "SHUTDOWN_REQUESTED" for session in sessions)
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """A server on which who has left can come back for one second, not for fifteen."""
    with served(tmp_path_factory.mktemp("server")) as (port, ask):
        ask("from mha_viz.ui.run import memory; answer = memory.RECONNECT_SECONDS = 1")
        yield port, ask


@pytest.fixture
def server(started):
    """The same, when whoever was there has left."""
    _, ask = started
    wait_for(lambda: ask(SESSIONS) == "0", "the end of all sessions")
    assert ask(LET_GO) == "0"
    wait_for(lambda: ask(HELD) == "0", "records to be let go")
    return started


def test_what_a_visitor_looked_at_goes_when_he_leaves(server):
    port, ask = server
    with OpenPage(port) as first:
        assert first.show(text=TEXT) == []
        ask("from mha_viz.ui.run import memory; answer = memory.cache().max_unseen = 0")
        wait_for(lambda: ask(ALL_IMPORTED) == "True", "torch and transformers")
        held = int(ask(HELD))
        with OpenPage(port) as second:
            assert second.show(text=TEXT) == []
            assert int(ask(HELD)) == held > 0  # the same text is there once
            assert second.show(text=TEXT + " and the dog") == []
            assert int(ask(HELD)) > held
        wait_for(lambda: int(ask(HELD)) == held, f"{held} records")
    wait_for(lambda: ask(HELD) == "0", "records to be let go")
    wait_for(lambda: ask(SESSIONS) == "0", "the end of all sessions")
