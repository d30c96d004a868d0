"""The folder of a study: paths, atomic writing, and checks of files that are read."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mha_viz.core.output_file import write_file
from mha_viz.corpus.store.integrity import (
    FORMAT,
    HASHES,
    LOCK,
    check_files,
    check_hashes,
    damaged,
    is_unchanged,
    read_json,
    with_hashes,
)
from mha_viz.errors import StudyError, WriteError

ZSTD_LEVEL = 3  # of all files of a study; 19 takes off a twentieth, and ten times as long
MANIFEST, SHARDS, SUMMARY = "study.json", "shards", "shard.json"
PARTS = "parts"  # of a finished study: the rows of many shards in one file, see `blocks`
TOTALS = "totals"  # of shards that were added up, and are gone
KEPT_SKIPPED = 100  # texts that were skipped and are named; all of them are counted
_SAME = {"model": "another model", "source": "another source", "settings": "other settings"}
_GLOB = "*?["  # signs that DuckDB would read as a pattern of names


def claim_folder(folder: Path) -> None:
    """Make the folder of a study; StudyError where it holds something else than a study."""
    if any(sign in str(folder.absolute()) for sign in _GLOB):
        raise StudyError(
            f"The folder of a study must have none of * ? [ in its path, got {folder}."
        )
    with writing(folder):
        if folder.exists() and not folder.is_dir():
            raise StudyError(f"{folder} is a file: give the name of a folder for the study.")
        folder.mkdir(parents=True, exist_ok=True)
        others = sorted(path.name for path in folder.iterdir() if not _is_left_over(path))
    if others and not (folder / MANIFEST).exists():
        raise StudyError(
            f"{folder} holds other things ({others[0]}) and no study: give a new folder, an empty "
            "one, or that of a study to go on with."
        )


def begin_manifest(folder: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """Write the manifest of a new study, or read that of the same study to go on with.

    "model", "source" and "settings" of `about` must be the same to go on.
    """
    new = {"format": FORMAT, "finished": False, **json.loads(json.dumps(about))}
    for path in folder.iterdir():
        if _is_left_over(path) and path.name != LOCK:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if not (folder / MANIFEST).exists():
        write_manifest(folder, new)
        return new
    old = read_manifest(folder)
    for part, other in _SAME.items():
        if (difference := _difference(old[part], new[part])) is not None:
            raise StudyError(
                f"{folder} holds a study of {other} ({difference}): give another folder, or what "
                "it was begun with to go on."
            )
    return old


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """Name the first thing in which they differ; the name by which a model was loaded is none."""
    for key in sorted({*old, *new} - {"name"}):
        if old.get(key) != new.get(key):
            shown = [str(one.get(key))[:60] for one in (old, new)]
            return f"{key}: {shown[0]} there, {shown[1]} here"
    return None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read study.json; StudyError where there is none, or a newer version wrote it."""
    path = folder / MANIFEST
    if not path.is_file():
        raise StudyError(f"{folder} is no study: expected a folder with {MANIFEST} in it.")
    try:
        found = read_json(path)
        version = found["format"]
        whole = isinstance(version, int) and {*_SAME, "finished"} <= found.keys()
        unchanged = is_unchanged(found, MANIFEST)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(folder, folder, MANIFEST, "cannot be read") from error
    if whole and version > FORMAT:
        raise StudyError(
            f"{folder} was written by a newer mha-viz (format {version}, this one reads {FORMAT}): "
            "install a newer mha-viz."
        )
    if not whole:
        raise damaged(folder, folder, MANIFEST, "lacks what a study says of itself")
    if not unchanged:
        raise damaged(folder, folder, MANIFEST, "was changed")
    return dict(found)


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write study.json in one step, with the hashes of the files that it lists."""
    _write_json(folder / MANIFEST, manifest)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_file(path, (json.dumps(with_hashes(content, path), indent=2) + "\n").encode())


def shard_folder(folder: Path, number: int) -> Path:
    """Return where a shard lies once it is complete."""
    return folder / SHARDS / f"{number:05d}"


def part_folder(folder: Path, name: str) -> Path:
    """Return where a part of a finished study lies."""
    return folder / PARTS / name


def row_files(folder: Path, table: str) -> list[Path]:
    """List the files of a table of single texts, in the order of these: parts, or else shards."""
    rows = PARTS if (folder / PARTS).exists() else SHARDS
    found = (folder / rows).glob(f"*[0-9]/{table}.parquet")
    return sorted(found, key=lambda path: int(path.parent.name))


def write_part(
    folder: Path,
    final: Path,
    tables: Mapping[str, pa.Table | Iterable[pa.Table]],
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """Write a folder of tables within a study; return its summary as `read_part` does.

    It has its name once all tables are there.
    """
    draft = final.with_name(f"{final.name}.part")
    with writing(folder):
        try:
            shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
            final.parent.mkdir(exist_ok=True)  # in a study that is still there
            draft.mkdir()
            for name, table in tables.items():
                write_table(draft / f"{name}.parquet", table)
            sizes = {path.name: path.stat().st_size for path in sorted(draft.iterdir())}
            summary = {**about, "files": sizes}
            _write_json(draft / SUMMARY, {"format": FORMAT, **summary})
            draft.replace(final)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return summary


def write_table(path: Path, table: pa.Table | Iterable[pa.Table]) -> None:
    """Write one Parquet file, down to the disk; the same table gives the same bytes.

    Of several tables each is a group of rows: they are taken one after the other.
    """
    tables = iter([table] if isinstance(table, pa.Table) else table)
    first = next(tables)
    floats = [field.name for field in first.schema if pa.types.is_floating(field.type)]
    with path.open("wb") as file:
        with pq.ParquetWriter(
            file,
            first.schema,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=[name for name in first.column_names if name not in floats],
            use_byte_stream_split=floats,  # a third less: exponents beside exponents
        ) as writer:
            for rows in itertools.chain([first], tables):
                writer.write_table(rows)
        file.flush()
        os.fsync(file.fileno())


def read_table(path: Path) -> pa.Table:
    """Read one Parquet file: for a small one a third of the work of pyarrow's `read_table`."""
    with pq.ParquetFile(path) as file:
        return file.read(use_threads=False)


