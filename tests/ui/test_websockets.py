"""The limits of websockets and connections, with a clock of the test's own."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from mha_viz.ui.run.admission import OPENING_SECONDS
from mha_viz.ui.server import connections, messages, websockets
from mha_viz.ui.server.connections import MAX_FRAGMENTS, MAX_PENDING, SECONDS, Limits
from mha_viz.ui.server.messages import ForeignMessageError, TokenBucket, is_expected
from mha_viz.ui.server.websockets import SILENT, WAITING_PER_ADDRESS, Websockets
from tests.waiting import run_apart


class House:
    """A server whose pages are open until they are closed."""

    def __init__(self) -> None:
        self.now, self.closed = 0.0, []
        self.inside: dict[str, asyncio.Queue] = {}
        self.server = Websockets(self._page, lambda: self.now)

    async def _page(self, scope, receive, send) -> None:
        while (await receive())["type"] != "end":
            pass

    async def come(self, name: str, address: str = "127.0.0.1") -> bool:
        """Tell whether it is let in, and not closed at once."""
        self.now += 0.1
        heard: asyncio.Queue = asyncio.Queue()

        async def send(message) -> None:
            self.closed.append((name, message["type"]))
            heard.put_nowait({"type": "end"})

        scope = {"type": "websocket", "headers": [], "client": (address, 1)}
        self.inside[name] = heard
        task = asyncio.create_task(self.server(scope, heard.get, send))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return not task.done()

    async def act(self, name: str) -> None:
        self.inside[name].put_nowait({"type": "websocket.receive"})
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def test_call_on_a_full_server_closes_the_oldest_page_that_nobody_used(operated, monkeypatch):
    monkeypatch.setattr(websockets, "WAITING", 1)
    operated(max_sessions=2)

    async def story(house: House) -> None:
        assert [await house.come(name) for name in "abcd"] == [True, True, True, False]
        house.now = OPENING_SECONDS + 1
        await house.act("a")
        house.now = SILENT + 1
        assert await house.come("e")
        assert house.closed == [("d", "websocket.close"), ("b", "websocket.close")]

    run_apart(story(House()))


def test_call_beyond_the_pages_of_one_address_is_refused(operated):
    operated(sessions_per_address=1)

    async def story(house: House) -> None:
        most = 1 + WAITING_PER_ADDRESS
        found = [await house.come(str(n), f"2001:4860::{n}") for n in range(most + 1)]
        assert found == [True] * most + [False]
        assert await house.come("other", "8.8.8.8")
        assert all([await house.come(f"here {n}") for n in range(9)])

    run_apart(story(House()))


def sent(change: Callable[[BackMsg], object]) -> bytes:
    message = BackMsg()
    change(message)
    return message.SerializeToString()


def widgets(message: BackMsg, n: int = 1) -> list:
    return [message.rerun_script.widget_states.widgets.add(id="a") for _ in range(n)]


def test_messages_of_a_page_are_expected_and_those_of_no_page_are_not() -> None:
    def of_a_page(message: BackMsg) -> None:
        for widget in widgets(message, 60):
            widget.string_value = "x" * 4_000
        widgets(message)[0].double_array_value.data.extend([1.0, 2.0])
        message.rerun_script.widget_states.widgets.add().file_uploader_state_value.SetInParent()

    assert is_expected(sent(of_a_page)) and is_expected(b"")
    for kind in ("stop_script", "app_heartbeat"):
        assert is_expected(sent(lambda message, kind=kind: setattr(message, kind, True)))
    for kind in ("clear_cache", "load_git_info", "set_run_on_save", "debug_shutdown_runtime"):
        assert not is_expected(sent(lambda message, kind=kind: setattr(message, kind, True)))


MOST = messages.MAX_ELEMENTS
WRONG = {
    "names": lambda message: [
        widgets(message)[0].file_uploader_state_value.uploaded_file_info.add() for _ in range(MOST)
    ],
    "states": lambda message: widgets(message, MOST),
    "doubles": lambda message: widgets(message)[0].double_array_value.data.extend([1.0] * MOST),
    "numbers": lambda message: widgets(message)[0].int_array_value.data.extend([1] * MOST),
    "strings": lambda message: widgets(message)[0].string_array_value.data.extend([""] * MOST),
    "hashes": lambda message: message.rerun_script.cached_message_hashes.extend([""] * MOST),
    "a table": lambda message: setattr(widgets(message)[0].arrow_value, "data", b"a"),
    "a chat": lambda message: setattr(widgets(message)[0].chat_input_value, "data", "a"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_message_that_holds_more_or_other_things_than_a_page_is_foreign(what: str) -> None:
    with pytest.raises(ForeignMessageError):
        is_expected(sent(WRONG[what]))


@pytest.mark.parametrize("data", [b"\x0b", b"\xff" * 11, b"\x5a\x05a", b"\x5a", b"\x09abc"])
def test_bytes_that_are_no_message_are_foreign(data: bytes) -> None:
    with pytest.raises(ForeignMessageError):
        is_expected(data)


def test_a_supply_is_used_up_and_grows_again() -> None:
    now = [0.0]
    supply = TokenBucket(2.0, 3.0, lambda: now[0])
    assert [supply.take() for _ in range(5)] == [0, 0, 0, 0.5, 1.0]
    now[0] = 1.5
    assert supply.take() == 0  # 3 more, of which 2 were owed
    now[0] = 100.0
    assert [supply.take() for _ in range(4)] == [0, 0, 0, 0.5]


def test_a_flood_waits_a_page_and_an_address_at_a_time(operated, monkeypatch) -> None:
    operated(public=True)
    monkeypatch.setattr(messages, "PAGE", (10.0, 2.0))
    monkeypatch.setattr(messages, "ADDRESS", (10.0, 3.0))

    async def story(house: House) -> None:
        for name, address in (("a", "8.8.8.8"), ("b", "8.8.8.8"), ("c", "9.9.9.9")):
            await house.come(name, address)
        house.now = 0.0
        pages = {page.address: page for page in house.server._open}
        first, other = pages["8.8.8.8"], pages["9.9.9.9"]
        for page in house.server._open:
            page.supply._since = 0.0
        assert [house.server._wait(first) for _ in range(3)] == pytest.approx([0, 0, 0.1])
        second = next(page for page in house.server._open if page not in (first, other))
        assert house.server._wait(second) == pytest.approx(0.1)  # its own supply is untouched
        assert house.server._wait(other) == 0

    run_apart(story(House()))


@pytest.mark.parametrize("public", [True, False])
def test_a_foreign_message_closes_its_page_on_a_public_server_only(operated, public: bool) -> None:
    operated(public=public)

    async def story(house: House) -> None:
        await house.come("a")
        house.inside["a"].put_nowait({"type": "websocket.receive", "bytes": b"\x0b"})
        await asyncio.sleep(0.01)
        assert house.closed == [("a", "websocket.close")] * public

    run_apart(story(House()))


class Transport:
    def __init__(self) -> None:
        self.unread, self.closing, self.aborted = 0, False, False

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.aborted = self.closing = True


class Part(SimpleNamespace):
    """Something with attributes that equals only itself, as the parts of a server do."""

    __eq__, __hash__ = object.__eq__, object.__hash__


def http(**cycle) -> Part:
    """A connection of HTTP, with a request under way where its state is given."""
    state = {"response_complete": False, "more_body": False} | cycle
    return Part(transport=Transport(), cycle=Part(**state) if cycle else None)


def websocket(frames=(), rest=b"", complete=True) -> Part:
    reader = Part(buffer=rest)
    return Part(
        transport=Transport(),
        handshake_complete=complete,
        frames=list(frames),
        conn=Part(reader=reader),
    )


class Server:
    def __init__(self, *connections: Part, most: int = 1_000) -> None:
        self.now = 0.0
        self.open = set(connections)
        self.limits = Limits(self.open, most, lambda: self.now)

    def after(self, seconds: float) -> None:
        self.limits.look()
        self.now += seconds
        self.limits.look()


@pytest.mark.parametrize(
    ("connection", "kind"),
    [
        (http(), connections.REQUEST),
        (http(response_complete=True), connections.REQUEST),
        (http(more_body=True), connections.BODY),
        (websocket(complete=False), connections.REQUEST),
        (websocket([b"part"]), connections.MESSAGE),
        (websocket([b""]), connections.MESSAGE),
        (websocket(rest=b"\x82"), connections.MESSAGE),
    ],
)
def test_look_at_what_is_unfinished_ends_it_after_its_seconds(connection, kind):
    server = Server(connection)
    server.after(SECONDS[kind] - 1)
    assert not connection.transport.aborted
    server.after(2)
    assert connection.transport.aborted


@pytest.mark.parametrize("connection", [websocket(), http(more_body=False)])
def test_look_at_a_silent_page_or_a_long_answer_leaves_it(connection):
    Server(connection).after(10_000)
    assert not connection.transport.aborted


def test_look_at_another_request_of_the_same_connection_begins_anew():
    connection = http(response_complete=True)
    server = Server(connection)
    server.after(SECONDS[connections.REQUEST] - 1)
    connection.cycle = Part(response_complete=True, more_body=False)
    server.after(SECONDS[connections.REQUEST] - 1)
    assert not connection.transport.aborted


def test_look_at_an_answer_that_nobody_reads_ends_it():
    unread, closed = http(more_body=False), websocket()
    unread.transport.unread, closed.transport.closing = 1, True
    server = Server(unread, closed)
    server.after(SECONDS[connections.CLOSE] + 1)
    assert closed.transport.aborted and not unread.transport.aborted
    server.after(SECONDS[connections.ANSWER] + 1)
    assert unread.transport.aborted


def test_look_at_too_many_fragments_or_unread_bytes_ends_at_once(monkeypatch):
    fragments, unread, little = websocket([b""] * (MAX_FRAGMENTS + 1)), websocket(), websocket()
    unread.transport.unread, little.transport.unread = 10**9, MAX_PENDING + 1
    server = Server(fragments, unread, little)
    server.after(0)
    ended = [each.transport.aborted for each in (fragments, unread, little)]
    assert ended == [True, True, False]
    monkeypatch.setattr(connections.memory_limit, "is_over", lambda: True)
    server.after(0)
    assert little.transport.aborted


def test_enter_one_too_many_ends_the_one_that_is_waited_for_longest():
    busy, silent, body, unread = http(more_body=False), http(), http(more_body=True), http()
    unread.cycle, unread.transport.unread = busy.cycle, 1
    server = Server(most=4)
    for each in (busy, silent, body, unread):
        server.open.add(each)
        server.limits.enter(each)
        server.limits.look()
    ended = []
    for _ in range(4):
        new = http()
        server.open.add(new)
        server.limits.enter(new)
        ended.append([each.transport.aborted for each in (busy, silent, body, unread)])
    assert ended == [
        [False, True, False, False],
        [False, True, True, False],
        [False, True, True, True],
        [False, True, True, True],
    ]


def test_enter_leaves_a_websocket_that_has_just_been_upgraded():
    request, page = http(), websocket()
    page.transport = request.transport
    server = Server(most=1)
    server.open.add(request)
    server.limits.enter(request)
    server.open.remove(request)
    server.open |= {page, new := http()}
    server.limits.enter(new)
    assert not page.transport.aborted and new.transport.aborted
