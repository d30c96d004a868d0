"""Integrity of a study's folder: its lock, and sizes and hashes of files, kept in JSON files."""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from mha_viz.errors import StudyError

HASHES = "sha256"  # the key in a JSON file: name of a file -> hash
FORMAT, UNHASHED_FORMAT = 3, 1  # of the folder; the first had no hashes, the second no sums
_MOST_JSON = 8_000_000  # bytes: real ones have some thousand
_MAGIC = b"PAR1"  # how a Parquet file begins and ends


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def has_hash(path: Path, digest: object) -> bool:
    """Return whether a file is there and has this hash, which JSON from strangers may hold."""
    return path.is_file() and file_hash(path) == digest


def with_hashes(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Add to the content of a JSON file the hashes of the files that it lists, and its own."""
    hashes = {name: file_hash(path.with_name(name)) for name in content.get("files", ())}
    return sealed({**content, HASHES: hashes}, path.name)


def sealed(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Add to the content of a JSON file its own hash beside those of its tables."""
    others = {key: value for key, value in content[HASHES].items() if key != name}
    whole = json.dumps({**content, HASHES: others}, sort_keys=True)
    own = hashlib.sha256(whole.encode()).hexdigest()
    rest = {key: value for key, value in content.items() if key != HASHES}
    return {**rest, HASHES: {**others, name: own}}  # last, also in a file that had hashes before


def is_unchanged(content: Mapping[str, Any], name: str) -> bool:
    """Compare the content of a JSON file with its own hash; one from before hashes passes."""
    hashes = content.get(HASHES)
    if hashes is None:
        return bool(content.get("format", UNHASHED_FORMAT) == UNHASHED_FORMAT)
    return isinstance(hashes, dict) and bool(hashes == sealed(content, name)[HASHES])


def read_json(path: Path) -> Any:
    """Return what a JSON file of a study says.

    Raises OSError, ValueError, RecursionError: no regular file, none of JSON, or one that is far
    larger than ours.
    """
    if not path.is_file():  # a pipe would stop whoever opens it
        raise ValueError(f"{path.name} is no regular file")
    if path.stat().st_size > _MOST_JSON:
        raise ValueError(f"{path.name} is larger than {_MOST_JSON:,} bytes")
    return json.loads(path.read_text("utf-8"))


def check_files(folder: Path, place: Path, sizes: Mapping[str, int]) -> None:
    """Raise StudyError unless each file is there, as long as it was, and framed as Parquet."""
    for name, size in sizes.items():
        path = place / name
        if Path(name).name != name or not path.is_file():
            raise damaged(folder, place, name, "is missing")
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
            file.seek(max(0, path.stat().st_size - len(_MAGIC)))
            tail = file.read()
        if path.stat().st_size != size or head != _MAGIC or tail != _MAGIC:
            raise damaged(folder, place, name, "was cut or changed")


def check_hashes(
    folder: Path, place: Path, hashes: Mapping[str, object], names: Iterable[str]
) -> None:
    """Raise StudyError for the first file that differs from its hash; one without a hash passes."""
    for name in names:
        if name in hashes and not has_hash(place / name, hashes[name]):
            raise damaged(folder, place, name, "was changed")


def damaged(folder: Path, place: Path, name: str, what: str) -> StudyError:
    """Make the error for a file in a place of a study, which says how to mend it."""
    part, file = (path.relative_to(folder).as_posix() for path in (place, place / name))
    mend = "make it anew."
    if place != folder:
        mend = (
            f"delete {part} and give the command that made the study again, which makes that part "
            "anew."
        )
    return StudyError(f"The study {folder} is damaged: {file} {what}. Restore it, or {mend}")


LOCK = "lock"
_FAR = 2**20  # bytes: Windows locks a place of the file, which then cannot be read; not the number


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
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)

else:
    import fcntl

    def _lock_file(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
