"""Temporary folders that are deleted at the next start where their process was killed.

A folder is held by its lock (`lock.locked`), which the system releases however the process
ends. Whoever gets the lock of a folder of another process knows that nobody uses it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from mha_viz.corpus.store.lock import LockedError, locked

PREFIX = "mha-viz-studies-"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder for the block, which deletes it."""
    with ExitStack() as lock:
        folder = _locked_folder(lock)
        try:
            yield folder
        finally:
            lock.close()  # Windows deletes no file that is open
            shutil.rmtree(folder, ignore_errors=True)


def _locked_folder(lock: ExitStack) -> Path:
    """Make a folder and hold its lock; another process that starts now may delete it before."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with suppress(LockedError, FileNotFoundError):
            lock.enter_context(locked(folder))
            return folder


def delete_left_behind() -> list[Path]:
    """Delete the folders of processes that were killed; return which."""
    deleted = []
    for folder in Path(tempfile.gettempdir()).iterdir():
        if folder.name.startswith(PREFIX) and _is_own(folder):
            with suppress(LockedError, OSError), locked(folder):
                shutil.rmtree(folder, ignore_errors=True)
                deleted.append(folder)
    return deleted


def _is_own(folder: Path) -> bool:
    """Return whether this is a folder, and of the user that this process runs as."""
    try:
        status = folder.lstat()
    except OSError:  # its process has just deleted it
        return False
    is_ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return is_ours and folder.is_dir() and not folder.is_symlink()
