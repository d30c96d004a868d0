"""Checks of a study's files: sizes and hashes are kept in JSON files, with their own hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mha_viz.errors import StudyError

HASHES = "sha256"  # the key in a JSON file: name of a file -> hash
FORMAT, UNHASHED_FORMAT = 2, 1  # of the folder; the first one had no hashes
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
    """Return what a JSON file says with the hashes of the files that it lists, and its own.

    Args:
        content: what it says; its "files" lie beside it.
        path: where it lies, or will.
    """
    hashes = {name: file_hash(path.with_name(name)) for name in content.get("files", ())}
    return sealed({**content, HASHES: hashes}, path.name)


def sealed(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what a JSON file says with its own hash beside those of its tables.

    Args:
        content: what it says, the hashes of its tables among it.
        name: of the file.
    """
    others = {key: value for key, value in content[HASHES].items() if key != name}
    whole = json.dumps({**content, HASHES: others}, sort_keys=True)
    own = hashlib.sha256(whole.encode()).hexdigest()
    rest = {key: value for key, value in content.items() if key != HASHES}
    return {**rest, HASHES: {**others, name: own}}  # last, also in a file that had hashes before


def is_unchanged(content: Mapping[str, Any], name: str) -> bool:
    """Compare what a JSON file says with its own hash.

    Args:
        content: what it says.
        name: of the file.

    Returns:
        Whether they agree, or the file was written before there were hashes.
    """
    hashes = content.get(HASHES)
    if hashes is None:
        return bool(content.get("format", UNHASHED_FORMAT) == UNHASHED_FORMAT)
    return isinstance(hashes, dict) and bool(hashes == sealed(content, name)[HASHES])


def read_json(path: Path) -> Any:
    """Return what a JSON file of a study says.

    Raises:
        OSError, ValueError, RecursionError: no regular file, none of JSON, or one that is far
            larger than ours.
    """
    if not path.is_file():  # a pipe would stop whoever opens it
        raise ValueError(f"{path.name} is no regular file")
    if path.stat().st_size > _MOST_JSON:
        raise ValueError(f"{path.name} is larger than {_MOST_JSON:,} bytes")
    return json.loads(path.read_text("utf-8"))


def check_files(folder: Path, place: Path, sizes: Mapping[str, int]) -> None:
    """Check that each file is there, as long as it was, and begins and ends as Parquet does.

    Raises:
        StudyError: it names the file, and what to do.
    """
    for name, size in sizes.items():
        path = place / name
        shown = path.relative_to(folder).as_posix()
        again = None if place == folder else place.relative_to(folder).as_posix()
        if Path(name).name != name or not path.is_file():
            raise StudyError(damaged(folder, shown, "is missing", again))
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
            file.seek(max(0, path.stat().st_size - len(_MAGIC)))
            tail = file.read()
        if path.stat().st_size != size or head != _MAGIC or tail != _MAGIC:
            raise StudyError(damaged(folder, shown, "was cut or changed", again))


def check_hashes(
    folder: Path, place: Path, hashes: Mapping[str, object], names: Iterable[str]
) -> None:
    """Compare files with their hashes.

    Args:
        folder: of the study.
        place: the folder of the files.
        hashes: by the files' names.
        names: of the files; what has no hash is not of the study, or older than hashes, and passes.

    Raises:
        StudyError: it names the first file that was changed, and what to do.
    """
    for name in names:
        path = place / name
        if name not in hashes or has_hash(path, hashes[name]):
            continue
        again = None if place == folder else place.relative_to(folder).as_posix()
        raise StudyError(damaged(folder, path.relative_to(folder).as_posix(), "was changed", again))


def damaged(folder: Path, name: str, what: str, again: str | None = None) -> str:
    """Return what is wrong with a study, and how to mend it; `again`: the part to make anew."""
    if again is None:
        return f"The study {folder} is damaged: {name} {what}. Restore it, or make it anew."
    return (
        f"The study {folder} is damaged: {name} {what}. Restore it, or delete {again} and give the "
        "command that made the study again, which makes that part anew."
    )
