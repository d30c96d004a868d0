"""Texts of a small study, all bytes that a study has written, and studies changed on purpose."""

import hashlib
from pathlib import Path
from typing import Any

import duckdb
import pytest

import mha_viz as mv
from mha_viz.corpus.sources import source
from mha_viz.corpus.store.study_file import FILE

TEXTS = [
    "The cat sat on the mat because the cat was tired.",
    "She said that he had gone home.",
    "the  cat sat on the mat because the cat was tired.",
    "Why did the dog bark, and why did the dog stop?",
    "Rain fell all night because the wind had turned.",
    "A hundred_percent 100% sure thing.",
    "He saw her and she saw him.",
]
LINES = [f"{text} Number {i}." for i in range(3) for text in TEXTS]  # 21 texts, 6 shards of 4
FEW = LINES[:12]  # 3 shards


class Stopped(Exception):
    """An error that a test raises in the middle of a study."""


def study_in_shards(n_texts: int, *given: Any, **more: Any) -> mv.Study:
    """Make a study that has so many texts in each shard."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "SHARD_TEXTS", n_texts)
        return mv.study(*given, **more)


def files_of(folder: Path) -> dict[str, str]:
    """Every file of a folder and the hash of its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def tables_of(folder: Path) -> dict[str, str]:
    """Every table of a study and the hash of its rows, in their order."""
    with duckdb.connect(folder / FILE, read_only=True) as connection:
        names = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        rows = {name: connection.sql(f'FROM "{name}"').to_arrow_table() for (name,) in names}
    return {
        name: hashlib.sha256(repr(table.to_pydict()).encode()).hexdigest()
        for name, table in rows.items()
    }


def changed(folder: Path, *statements: str) -> Path:
    """The same study, changed by SQL."""
    with duckdb.connect(folder / FILE) as connection:
        for statement in statements:
            connection.execute(statement)
    return folder
