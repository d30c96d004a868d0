"""One client at a full public server: others find a place, and pages that are open stay."""

import contextlib

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect

from mha_viz.ui.server.websockets import WAITING_PER_ADDRESS
from tests.ui.serving import PATIENCE, OpenPage, served

PUBLIC = {"MHA_VIZ_PUBLIC": "1", "MHA_VIZ_MAX_SESSIONS": "4"}
OF_ONE = 2
OWN = {"MHA_VIZ_TRUSTED_PROXIES": "127.0.0.1", "MHA_VIZ_SESSIONS_PER_ADDRESS": str(OF_ONE)}
pytestmark = pytest.mark.slow


class VisitorPage(OpenPage):
    """A page whose visitor has an address of their own, as a proxy tells it."""

    def __init__(self, port: int, address: str) -> None:
        contextlib.ExitStack.__init__(self)
        stream = f"ws://127.0.0.1:{port}/_stcore/stream"
        headers = {"X-Forwarded-For": f"6.6.6.6, {address}"}
        protocols: list = ["streamlit"]
        page = connect(stream, subprotocols=protocols, additional_headers=headers, max_size=None)
        self.connection = self.enter_context(page)

    def notice(self) -> str:
        """Return the sentence that a page shows in place of its content; "" where it has some."""
        self.connection.send(b"\x5a\x00")  # run the script
        told, found = ForwardMsg(), ""
        while told.WhichOneof("type") != "script_finished":
            told.ParseFromString(self.connection.recv(timeout=PATIENCE))
            found = told.delta.new_element.alert.body or found
        return found


def test_one_address_gets_its_places_and_leaves_the_others_to_others(tmp_path) -> None:
    with served(tmp_path, **PUBLIC, **OWN) as (port, ask), contextlib.ExitStack() as pages:
        ask("from mha_viz.ui.run import places; places.OPENING = answer = 0.0")

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
