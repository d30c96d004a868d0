"""Bytes below the level of pages: a public server ends what is too large, too slow or too much."""

import contextlib
import socket
from collections.abc import Callable, Iterator

import pytest

from mha_viz.ui.server.connections import MAX_FRAGMENTS, MAX_MESSAGE, SECONDS
from tests.strangers.raw import BINARY, REST, frame, has_ended, opened, websocket
from tests.ui.serving import OpenPage, served
from tests.waiting import wait_for

Server = tuple[int, Callable[[str], str]]
MB = 10**6
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("public"), MHA_VIZ_PUBLIC="1") as (port, ask):
        with OpenPage(port) as page:  # so that all is loaded
            page.show()
        yield port, ask


@pytest.fixture
def hurried(server: Server) -> Iterator[Server]:
    """A server that waits for one second, whatever it waits for."""
    _, ask = server
    change = "from mha_viz.ui.server.connections import SECONDS; SECONDS.update({}); answer = 1"
    ask(change.format(dict.fromkeys(SECONDS, 1.0)))
    yield server
    ask(change.format(SECONDS))


def memory(ask: Callable[[str], str]) -> int:
    return int(
        ask("from mha_viz.ui.operating import memory_limit; answer = memory_limit.used_bytes()")
    )


def send(connection: socket.socket, *parts: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # it is closed in the middle
        for part in parts:
            connection.sendall(part)


def wait_until_ended(connections: list[socket.socket]) -> None:
    for connection in connections:
        wait_for(lambda one=connection: has_ended(one), "the end of the connection", 60)
        connection.close()


def test_message_above_the_limit_ends_its_websocket_and_takes_no_memory(server: Server) -> None:
    port, ask = server
    before = memory(ask)
    connections = [websocket(port)[0] for _ in range(4)]
    for connection in connections:
        send(connection, frame(bytes(50 * MB)))
    assert memory(ask) - before < 40 * MB
    wait_until_ended(connections)


def test_unfinished_messages_are_small_and_end(hurried: Server) -> None:
    port, ask = hurried
    before = memory(ask)
    connections = [websocket(port)[0] for _ in range(6)]
    part = bytes(MAX_MESSAGE // 2 - 10)
    for connection in connections:
        send(connection, frame(part, last=False), frame(part, REST, last=False))
    assert memory(ask) - before < 60 * MB
    wait_until_ended(connections)


def test_empty_fragments_without_end_close_their_websocket(server: Server) -> None:
    port, _ = server
    connection, _ = websocket(port)
    parts = frame(b"", REST, last=False) * 10 * MAX_FRAGMENTS
    send(connection, frame(b"", BINARY, last=False), parts)
    wait_until_ended([connection])


def test_half_requests_end_and_pages_stay_open(hurried: Server) -> None:
    port, _ = hurried
    with OpenPage(port) as page:
        page.show()
        halves = ["", "GET / HT", f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"]
        wait_until_ended([opened(port, half) for half in halves * 100])
        page.show("learn")


def test_body_that_nobody_reads_is_not_kept_and_ends(hurried: Server) -> None:
    port, ask = hurried
    before = memory(ask)
    head = "POST {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nTransfer-Encoding: chunked\r\n\r\n"
    connections = []
    for path in ("/", "/learn", "/_stcore/health", "/_stcore/upload_file/a/b"):
        connections.append(opened(port, head.format(path, port)))
        connections[-1].settimeout(1)
        with contextlib.suppress(TimeoutError):  # it is not read any more
            send(connections[-1], *[b"100000\r\n" + bytes(2**20) + b"\r\n"] * 40)
    assert memory(ask) - before < 40 * MB
    wait_until_ended(connections)


def test_file_of_an_invented_session_is_refused_before_any_other_check(server: Server) -> None:
    port, _ = server
    path = f"/_stcore/upload_file/{'x' * 50_000}/file"
    head = f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    with opened(port, head) as connection:
        assert connection.recv(100).split()[1] == b"400"