def read_shard(folder: Path, number: int) -> dict[str, Any] | None:
    """Read the summary of a complete shard; None where there is no such shard."""
    return read_part(folder, shard_folder(folder, number))


def read_part(folder: Path, place: Path) -> dict[str, Any] | None:
    """Read the summary of a complete folder of tables; None where there is none."""
    if not place.exists():
        return None
    summary = read_summary(folder, place)
    try:
        check_files(folder, place, summary["files"])
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise damaged(folder, place, SUMMARY, "cannot be read") from error
    return {key: value for key, value in summary.items() if key not in ("format", HASHES)}


def read_summary(folder: Path, place: Path) -> dict[str, Any]:
    """Read the JSON file of a part, with the hashes of its files; StudyError if changed."""
    try:
        summary = dict(read_json(place / SUMMARY))
        unchanged = is_unchanged(summary, SUMMARY) and isinstance(summary["files"], dict)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(folder, place, SUMMARY, "cannot be read") from error
    if not unchanged:
        raise damaged(folder, place, SUMMARY, "was changed")
    return summary


def n_in_totals(folder: Path) -> int:
    """Count the shards, from the first on, that were added up and are gone."""
    return max((int(path.name) for path in (folder / TOTALS).glob("*[0-9]")), default=0)


def totals_folder(folder: Path, n_shards: int) -> Path:
    """Return where the totals of so many shards lie."""
    return folder / TOTALS / f"{n_shards:05d}"


def check_part(folder: Path, place: Path, names: Iterable[str] | None = None) -> None:
    """Compare files of a part (all if None) with their hashes; those older than hashes pass."""
    summary = read_summary(folder, place)
    files = summary["files"] if names is None else names
    check_hashes(folder, place, summary.get(HASHES, {}), files)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise WriteError in words for what the system says against writing."""
    try:
        yield
    except OSError as error:  # a WriteError is one, of a file that is written in one step
        cause = error.__cause__ if isinstance(error, WriteError) else None
        found = cause if isinstance(cause, OSError) else error
        reason = found.strerror or str(found)
        if found.errno == errno.ENOSPC:
            reason = "the disk is full"
        raise WriteError(
            f"The study {folder} cannot be written: {reason}. What is complete of it stays; once "
            "there is room, the same command goes on from there."
        ) from error


def _is_left_over(path: Path) -> bool:
    """Tell a lock, or a draft of a file that a killed process has left."""
    return path.name == LOCK or (path.name.startswith(".") and path.name.endswith(".part"))
