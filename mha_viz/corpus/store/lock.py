"""The lock on a study's folder, which the system releases however its process ends."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from mha_viz.errors import StudyError

LOCK = "lock"
_LOCK_OFFSET = 2**20  # bytes: Windows lets nobody read what is locked; the number stands before


class LockedError(StudyError):
    """Another process, or thread, writes in the folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock on an existing folder, so that no other process and thread writes in it.

    The system itself holds the lock and releases it when the process ends, even by kill -9: a lock
    file that is left over locks nothing. The number in it is that of the process at work.
    """
    path = folder / LOCK
    file = _acquire(path)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows keeps a file that is open; it locks nothing from then on
            path.unlink()
        file.close()


def _acquire(path: Path) -> IO[str]:
    """Return the lock file, held, with our number in it."""
    while True:
        file = path.open("a+", encoding="ascii")
        try:
            _lock_file(file)
        except OSError as error:
            with file:
                file.seek(0)
                owner = file.read(20).strip() or "unknown"
            raise LockedError(
                f"Another process (number {owner}) is writing the study {path.parent}: wait until "
                "it has ended, or give another folder."
            ) from error
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            return file
        file.close()  # whoever held it has just removed it: what we hold has no name any more


if sys.platform == "win32":
    import msvcrt

    def _lock_file(file: IO[str]) -> None:
        file.seek(_LOCK_OFFSET)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)

else:
    import fcntl

    def _lock_file(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
