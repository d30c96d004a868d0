"""Trial builds of untrusted checkpoints in another process."""

import atexit
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    """
    if (folder, stamp) in _passed:
        return
    stored = sum(size for name, _, size, _ in stamp if name.endswith(".safetensors"))
    request = {"folder": str(folder.absolute()), "stored": stored, "family": family, **LIMITS}
    answer = _trial_process.ask(request)
    if answer:
        raise _error(folder.name, answer)
    if len(_passed) >= 1000:
        _passed.clear()
    _passed.add((folder, stamp))


_passed: set[tuple[Path, Stamp]] = set()


def prepare() -> None:
    """Start the process for trials in the background, or keep it running; return at once.

    Call it when a folder will probably be loaded soon: the process needs seconds to import torch
    and transformers, once for all trials. Each trial is then a fork of its own.
    """
    _trial_process.prepare()


def is_ready() -> bool:
    """Tell whether a trial can begin at once, without the start of a process."""
    return _trial_process.is_ready


def _error(name: str, answer: dict[str, Any]) -> LoadError:
    if "error" in answer:
        kind = getattr(errors, answer["error"])
        return kind(answer["message"])
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


class _TrialProcess:
    """The process for trials: started when first needed, used by one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._idle_timer: threading.Timer | None = None
        self.is_ready = False  # imports are done, and the process has not ended since

    def prepare(self) -> None:
        """Start the process in a thread, unless it is starting or trying a folder out just now."""
        threading.Thread(target=self._prepare, daemon=True).start()

    def _prepare(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                with suppress(LoadError):  # the next trial raises it
                    self._running()
                    self._restart_idle_timer()
            finally:
                self._lock.release()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer; stop the process where none comes in time."""
        with self._lock:
            try:
                process = self._running()
                with _stopping(process, request["seconds"] + GRACE) as was_late:
                    line = _answer_line(process, request)
            except BaseException:  # Ctrl-C: the answer is not needed any more
                self._stop()
                raise
            if not line:  # it has no fork on this system, or was killed
                self._stop()
                return {"died": "late" if was_late.is_set() else "crash"}
            self._restart_idle_timer()
            return json.loads(line)

    def _restart_idle_timer(self) -> None:
        self._idle_timer = child_process.start_timer(IDLE, self.stop_if_idle)

    def stop_if_idle(self) -> None:
        """End it, unless somebody is asking it just now."""
        if self._lock.acquire(blocking=False):
            try:
                self._stop()
            finally:
                self._lock.release()

    def end(self) -> None:
        """End it, whoever is asking it: this process ends, too."""
        if self._process is not None and self._owner == os.getpid():
            child_process.kill(self._process)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._owner != os.getpid():  # a fork of the process that started it
            self._process = None
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process, self._owner = _started(), os.getpid()
            with _stopping(self._process, STARTING):
                if not _line(self._process):
                    raise LoadError(f"{_NO_PROCESS}: it ended before it was ready.")
            self.is_ready = True
        return self._process

    def _stop(self) -> None:
        self.is_ready = False
        if self._process is not None and self._owner == os.getpid():
            child_process.terminate(self._process)
        self._process = None


def _started() -> subprocess.Popen[bytes]:
    try:
        return child_process.start("mha_viz.checkpoints.trial_process")
    except OSError as error:
        raise LoadError(f"{_NO_PROCESS}: {error}.") from error


def _answer_line(process: subprocess.Popen[bytes], request: dict[str, Any]) -> bytes:
    """Return the line that it answers with; b"" where it ended before."""
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

    timer = child_process.start_timer(seconds, stop)
    try:
        yield late
    finally:
        timer.cancel()


_trial_process = _TrialProcess()
atexit.register(_trial_process.end)
