"""One byte that the server and the processes of its heavy jobs see: whether pages are run."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import IO


class Sign:
    """Raised by the server and seen by its processes, without a message that has to be read.

    Args:
        file: of one byte; it stays open.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._byte = file, mmap.mmap(file.fileno(), 1)

    @classmethod
    def made(cls) -> Sign | None:
        """A new one that is not raised; None where processes cannot see the same memory."""
        if os.name != "posix":
            return None
        try:
            file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as it is looked at
            file.truncate(1)
            return cls(file)
        except OSError:  # no folder, or no room
            return None

    @classmethod
    def given(cls, number: int) -> Sign:
        """The one that a process was started with, by the number of its file."""
        return cls(os.fdopen(number, "r+b"))

    @property
    def number(self) -> int:
        """Of its file, for processes that are started."""
        return self._file.fileno()

    @property
    def raised(self) -> bool:
        """Whether it is."""
        return self._byte[0] == 1

    def show(self, raised: bool) -> None:
        """Raise it, or take it down."""
        self._byte[0] = int(raised)
