"""Atomic writes of files: a failure leaves what was there before."""

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from mha_viz.errors import WriteError

_MAX_LINKS = 40  # as many as Linux follows


def write_file(
    path: str | Path, content: bytes | Iterable[memoryview], *, parents: bool = False
) -> None:
    """Write bytes under a name, without a moment in which the name stands for half of them.

    They go into a new file beside the old one, which then takes its place and its permissions; a
    new file has those that any program's has (the umask). A symbolic link stays, and what it names
    is written. Two kinds of place are written into and never replaced: what is no regular file (a
    pipe, a terminal, /dev/stdout), and a file that is not ours alone, having a second name (a hard
    link) or another owner.

    `content` may be parts that are written one after another, so that what is large need not be
    copied into one piece; `parents` makes the folders that the file lies in. Raises WriteError: a
    folder, a disk (block device), a full disk, a place that may not be written; what was there is
    as it was.
    """
    if not str(path):
        raise WriteError("Expected the name of a file to write, got an empty one.")
    path = Path(path)
    parts = [memoryview(content)] if isinstance(content, bytes) else list(content)
    with _as_write_error(path):
        if parents and not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, target = _stream(path), Path(os.path.realpath(path))
        old = None if descriptor is not None else _old(target)
        if descriptor is not None:
            with open(descriptor, "wb", closefd=False) as file:
                file.writelines(parts)
        elif old is None or stat.S_ISREG(old.st_mode):
            _write_regular(target, parts, old)
        else:
            with open(os.open(target, os.O_WRONLY | os.O_NOCTTY), "wb") as file:
                file.writelines(parts)


def check_writable(path: str | Path, *, parents: bool = False) -> None:
    """Find out whether `write_file` could write there, before a result is computed for it.

    Nothing is written, and no folder is made; in the folder an empty file comes and goes.
    """
    path = Path(path)
    with _as_write_error(path):
        if _stream(path) is not None:
            return
        target = Path(os.path.realpath(path))
        old = _old(target)
        if old is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if old is None or stat.S_ISREG(old.st_mode):
            folder = target.parent
            while parents and not folder.exists():
                folder = folder.parent
            draft = _draft(folder / target.name)
            draft.open("xb").close()
            draft.unlink(missing_ok=True)


@contextmanager
def _as_write_error(path: Path) -> Iterator[None]:
    """Tell in one sentence why a file cannot be written."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a name with NUL or half a character in it
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise WriteError(
            f"{path} cannot be written: {reason}. Give another file, or make room for this one; a "
            "file that was there is unchanged."
        ) from error


def _stream(path: Path) -> int | None:
    """Return the number of this process's own stream that the path names (/dev/stdout, /dev/fd/3).

    Only a write to the number itself goes on where the stream is: behind the name there may be a
    file that others have begun, which opening it anew would empty.
    """
    own_streams = os.path.realpath("/proc/self/fd")
    for _ in range(_MAX_LINKS):
        if path.name.isdecimal() and os.path.realpath(path.parent) == own_streams:
            return int(path.name)
        if not path.is_symlink():
            break
        path = path.parent / os.readlink(path)
    return None


def _old(target: Path) -> os.stat_result | None:
    """Return what is there, None for nothing; refuse what cannot take the place of a file."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode) or stat.S_ISBLK(old.st_mode):
        kind = "folder" if stat.S_ISDIR(old.st_mode) else "disk"
        raise OSError(errno.EISDIR, f"it is a {kind}, and a file is expected")
    return old


def _draft(target: Path) -> Path:
    """Return a new name beside the file, for what is to take its place."""
    return target.with_name(f".mha_viz-{secrets.token_hex(8)}.part")


def _write_regular(target: Path, parts: list[memoryview], old: os.stat_result | None) -> None:
    """Replace the old file by a new one; overwrite its content where others hold it, too."""
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))  # a rename would not ask
    draft = _draft(target)
    file = draft.open("xb")
    try:
        with file:
            if old is not None:
                new = os.fstat(file.fileno())
                # A second name or another owner would be left with the old file.
                if old.st_nlink > 1 or (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
                    _overwrite(target, parts)
                    return
                draft.chmod(stat.S_IMODE(old.st_mode))
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _overwrite(target: Path, parts: list[memoryview]) -> None:
    """Replace the content of the same file.

    What makes it longer is written first: a disk is found full while the old bytes still stand.
    """
    length = sum(map(len, parts))
    with target.open("r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            _write_between(file, parts, size, length)
        except BaseException:
            file.truncate(size)
            raise
        file.seek(0)
        _write_between(file, parts, 0, size)
        file.truncate(length)
        os.fsync(file.fileno())


def _write_between(file: FileIO, parts: list[memoryview], begin: int, end: int) -> None:
    """Write the bytes of all parts that lie from `begin` to `end` to the disk itself."""
    for part in parts:
        unwritten = part[max(begin, 0) : max(end, 0)]
        begin, end = begin - len(part), end - len(part)
        while unwritten:
            unwritten = unwritten[file.write(unwritten) :]
    os.fsync(file.fileno())
