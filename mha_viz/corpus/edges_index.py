"""All edges of a study in two files, one in order of query words, one of key words, to search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb

from mha_viz.core.asking import ask
from mha_viz.corpus.storage import SHARDS
from mha_viz.errors import WriteError

BY_QUERY, BY_KEY = "edges", "edges_by_key"  # the files' names
ROWS = 20_480  # of a row group: a search reads those alone that may hold its word
_MEMORY = "128MB"  # as fast as more for a few million edges, which would fill whatever is there
_MORE_MEMORY = "1GB"  # for so many that their parts cannot be merged in that
_LAST = "layer, head, text_id, query, key"  # tells any two edges apart, so that the order is one


def sort_edges(folder: Path) -> None:
    """Write them, where the study has edges.

    `query_word` and `key_word` are the tokens in small letters, as a search compares them.

    Args:
        folder: of a study with all its shards.

    Raises:
        WriteError: a full disk.
    """
    if not any((folder / SHARDS).glob("*/edges.parquet")):
        return
    on_disk(folder, lambda connection: _sort(connection, folder))


def _sort(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    for name, word in ((BY_QUERY, "query_word"), (BY_KEY, "key_word")):
        ask()
        draft = folder / f".{name}.part"
        connection.execute(
            f"""COPY (
                SELECT *, lower(trim(query_token)) AS query_word,
                    lower(trim(key_token)) AS key_word
                FROM read_parquet({quoted(folder / SHARDS / "*" / "edges.parquet")})
                ORDER BY {word}, {_LAST}
            ) TO {quoted(draft)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROWS})"""
        )
        draft.replace(folder / f"{name}.parquet")


def on_disk(folder: Path, make: Callable[[duckdb.DuckDBPyConnection], None]) -> None:
    """Make files of a study with a database that keeps on the disk what is too much for memory.

    Args:
        folder: of the study.
        make: does it; once more, from the beginning, where it needs more memory.

    Raises:
        WriteError: a full disk.
    """
    try:
        try:
            _with_memory(folder, make, _MEMORY)
        except duckdb.OutOfMemoryException:
            _with_memory(folder, make, _MORE_MEMORY)
    except duckdb.Error as error:  # a full disk, mostly
        raise WriteError(str(error).splitlines()[0]) from None


def _with_memory(
    folder: Path, make: Callable[[duckdb.DuckDBPyConnection], None], memory: str
) -> None:
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET threads = 1")  # the same order each time
        connection.execute(f"SET memory_limit = '{memory}'")  # what is more lies on the disk
        connection.execute("SET temp_directory = " + quoted(folder / ".sorting.part"))
        make(connection)


def quoted(path: Path) -> str:
    """A path as SQL writes a text.

    >>> quoted(Path("it's"))
    "'it''s'"
    """
    return "'" + str(path).replace("'", "''") + "'"
