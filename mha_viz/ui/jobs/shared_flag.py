"""A flag in one byte of memory that the server shares with the processes of its heavy jobs."""

import mmap
import os
import tempfile
from typing import IO


class SharedFlag:
    """A flag that the server sets while pages are run and its processes see, without a message.

    `file` has one byte, and stays open.
    """

    def __init__(self, file: IO[bytes]) -> None:
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
