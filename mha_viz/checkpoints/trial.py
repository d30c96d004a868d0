"""An untrusted checkpoint is built on trial in another process before it is built in this one."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mha_viz import errors
from mha_viz.checkpoints import child_process
from mha_viz.checkpoints.checkpoint_files import Stamp
from mha_viz.core.amounts import of_bytes
from mha_viz.errors import BrokenCheckpointError, LoadError, UnsafeCheckpointError

# The largest tokenizers in use take some five seconds and 1 GB.
LIMITS = {"cpu_seconds": 30, "seconds": 120, "bytes": 4 * 10**9}
STARTING = 180  # seconds, in which the process imports torch
GRACE = 30  # seconds for what it does besides
IDLE = 90  # seconds after which it is let go; it holds some 250 MB
_NO_PROCESS = (
    "A checkpoint that is not shipped is read in a process of its own first, and none can be "
    "started here"
)


def check_on_trial(folder: Path, stamp: Stamp, family: str) -> None:
    """Build config, network (without memory) and tokenizer in a process with limits.

    A folder that has passed passes again as long as its files are the same.

    Args:
        folder: of the checkpoint.
        stamp: of its files, by `check_files`.
        family: its model_type.

    Raises:
        UnsafeCheckpointError: it takes too long or too much memory, or has too much of something.
        BrokenCheckpointError: it cannot be built, or crashes what builds it.
        LoadError: no process can be started.
    """
    if (folder, stamp) in _passed:
        return
    stored = sum(size for name, _, size, _ in stamp if name.endswith(".safetensors"))
    request = {"folder": str(folder.absolute()), "stored": stored, "family": family, **LIMITS}
    answer = _builder.ask(request)
    if answer:
        raise _error(folder.name, answer)
    if len(_passed) >= 1000:
        _passed.clear()
    _passed.add((folder, stamp))


_passed: set[tuple[Path, Stamp]] = set()


def _error(name: str, answer: dict[str, Any]) -> LoadError:
    if "error" in answer:
        kind = getattr(errors, answer["error"])
        error: LoadError = kind(answer["message"])
        return error
    if answer["died"] == "late":
        return UnsafeCheckpointError(
            f"Reading config and tokenizer of {name} took more than {LIMITS['cpu_seconds']} s; "
            "those of real models take a few. Its files are broken, or made to do harm."
        )
    if answer["died"] == "memory":
        return UnsafeCheckpointError(
            f"Reading config and tokenizer of {name} takes more than {of_bytes(LIMITS['bytes'])} "
            "of memory. Its files are broken, or made to do harm."
        )
    reason = f" ({answer['message']})" if answer.get("message") else ""
    return BrokenCheckpointError(
        f"Config or tokenizer of {name} crashes the libraries that read it{reason}. Its files are "
        "broken, or made to do harm."
    )


class _Builder:
    """The other process: started when it is first needed, asked by one thread at a time."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._letting_go: threading.Timer | None = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Its answer; it is stopped where none comes in time."""
        with self._asking:
            if self._letting_go is not None:
                self._letting_go.cancel()
            try:
                process = self._running()
                with _stopping(process, request["seconds"] + GRACE) as was_late:
                    line = _answer_line(process, request)
            except BaseException:  # Ctrl-C: nobody waits for the answer any more
                self._stop()
                raise
            if not line:  # it has no fork on this system, or was killed
                self._stop()
                return {"died": "late" if was_late.is_set() else "crash"}
            self._letting_go = threading.Timer(IDLE, self.let_go)
            self._letting_go.daemon = True
            self._letting_go.start()
            answer: dict[str, Any] = json.loads(line)
            return answer

    def let_go(self) -> None:
        """End it, unless somebody is asking it just now."""
        if self._asking.acquire(blocking=False):
            try:
                self._stop()
            finally:
                self._asking.release()

    def end(self) -> None:
        """End it, whoever is asking it: this process ends, too."""
        if self._process is not None and self._owner == os.getpid():
            child_process.kill(self._process)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._owner != os.getpid():  # a fork of the process that started it
            self._process = None
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process, self._owner = _started(), os.getpid()
            with _stopping(self._process, STARTING):
                if not _line(self._process):
                    raise LoadError(f"{_NO_PROCESS}: it ended before it was ready.")
        return self._process

    def _stop(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            child_process.put_away(self._process)
        self._process = None


def _started() -> subprocess.Popen[bytes]:
    try:
        return child_process.started("mha_viz.checkpoints.trial_process")
    except OSError as error:
        raise LoadError(f"{_NO_PROCESS}: {error}.") from error


def _answer_line(process: subprocess.Popen[bytes], request: dict[str, Any]) -> bytes:
    """The line that it answers with; b"" where it ended before."""
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    except OSError:
        return b""
    return _line(process)


def _line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


@contextmanager
def _stopping(process: subprocess.Popen[bytes], seconds: int) -> Iterator[threading.Event]:
    """Kill the process if the block takes longer; the event says whether that happened."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        child_process.kill(process)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


_builder = _Builder()
atexit.register(_builder.end)
