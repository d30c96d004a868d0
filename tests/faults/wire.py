"""A wire between a browser and the server, which can be cut, and lead to another server."""

import contextlib
import socket
import threading
from collections.abc import Iterator


class Wire:
    """Forwards what comes to `port`, an address of its own, to a server on this machine."""

    def __init__(self, server: int) -> None:
        self._server: int | None = server
        self._open: set[socket.socket] = set()
        self._ear = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._ear.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def cut(self) -> None:
        """End what is connected, and refuse what comes."""
        self._server = None
        for end in tuple(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def lead(self, server: int) -> None:
        """Forward to that server from now on."""
        self._server = server

    def close(self) -> None:
        self.cut()
        self._ear.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                near, _ = self._ear.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            if self._server is None:
                return
            with socket.create_connection(("127.0.0.1", self._server)) as far:
                ends = {near, far}
                self._open |= ends
                back = threading.Thread(target=_forward, args=(far, near), daemon=True)
                back.start()
                _forward(near, far)
                back.join()
                self._open -= ends


def _forward(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def wire(server: int) -> Iterator[Wire]:
    """A wire to that server, until the block is left."""
    made = Wire(server)
    try:
        yield made
    finally:
        made.close()
