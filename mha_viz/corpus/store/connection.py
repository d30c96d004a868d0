"""Connections of DuckDB to a study's file, and words for what goes wrong when it is written."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from mha_viz.errors import StudyError, WriteError
from mha_viz.text.cleaning import visible

_NO_MEMORY = "failed to pin block"  # as DuckDB says it while it commits
_FULL = ("No space left", "Disk quota", "File too large")  # as the system says it


def connect(memory: str, threads: int) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that loads and fetches no extension."""
    config: dict[str, Any] = {"threads": threads, "memory_limit": memory}
    connection = duckdb.connect(":memory:", config=config)
    for setting in ("autoload_known_extensions", "autoinstall_known_extensions"):
        connection.execute(f"SET {setting} = false")
    for setting in ("python_enable_replacements", "enable_progress_bar"):
        connection.execute(f"SET {setting} = false")
    return connection


def attach(connection: duckdb.DuckDBPyConnection, path: Path, options: str = "") -> None:
    """Attach a file as `study`."""
    connection.execute(f"ATTACH {quoted(path)} AS study" + (f" ({options})" if options else ""))


def quoted(path: Path) -> str:
    """Quote a path for SQL.

    >>> quoted(Path("it's"))
    "'it''s'"
    """
    return "'" + str(path).replace("'", "''") + "'"


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise WriteError in words for what the system says against writing."""
    try:
        yield
    except (OSError, duckdb.Error) as error:  # a WriteError is one, of a file written in one step
        raise _failed(folder, error) from error


def _failed(folder: Path, error: Exception) -> StudyError | WriteError:
    reason = visible(str(error).strip().partition("\n")[0], 300)
    if isinstance(error, duckdb.Error):
        full = any(words in str(error) for words in _FULL)
        no_memory = isinstance(error, duckdb.OutOfMemoryException) or _NO_MEMORY in str(error)
        if not full and not no_memory:
            return StudyError(
                f"The study {folder} is damaged ({reason}): restore it, or delete it and make it "
                "anew."
            )
        reason = "the disk is full" if full else reason
    else:
        cause = error.__cause__ if isinstance(error, WriteError) else None
        os_error = cause if isinstance(cause, OSError) else error
        if isinstance(os_error, OSError):
            reason = os_error.strerror or str(os_error)
            reason = "the disk is full" if os_error.errno == errno.ENOSPC else reason
    return WriteError(
        f"The study {folder} cannot be written: {reason}. What is complete of it stays; once "
        "there is room, the same command goes on from there."
    )
