"""The real app as a process of its own, and requests to it as anybody could send them."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Python imports a module of this name at its start. It notes whom the process asks for a name, or
# for a connection.
WATCH = """
import os, sys
def note(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        with open(os.environ["ASKED"], "a") as asked:
            print(event, args[1] if event != "socket.getaddrinfo" else args[0], file=asked)
sys.addaudithook(note)
"""


@contextlib.contextmanager
def serving(folder: Path, *options: str, **env: str) -> Iterator[int]:
    """`streamlit run app.py` with these options; the port where it answers.

    Whom it asked for a name or a connection is written to `asked` in the folder.
    """
    (folder / "sitecustomize.py").write_text(WATCH)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    watched = {"PYTHONPATH": str(folder), "ASKED": str(folder / "asked")}
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    with (folder / "app.log").open("w") as log:
        app = subprocess.Popen(
            [*command, *options], cwd=ROOT, env=os.environ | watched | env, stdout=log, stderr=log
        )
    try:
        end = time.monotonic() + 90
        while time.monotonic() < end and app.poll() is None:
            with contextlib.suppress(OSError):
                if status(port, f"127.0.0.1:{port}", path="/_stcore/health") == 200:
                    break
            time.sleep(0.1)
        else:
            raise AssertionError(f"the app did not start: {(folder / 'app.log').read_text()}")
        yield port
    finally:
        app.terminate()
        try:
            app.wait(20)
        except subprocess.TimeoutExpired:
            app.kill()
            app.wait()


def answer(
    port: int, host: str, origin: str = "", *, websocket: bool = False, path: str = "/"
) -> bytes:
    """What the server sends on one GET with this Host and Origin; of a websocket, how it begins."""
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"Origin: {origin}"] if origin else []
    if websocket:
        lines[0] = "GET /_stcore/stream HTTP/1.1"
        lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                  "Sec-WebSocket-Protocol: streamlit"]  # fmt: skip
    else:
        lines += ["Connection: close"]
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
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
