"""The files of a checkpoint's folder: regular ones, no larger than those of real models.

Knows names and sizes, and opens nothing: opening a pipe or a device would block.
"""

import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from mha_viz.checkpoints.config_file import TABLES
from mha_viz.core.amounts import of_bytes
from mha_viz.errors import BrokenCheckpointError, UnsafeCheckpointError

MB = 10**6
_LARGEST = [(name, megabytes * MB or None) for name, megabytes in TABLES["files"].items()]
_TEMPLATES = "additional_chat_templates"

Stamp = tuple[tuple[str, int, int, int], ...]


def check_files(folder: Path) -> Stamp:
    """Refuse a folder in which a file that would be opened is no regular one, or is far too large.

    A link counts as what it leads to: the Hub's cache is made of links. Returns a stamp by which
    the files can be recognised as unchanged: name, inode, size and time of each.
    """
    stamp = []
    for path, largest in _opened(folder):
        try:
            found = path.stat()
        except (OSError, ValueError) as error:
            raise BrokenCheckpointError(
                f"{path.name} in {folder.name} cannot be read, or is a link to a file that is not "
                "there: fetch the model again."
            ) from error
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeCheckpointError(
                f"{path.name} in {folder.name} is {_kind(found.st_mode)}: only regular files are "
                "opened. Take it out of the folder."
            )
        if largest is not None and found.st_size > largest:
            raise UnsafeCheckpointError(
                f"{path.name} of {folder.name} is larger than {of_bytes(largest)}, which no real "
                "model needs."
            )
        stamp.append((path.name, found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(stamp)


def _opened(folder: Path) -> Iterator[tuple[Path, int | None]]:
    """Yield each file that would be opened, with the largest size that it may have."""
    try:
        paths = sorted(folder.iterdir())
        if folder / _TEMPLATES in paths and (folder / _TEMPLATES).is_dir():
            paths += sorted((folder / _TEMPLATES).iterdir())
    except OSError as error:
        raise BrokenCheckpointError(
            f"The folder {folder.name} cannot be read: {error.strerror or error}."
        ) from error
    for path in paths:
        for pattern, largest in _LARGEST:
            if fnmatch(path.name.lower(), pattern):
                yield path, largest
                break


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a folder",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "no file")
