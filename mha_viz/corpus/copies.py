"""What can be read only once, copied into a temporary file: standard input, pipes, strings."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import BufferedReader, RawIOBase
from pathlib import Path
from threading import Lock
from typing import IO

from mha_viz.errors import SourceError

Write = Callable[[IO[bytes]], None]  # into the copy


class Copy:
    """A temporary file without a name: it is gone with the program, however that ends."""

    def __init__(self, name: str, write: Write) -> None:
        """Fill the copy, which lies on the disk that TMPDIR names.

        Args:
            name: of what is copied, for messages.
            write: its content.

        Raises:
            SourceError: it cannot be read, or the disk is full.
        """
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # `close` does
        self._lock = Lock()
        try:
            write(self._file)
            self._file.flush()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                reason = error.strerror or str(error)
                where = tempfile.gettempdir()
                raise SourceError(f"{name} cannot be copied to {where}: {reason}.") from error
            raise

    def open(self) -> BufferedReader:
        """The content from its start; any number may read it at the same time."""
        return BufferedReader(_Anew(self))

    def read_at(self, place: int, size: int) -> bytes:
        """Some bytes of the content.

        Args:
            place: of the first.
            size: how many, if there are so many.
        """
        with self._lock:
            self._file.seek(place)
            return self._file.read(size)

    def size(self) -> int:
        """How many bytes there are."""
        with self._lock:
            return self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Give the space on the disk back."""
        # What was left to be written on a full disk fails once more, and the file is closed.
        with suppress(OSError):
            self._file.close()


class _Anew(RawIOBase):
    """A copy read from a place of its own."""

    def __init__(self, copy: Copy) -> None:
        self._copy, self._place = copy, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        got = self._copy.read_at(self._place, len(buffer))
        buffer[: len(got)] = got
        self._place += len(got)
        return len(got)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset + (0, self._place, self._copy.size())[whence]
        return self._place

    def tell(self) -> int:
        return self._place


def standard_input(copy: IO[bytes]) -> None:
    """Standard input to its end.

    Args:
        copy: to write to.
    """
    shutil.copyfileobj(sys.stdin.buffer, copy)


def pipe(path: Path, copy: IO[bytes]) -> None:
    """All that comes out of a pipe.

    Args:
        path: of the pipe.
        copy: to write to.
    """
    with path.open("rb") as stream:
        shutil.copyfileobj(stream, copy)


def strings(texts: Iterable[object], copy: IO[bytes]) -> None:
    """Strings as JSON lines; what is no string becomes null, and is skipped when it is read.

    Args:
        texts: the strings.
        copy: to write to.
    """
    for text in texts:
        copy.write(json.dumps(text if isinstance(text, str) else None).encode() + b"\n")
