"""Open pages whose buttons can be clicked."""

import urllib.request
from collections.abc import Callable
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.ui.serving import PATIENCE, OpenPage


def is_bar(element: Any) -> bool:
    """Return whether a part of a page is a bar of progress: something is under way."""
    return element.HasField("progress")


class Visit(OpenPage):
    """An open page that is not waited for to its end."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._server = f"http://127.0.0.1:{port}"
        self._session = ""

    def go(self, page: str, query: str = "") -> None:
        """Go to this address; returns at once."""
        message = BackMsg()
        message.rerun_script.is_history_navigation = True
        self._address = page, query
        self._ask(message)

    def click(self, label: str) -> None:
        """Click the button of that label as soon as it is there; returns at once."""
        found = self.wait_for(lambda one: one.button.label == label).button
        self._choose(found.id, trigger_value=True)

    def unfold(self, label: str) -> None:
        """Open the menu of that label as soon as it is there; returns at once."""
        found = self._hear(lambda told: told.delta.add_block.popover.label == label)
        self._choose(found.delta.add_block.popover.id, bool_value=True)

    def download(self, label: str) -> bytes:
        """The file that the button of that label makes when it is clicked."""
        found = self.wait_for(lambda one: one.download_button.label == label).download_button
        # Streamlit deletes a file that was made before the end of two runs of the page.
        self._hear(lambda told: told.WhichOneof("type") == "script_finished")
        message = BackMsg()
        asked = message.backend_operation_request
        asked.request_id, asked.session_id = label, self._session
        asked.deferred_file.file_id = found.deferred_file_id
        self.connection.send(message.SerializeToString())
        answer = self._hear(lambda told: told.backend_operation_response.request_id == label)
        made = answer.backend_operation_response
        assert not made.error_msg, made.error_msg
        with urllib.request.urlopen(
            self._server + made.deferred_file.url, timeout=PATIENCE
        ) as file:
            content: bytes = file.read()
        return content

    def wait_for(self, looked_for: Callable[[Any], bool]) -> Any:
        """The next part of the page that is what is looked for."""
        return self._hear(lambda told: looked_for(told.delta.new_element)).delta.new_element

    def _hear(self, looked_for: Callable[[Any], bool]) -> Any:
        """The next message of the server that is what is looked for."""
        while True:
            told = ForwardMsg()
            told.ParseFromString(self.connection.recv(timeout=PATIENCE))
            self._session = told.new_session.initialize.session_id or self._session
            if looked_for(told):
                return told

    def _choose(self, widget: str, **value: Any) -> None:
        """Change the state of one widget."""
        message = BackMsg()
        message.rerun_script.widget_states.widgets.add(id=widget, **value)
        self._ask(message)

    def _ask(self, message: BackMsg) -> None:
        message.rerun_script.page_name, message.rerun_script.query_string = self._address
        self.connection.send(message.SerializeToString())
