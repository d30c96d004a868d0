"""Sources that can be read only once, copied into a temporary file: pipes, strings."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from io import BufferedReader, RawIOBase
from pathlib import Path
from threading import Lock
from typing import IO

from mha_viz.errors import SourceError

Write = Callable[[IO[bytes]], None]  # into the copy


class TemporaryCopy:
    """A temporary file without a name: it is gone with the program, however that ends."""

    def __init__(self, name: str, write: Write) -> None:
        """Fill the copy, which lies on the disk that TMPDIR names; SourceError if it is full."""
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
        """Open the content from its start; any number may read it at the same time."""
        return BufferedReader(_CopyReader(self))

    def read_at(self, position: int, size: int) -> bytes:
        """Read some bytes of the content."""
        with self._lock:
            self._file.seek(position)
            return self._file.read(size)

    def size(self) -> int:
        """Return the number of bytes."""
        with self._lock:
            return self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Release the space on the disk."""
        # What was left to be written on a full disk fails once more, and the file is closed.
        with suppress(OSError):
            self._file.close()


class _CopyReader(RawIOBase):
    """A reader of a copy with a position of its own."""

    def __init__(self, copy: TemporaryCopy) -> None:
        self._copy, self._position = copy, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        got = self._copy.read_at(self._position, len(buffer))
        buffer[: len(got)] = got
        self._position += len(got)
        return len(got)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._copy.size())[whence]
        return self._position

    def tell(self) -> int:
        return self._position


def pipe(path: Path | None, copy: IO[bytes]) -> None:
    """Copy all that a pipe, or without a path standard input, gives."""
    with nullcontext(sys.stdin.buffer) if path is None else path.open("rb") as stream:
        shutil.copyfileobj(stream, copy)


def strings(texts: Iterable[object], copy: IO[bytes]) -> None:
    """Write strings as JSON lines; what is no string becomes null, and is skipped when read."""
    for text in texts:
        copy.write(json.dumps(text if isinstance(text, str) else None).encode() + b"\n")
