"""Limits of connections, with a clock of the test's own: which end, which stay, which make room."""

from types import SimpleNamespace

import pytest

from mha_viz.ui.server import connections
from mha_viz.ui.server.connections import MAX_FRAGMENTS, MAX_PENDING, SECONDS, Limits


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
