"""One client at a full public server: others find a place, and pages that are open stay."""

import ast
import contextlib
import shutil

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from mha_viz.ui.server.websockets import WAITING_PER_ADDRESS
from tests.strangers.raw import has_ended, opened
from tests.ui.serving import OpenPage, answer, served
from tests.waiting import wait_for

PUBLIC = {"MHA_VIZ_PUBLIC": "1", "MHA_VIZ_MAX_SESSIONS": "4"}
OF_ONE = 2
OWN = {"MHA_VIZ_TRUSTED_PROXIES": "127.0.0.1", "MHA_VIZ_SESSIONS_PER_ADDRESS": str(OF_ONE)}
pytestmark = pytest.mark.slow


class VisitorPage(OpenPage):
    """A page whose visitor has an address of their own, as a proxy tells it."""

    def __init__(self, port: int, address: str) -> None:
        super().__init__(port, X_Forwarded_For=f"6.6.6.6, {address}")

    def notice(self) -> str:
        """Return the sentence that a page shows in place of its content; "" where it has some."""
        message = BackMsg()
        message.rerun_script.SetInParent()
        alerts = [told.delta.new_element.alert.body for told in self.run(message)]
        return next(filter(None, reversed(alerts)), "")


def test_one_address_gets_its_places_and_leaves_the_others_to_others(tmp_path) -> None:
    with served(tmp_path, **PUBLIC, **OWN) as (port, ask), contextlib.ExitStack() as pages:
        ask("from mha_viz.ui.run import admission; admission.OPENING_SECONDS = answer = 0.0")

        def notice(address: str) -> str:
            page = pages.enter_context(VisitorPage(port, address))
            page.notice()
            return page.notice()  # a page that was used keeps its place

        assert [notice(f"2001:4860::{n}") for n in range(OF_ONE)] == [""] * OF_ONE
        for number in range(WAITING_PER_ADDRESS):  # of the same block
            assert "2 pages at once for one address" in notice(f"2001:4860::9:{number}")
        with pytest.raises(Exception, match="403"):
            VisitorPage(port, "2001:4860::8")
        assert notice("8.8.8.8") == notice("9.9.9.9") == ""
        assert "This server is full" in notice("8.8.4.4")


@pytest.mark.extended
def test_studies_whose_pages_were_left_leave_the_queue(tmp_path) -> None:
    text = "\n".join(
        f"The old dog slept while {n} young cats watched the birds." for n in range(2000)
    )
    give = (
        "from mha_viz.ui.run.studies import studies\n"
        "answer = studies().add_texts({!r}.encode(), '')"
    )
    count = (
        "from mha_viz.ui.jobs.heavy_queue import jobs; answer = sorted(jobs().figures().items())"
    )
    with served(tmp_path, **PUBLIC) as (port, ask):
        ask("from mha_viz.ui.run import memory; memory.RECONNECT_SECONDS = answer = 0.1")
        keys = [ask(give.format(f"{number}\n{text}")) for number in range(3)]

        def figures() -> dict[str, float]:
            return dict(ast.literal_eval(ask(count)))

        with contextlib.ExitStack() as pages:
            for key in keys:
                pages.enter_context(OpenPage(port)).show("many_texts", corpus=key)
            begun = figures()
        assert begun["running"] + begun["waiting"] == len(keys)
        wait_for(lambda: figures()["cancelled"] == len(keys), lambda: str(figures()))
        assert figures()["running"] == figures()["waiting"] == 0


@pytest.mark.extended
@pytest.mark.skipif(not shutil.which("prlimit"), reason="no prlimit on PATH")
def test_idle_connections_at_a_small_limit_leave_pages_open(tmp_path) -> None:
    small = served(tmp_path, "prlimit", "--nofile=600:600", **PUBLIC)
    with small as (port, _), OpenPage(port) as page:
        page.show()
        idle = [opened(port) for _ in range(600)]
        assert page.show("learn") == [] and page.show("glossary") == []
        assert b" 200 " in answer(port, f"127.0.0.1:{port}", path="/healthz")[:20]
        wait_for(lambda: any(has_ended(one) for one in idle), "the first to make room")
        for one in idle:
            one.close()
