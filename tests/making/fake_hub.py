"""A Hub on this machine that serves one folder as a model, and does what networks do to answers."""

import hashlib
import json
import re
import socket
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

NAME, COMMIT = "some-lab/fetched-bert", "0123456789" * 4
Fault = Callable[["Answer"], None]


class FakeHub:
    """Serves until it is closed.

    Attributes:
        endpoint: for huggingface_hub's constants.ENDPOINT.
        faults: what is done instead of an answer, by how the path ends ("model.safetensors") or
            begins ("/api/"); None is every path.
        asked: the paths that were asked for.
        begun: file and first byte of what was asked for from there on.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, []
        self.begun: list[tuple[str, int]] = []
        self.faults: dict[str | None, Fault] = {}
        self.closing = threading.Event()
        hub = self

        class Handler(Answer):
            pass

        Handler.hub = hub
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.is_file())

    def fault(self, path: str) -> Fault | None:
        for where, fault in self.faults.items():
            if where is None or path.endswith(where) or path.startswith(where):
                return fault
        return None


class Answer(BaseHTTPRequestHandler):
    """The few questions that fetching a model asks, answered as the Hub does."""

    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(path)
        fault = self.hub.fault(path)
        (fault or Answer.right)(self)

    def right(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path.startswith(f"/api/models/{NAME}/tree/"):
            self.json(
                [
                    {
                        "type": "file",
                        "path": file.name,
                        "size": file.stat().st_size,
                        "oid": _name_of(file),
                    }
                    for file in self.hub.files()
                ]
            )
        elif path.startswith(f"/api/models/{NAME}"):
            self.json(
                {
                    "id": NAME,
                    "sha": COMMIT,
                    "siblings": [
                        {"rfilename": file.name, "size": file.stat().st_size} | _large(file)
                        for file in self.hub.files()
                    ],
                }
            )
        elif path.startswith(f"/{NAME}/resolve/") and (file := self.file()).is_file():
            self.send_file(file)
        else:
            self.send(404, b"{}", error="RepoNotFound")

    def send_file(self, file: Path) -> None:
        body, begin = file.read_bytes(), 0
        if asked := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            begin = int(asked[1])
            self.hub.begun.append((file.name, begin))
        self.send(206 if begin else 200, body[begin:], etag=_name_of(file))

    def file(self) -> Path:
        return self.hub.folder / unquote(urlsplit(self.path).path).rpartition("/")[2]

    def json(self, answer: Any) -> None:
        self.send(200, json.dumps(answer).encode(), kind="application/json")

    def send(
        self,
        status: int,
        body: bytes,
        kind: str = "",
        etag: str = "",
        error: str = "",
        length: int | None = None,
    ) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind or "application/octet-stream",
            "Content-Length": str(len(body) if length is None else length),
            "X-Repo-Commit": COMMIT,
            "ETag": etag and f'"{etag}"',
            "X-Error-Code": error,
        }
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


def _name_of(file: Path) -> str:
    """Hash its content as the cache does: another way for large files."""
    known = hashlib.sha256 if file.suffix == ".safetensors" else hashlib.sha1
    return known(file.read_bytes()).hexdigest()


def _large(file: Path) -> dict[str, Any]:
    """Return what the Hub adds of a large file."""
    if file.suffix != ".safetensors":
        return {}
    return {"lfs": {"sha256": _name_of(file), "size": file.stat().st_size, "pointerSize": 134}}


# -- what networks do ----------------------------------------------------------------------------


def closed(answer: Answer) -> None:
    """The connection ends without a word."""
    answer.close_connection = True
    answer.connection.shutdown(socket.SHUT_RDWR)


def reset(answer: Answer) -> None:
    """End the connection without a word, as a router that has forgotten it."""
    answer.close_connection = True
    answer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    answer.connection.close()


def cut(answer: Answer) -> None:
    """Half of a file, then nothing; a question for its size alone is answered."""
    if answer.command == "HEAD":
        return answer.right()
    body = answer.file().read_bytes()
    answer.close_connection = True
    answer.send(200, body[: len(body) // 2], etag=_name_of(answer.file()), length=len(body))
    return None


def spoilt(answer: Answer) -> None:
    """Send as many bytes as there should be, but others."""
    body = answer.file().read_bytes()
    answer.send(200, body[:-1] + b"?", etag=_name_of(answer.file()))


def slow(answer: Answer) -> None:
    """Half of a file, then silence; a question for its size alone is answered."""
    cut(answer)
    if answer.command != "HEAD":
        answer.hub.closing.wait()


def garbage(answer: Answer) -> None:
    """Answer in something that is no HTTP."""
    answer.close_connection = True
    answer.wfile.write(b"\x00\xff\x13 SSH-2.0 not HTTP at all\r\n\r\n" * 4)


def silent(answer: Answer) -> None:
    """Takes the question and never answers."""
    answer.close_connection = True
    answer.hub.closing.wait()


def portal(answer: Answer) -> None:
    """The page of a hotel's network, where one has to agree to something first."""
    answer.send(200, b"<html><body>Please log in</body></html>", kind="text/html")


def wrong_json(answer: Answer) -> None:
    answer.json(["nothing", {"of": "what was asked"}])


def busy(answer: Answer) -> None:
    answer.send(503, b"try later")


def missing(answer: Answer) -> None:
    answer.send(404, b"{}", error="RepoNotFound")


def gated(answer: Answer) -> None:
    answer.send(403, b"{}", error="GatedRepo")
