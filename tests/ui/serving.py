"""The real app as a process of its own: requests as anybody could send them, and open pages."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect

from tests.waiting import PATIENCE, wait_for

ROOT = Path(__file__).parents[2]
UPGRADE = (
    *("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"),
    *("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: streamlit"),
)
# Python imports a module of this name at its start. It notes whom the process asks for a name, or
# for a connection, and answers questions about the inside of the process.
WATCH = """
import os, signal, sys
folder = os.environ["WATCHED"]
def note(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        with open(folder + "/asked", "a") as asked:
            print(event, args[1] if event != "socket.getaddrinfo" else args[0], file=asked)
def answer(*_):
    with open(folder + "/question") as question, open(folder + "/writing", "w") as writing:
        found = {}
        exec(question.read(), found)
        print(found["answer"], file=writing)
    os.replace(folder + "/writing", folder + "/answer")
sys.addaudithook(note)
signal.signal(signal.SIGUSR1, answer)
"""


@contextlib.contextmanager
def serving(folder: Path, **env: str) -> Iterator[int]:
    """`streamlit run app.py`; the port where it answers.

    Whom it asked for a name or a connection is written to `asked` in the folder.
    """
    with served(folder, **env) as (port, _):
        yield port


@contextlib.contextmanager
def served(folder: Path, *before: str, **env: str) -> Iterator[tuple[int, Callable[[str], str]]]:
    """Serve like `serving`, with `ask(code)`: the process runs it and sends its `answer`.

    Args:
        folder: for the log of the app, and what it is asked.
        before: a command that starts what follows it, such as `setpriv` with its options.
        env: variables of the app's environment.
    """
    (folder / "sitecustomize.py").write_text(WATCH)
    watched = {"PYTHONPATH": str(folder), "WATCHED": str(folder)}
    log = folder / "app.log"
    with started(log, *before, **watched | env) as (port, app):

        def ask(code: str) -> str:
            (folder / "question").write_text(code)
            (folder / "answer").unlink(missing_ok=True)
            app.send_signal(signal.SIGUSR1)
            wait_for((folder / "answer").exists, log.read_text)
            return (folder / "answer").read_text().strip()

        yield port, ask


@contextlib.contextmanager
def started(log: Path, *before: str, **env: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Start the app; its port and its process, from the moment it answers to the block's end."""
    port = free_port()
    run = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    with log.open("w") as output:
        app = subprocess.Popen(
            [*before, *run], cwd=ROOT, env=os.environ | env, stdout=output, stderr=output
        )

    def listens() -> bool:
        assert app.poll() is None, f"the app did not start: {log.read_text()}"
        with contextlib.suppress(OSError):
            return status(port, f"127.0.0.1:{port}", path="/_stcore/health") == 200
        return False

    try:
        wait_for(listens, log.read_text)
        yield port, app
    finally:
        app.terminate()
        try:
            app.wait(20)
        except subprocess.TimeoutExpired:
            app.kill()
            app.wait()


def free_port() -> int:
    """Return the number of a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def request(
    port: int, path: str = "/", method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[HTTPResponse, bytes]:
    """Return the answer to a request, and its body."""
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer, answer.read()


def answer(
    port: int, host: str, origin: str = "", *, websocket: bool = False, path: str = "/"
) -> bytes:
    """Return the answer to a GET with this Host and Origin; the beginning of a websocket's."""
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"Origin: {origin}"] if origin else []
    if websocket:
        lines[0] = "GET /_stcore/stream HTTP/1.1"
        lines += UPGRADE
    else:
        lines += ["Connection: close"]
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        found = b""
        while b"\r\n\r\n" not in found or not websocket:
            part = connection.recv(65536)
            if not part:
                break
            found += part
    return found


def status(port: int, host: str, origin: str = "", **options) -> int:
    """The status of that answer."""
    return int(answer(port, host, origin, **options).split(b" ", 2)[1])


class OpenPage(contextlib.ExitStack):
    """A page of the app as a browser holds it, without the browser; open in the block.

    Args:
        port: of the server, on this machine.
        host: the name by which the browser calls the server.
        headers: further ones of its request, with underscores for hyphens.
    """

    def __init__(self, port: int, host: str = "", **headers: str) -> None:
        super().__init__()
        self.connection = self.enter_context(
            # Without pings: a page that a test does not read does not answer them either.
            connect(
                f"ws://{host or f'127.0.0.1:{port}'}/_stcore/stream",
                sock=socket.create_connection(("127.0.0.1", port)),
                subprotocols=["streamlit"],  # type: ignore[list-item]
                additional_headers={name.replace("_", "-"): headers[name] for name in headers},
                max_size=None,
                ping_interval=None,
            )
        )

    def show(self, page: str = "", **params: str) -> list[str]:
        """Go to this address, wait until the page is drawn; the errors and exceptions on it."""
        return self.follow(page, urlencode(params))

    def follow(self, page: str, query: str) -> list[str]:
        """Show a page like `show`, with all behind the question mark as it is."""
        message = BackMsg()
        message.rerun_script.query_string = query
        message.rerun_script.page_name = page
        message.rerun_script.is_history_navigation = True  # as if the address led there
        faults: list[str] = []
        for told in self.run(message):
            element = told.delta.new_element
            if element.HasField("exception"):
                faults.append(element.exception.message)
            if element.HasField("alert") and element.alert.format == element.alert.ERROR:
                faults.append(element.alert.body)
        return faults

    def run(self, message: BackMsg) -> Iterator[ForwardMsg]:
        """Send a message that runs the page; yield what the server sends until the run's end."""
        self.connection.send(message.SerializeToString())
        told = ForwardMsg()
        while told.WhichOneof("type") != "script_finished":
            told.ParseFromString(self.connection.recv(timeout=PATIENCE))
            yield told
