"""A visitor without a browser: the messages that Streamlit's pages send and get, and nothing drawn.

Fifty browsers would measure themselves; fifty of these leave the processors to the server.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState

SENTENCE = "ask_text"  # the key of the box that the text is typed into
PAYLOAD = "bench-payload"  # of the element that brings all heads
PATIENCE = 600  # seconds for one run of a page
_BEGINS_ANEW = ForwardMsg.FINISHED_EARLY_FOR_RERUN
Path = tuple[int, ...]


class RawSession:
    """One open page: `run` types and clicks as a person would, and returns once it stands still."""

    def __init__(self, socket: Any, page: str, query: str) -> None:
        self._socket, self.page, self.query = socket, page, query
        self._sent: dict[str, ForwardMsg] = {}  # what the server may name instead of repeating
        self.elements: dict[Path, Any] = {}
        self._folded: set[str] = set()  # expanders and popovers
        self.name = ""  # of the session, as the server calls it
        self._shown = ""  # the page that the server has shown, by which a browser names it

    async def run(
        self,
        typed: dict[str, str] | None = None,
        click: str = "",
        unfold: str = "",
        until: Callable[[Any], bool] = lambda element: False,
        states: Iterable[WidgetState] = (),
    ) -> float:
        """Run the page once.

        Args:
            typed: texts by the keys of their boxes.
            click: the label of a button.
            unfold: the key of an expander or a popover that is open in this run.
            until: asked of each element that comes.
            states: of widgets of other kinds.

        Returns:
            Seconds to the first element that `until` holds for; nan where none came.
        """
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_name = self.query, self.page
        state.page_script_hash = self._shown
        state.widget_states.widgets.extend(states)
        for key, text in (typed or {}).items():
            widget = state.widget_states.widgets.add()
            widget.id, widget.string_value = self._boxes(key)[0], text
        if click:
            widget = state.widget_states.widgets.add()
            widget.id, widget.trigger_value = self._buttons(click)[0], True
        if unfold:
            widget = state.widget_states.widgets.add()
            widget.id = next(one for one in self._folded if one.endswith(f"-{unfold}"))
            widget.bool_value = True
        begin, found = time.perf_counter(), float("nan")
        await self._socket.send(message.SerializeToString())
        while True:
            received = await self._next()
            kind = received.WhichOneof("type")
            if kind == "delta" and received.delta.WhichOneof("type") == "new_element":
                element = received.delta.new_element
                self.elements[tuple(received.metadata.delta_path)] = element
                if found != found and until(element):
                    found = time.perf_counter() - begin
            elif kind == "delta" and received.delta.add_block.expandable.id:
                self._folded.add(received.delta.add_block.expandable.id)
            elif kind == "delta" and received.delta.add_block.popover.id:
                self._folded.add(received.delta.add_block.popover.id)
            elif kind == "navigation":
                self._shown = received.navigation.page_script_hash
            elif kind == "new_session":
                self.name = received.new_session.initialize.session_id
                self.elements, self._folded = {}, set()
            elif kind == "script_finished" and received.script_finished != _BEGINS_ANEW:
                return found

    async def enter(self, sentence: str) -> float:
        """Type a sentence and press Enter -> seconds to the bytes of all its heads."""
        before = self.payload()
        return await self.run(
            {SENTENCE: sentence},
            until=lambda element: _is_payload(element) and element.bidi_component.bytes != before,
        )

    def payload(self) -> bytes:
        """Return all heads as they lie in the page; b"" where it shows none."""
        found = [one for one in self.elements.values() if _is_payload(one)]
        return found[-1].bidi_component.bytes if found else b""

    def divergence(self) -> float:
        """Return the KL divergence that Prediction in detail names; NaN where it is folded."""
        named = re.search(r"KL divergence (\S+) nats", self.words())
        return float(named[1]) if named else math.nan

    def words(self) -> str:
        """Return all that the page says in paragraphs, warnings and errors."""
        said = [one.markdown.body for one in self.elements.values() if _is(one, "markdown")]
        said += [one.alert.body for one in self.elements.values() if _is(one, "alert")]
        return "\n".join(said)

    def broken(self) -> bool:
        """Return whether a traceback stands on the page."""
        return any(_is(one, "exception") for one in self.elements.values())

    async def _next(self) -> ForwardMsg:
        received = ForwardMsg()
        received.ParseFromString(await self._socket.recv())
        if received.WhichOneof("type") == "ref_hash":
            known, meant = self._sent[received.ref_hash], ForwardMsg()
            meant.CopyFrom(known)
            meant.metadata.CopyFrom(received.metadata)
            return meant
        if received.metadata.cacheable:
            self._sent[received.hash] = received
        return received

    def has_box(self, key: str) -> bool:
        """Return whether the page has a box for text of that key."""
        return bool(self._boxes(key))

    def has_button(self, label: str) -> bool:
        """Return whether the page has a button of that label that can be clicked."""
        return bool(self._buttons(label))

    def _boxes(self, key: str) -> list[str]:
        found = [one.text_input for one in self.elements.values() if _is(one, "text_input")]
        found += [one.text_area for one in self.elements.values() if _is(one, "text_area")]
        return [box.id for box in found if box.id.endswith(f"-{key}")]

    def _buttons(self, label: str) -> list[str]:
        found = [one.button for one in self.elements.values() if _is(one, "button")]
        return [one.id for one in found if one.label == label and not one.disabled]


def _is(element: Any, kind: str) -> bool:
    return bool(element.WhichOneof("type") == kind)


def _is_payload(element: Any) -> bool:
    return _is(element, "bidi_component") and element.bidi_component.id.endswith(PAYLOAD)


@asynccontextmanager
async def opened(
    url: str, page: str = "", query: str = "", headers: Mapping[str, str] | None = None
) -> AsyncIterator[RawSession]:
    """Open a page of the app at `url`, run it once, and leave it at the end.

    Args:
        url: of the app, with a slash at its end.
        page: its address, such as "why"; "" is the first.
        query: what stands behind the question mark.
        headers: of the request, beside the usual ones.
    """
    async with connected(url, headers) as connection:
        session = RawSession(connection, page, query)
        await session.run()
        yield session


def connected(url: str, headers: Mapping[str, str] | None = None) -> Any:
    """Return a websocket as pages of the app at `url` open it; to be entered."""
    host = urlsplit(url).netloc
    return websockets.connect(
        f"ws://{host}/_stcore/stream",
        subprotocols=["streamlit"],  # type: ignore[list-item]
        origin=f"http://{host}",  # type: ignore[arg-type]
        max_size=None,
        open_timeout=PATIENCE,
        ping_interval=None,  # a server with fifty visitors may answer late
        additional_headers=headers,
    )
