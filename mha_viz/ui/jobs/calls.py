"""Calls that go to another process, the token that cancels them, and the flag that pauses them."""

import mmap
import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import IO, Any, NamedTuple

OURS = ("mha_viz.",)  # modules whose functions may be called


class Checkpoint(NamedTuple):
    """A model among the arguments of a call, by its name: each process loads it for itself."""

    # `name`, `device`, `dtype`: as of `mha_viz.load`, which checks it in that process, too
    name: str
    device: str
    dtype: str
    max_record: int  # bytes that one text may leave behind; longer ones are cut
    random: bool = False  # the same architecture with random weights
    max_tokens: int | None = None  # that a text may have; None is as many as the model takes


@dataclass(frozen=True)
class Call:
    """A function with its arguments, as another process runs it."""

    work: partial[Any]  # the function, with all its arguments but one
    progress_argument: str | None = None  # the name of that one: it is called with the progress
    threads: int = 1  # of torch

    def __post_init__(self) -> None:
        module = self.work.func.__module__
        if not f"{module}.".startswith(OURS):
            raise ValueError(f"{module} is no module whose functions may be called.")

    def with_models(self, model_of: Callable[[Checkpoint], Any]) -> partial[Any]:
        """Return the function with models in place of their names."""
        args = (
            model_of(argument) if isinstance(argument, Checkpoint) else argument
            for argument in self.work.args
        )
        return partial(self.work.func, *args, **self.work.keywords)

    @property
    def models(self) -> list[Checkpoint]:
        """Models among its arguments."""
        return [argument for argument in self.work.args if isinstance(argument, Checkpoint)]

    def imports(self) -> "Call":
        """Return a call that only imports what this one needs."""
        return Call(partial(import_for, self.work.func.__module__, bool(self.models)))


def import_for(module: str, loads_models: bool) -> None:
    """Import a module, and what loads models for it."""
    import_module(module)
    if loads_models:
        import mha_viz.checkpoints.loading  # noqa: F401


class Cancelled(BaseException):
    """The end of work that nobody waits for any more.

    It is not an `Exception`: code that treats any failure as an answer must not catch it.
    Streamlit ends a run in the same way.
    """


class CancelToken:
    """A flag that is set once: the work checks it regularly, or is called back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._callbacks: list[Callable[[], object]] = []

    @property
    def is_set(self) -> bool:
        """True once it is set."""
        return self._is_set

    def set(self) -> None:
        """Cancel the work, and call the callbacks."""
        with self._lock:
            self._is_set, acts, self._callbacks = True, self._callbacks, []
        for act in acts:
            act()

    def add_callback(self, act: Callable[[], object]) -> None:
        """Call `act` in the thread that sets it, or now if it is set already."""
        with self._lock:
            if not self._is_set:
                self._callbacks.append(act)
                return
        act()

    def raise_if_set(self) -> None:
        """Raise `Cancelled` if it is set."""
        if self._is_set:
            raise Cancelled


class SharedFlag:
    """A flag that the server sets while pages are run and its processes see, without a message."""

    def __init__(self, file: IO[bytes]) -> None:  # has one byte, and stays open
        self._file, self._byte = file, mmap.mmap(file.fileno(), 1)

    @classmethod
    def create(cls) -> "SharedFlag | None":
        """Return a new flag that is not set; None where processes cannot share memory."""
        if os.name != "posix":
            return None
        try:
            file: IO[bytes]  # open as long as it is looked at
            if hasattr(os, "memfd_create"):
                file = os.fdopen(os.memfd_create("mha_viz"), "r+b", buffering=0)
            else:
                file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
            # Written and not truncated to: a hole gets its room when the memory is first written
            # to, and where there is none the system ends the process.
            file.write(b"\0")
            return cls(file)
        except OSError:  # no folder, or no room
            return None

    @classmethod
    def attach(cls, number: int) -> "SharedFlag":
        """Return the flag that a process was started with, by the number of its file."""
        return cls(os.fdopen(number, "r+b", buffering=0))

    @property
    def number(self) -> int:
        """Number of its file, for processes that are started."""
        return self._file.fileno()

    @property
    def is_set(self) -> bool:
        """True while it is set."""
        return self._byte[0] == 1

    def set(self, value: bool) -> None:
        """Set or clear it."""
        self._byte[0] = int(value)
