"""Bytes as no browser sends them: half requests, and frames of websockets one by one."""

import contextlib
import socket
import struct

from tests.ui.serving import PATIENCE, UPGRADE

BINARY, REST, PING = 2, 0, 9


def opened(port: int, said: str = "") -> socket.socket:
    """A connection on which that much of a request was sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.sendall(said.encode())
    return connection


def websocket(port: int, *headers: str) -> tuple[socket.socket, int]:
    """A connection that asked for a page's websocket, and the status of the answer."""
    lines = ["GET /_stcore/stream HTTP/1.1", f"Host: 127.0.0.1:{port}", *UPGRADE, *headers]
    connection = opened(port, "\r\n".join([*lines, "", ""]))
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(1)
    return connection, int(answer.split(b" ", 2)[1])


def frame(payload: bytes, kind: int = BINARY, *, last: bool = True) -> bytes:
    """A frame as a browser sends it, masked with zeros."""
    first = struct.pack("!B", (0x80 if last else 0) | kind)
    if len(payload) < 126:
        size = struct.pack("!B", 0x80 | len(payload))
    else:
        size = struct.pack("!BQ", 0x80 | 127, len(payload))
    return first + size + bytes(4) + payload


def has_ended(connection: socket.socket) -> bool:
    """Tell whether the server has closed a connection; what it sent before is skipped."""
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        try:
            while connection.recv(65536):
                pass
        except (ConnectionError, OSError) as error:
            if isinstance(error, BlockingIOError):
                raise
        return True
    return False
