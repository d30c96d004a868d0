"""Studies of earlier versions: converted when they are opened, with the same answers."""

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import mha_viz as mv
from mha_viz.corpus.store.study_file import FILE, UNFINISHED
from mha_viz.errors import StudyError
from tests.corpus.older_studies import as_older, seal


@pytest.fixture(scope="module")
def study(bert: Any, tmp_path_factory: pytest.TempPathFactory) -> mv.Study:
    return mv.study(bert, "sample", tmp_path_factory.mktemp("trees") / "study", sample=11)


@pytest.fixture
def older(study: mv.Study, tmp_path: Path) -> Path:
    return as_older(study, tmp_path / "older")


def test_a_converted_study_answers_as_before(study: mv.Study, older: Path) -> None:
    (older / f"{UNFINISHED}.wal").write_bytes(b"of a conversion that was stopped")
    converted = mv.Study.load(older)
    for table in study._database.tables:
        rows = [one.sql(f'FROM "{table}"') for one in (study, converted)]
        keys = [name for name in rows[0] if rows[0][name].dtype.kind in "iu"]
        same = [one.sort_values(keys, kind="stable").reset_index(drop=True) for one in rows]
        pd.testing.assert_frame_equal(*same)
    for terms in ({"query": "the"}, {"relation": "nsubj"}, {"query_upos": "VERB", "min_weight": 0}):
        pd.testing.assert_frame_equal(study.search(**terms), converted.search(**terms))
    written = (older / FILE).stat().st_mtime_ns
    assert mv.Study.load(older).heads.equals(converted.heads)
    assert (older / FILE).stat().st_mtime_ns == written and (older / "study.json").exists()


@pytest.mark.parametrize("name", ["heads.parquet", "parts/00000/texts.parquet", "study.json"])
def test_a_changed_file_is_told_and_nothing_converted(older: Path, name: str) -> None:
    content = bytearray((older / name).read_bytes())
    content[len(content) // 2] ^= 1
    (older / name).write_bytes(content)
    with pytest.raises(StudyError, match="damaged"):
        mv.Study.load(older)
    assert not (older / FILE).exists()


def test_a_lost_file_is_named(older: Path) -> None:
    (older / "labels.parquet").unlink()
    with pytest.raises(StudyError, match=r"labels\.parquet"):
        mv.Study.load(older)


def test_very_many_equal_rows_are_not_converted(older: Path) -> None:
    """Twenty million of them take less room than a page of text has, and gigabytes once read."""
    path = older / "heads.parquet"
    row = parquet.read_table(path).slice(0, 1)
    rows = row.take(pa.array([0] * 100_000))
    with parquet.ParquetWriter(path, rows.schema, compression="zstd") as file:
        for _ in range(200):
            file.write_table(rows)
    seal(older / "study.json", json.loads((older / "study.json").read_text()))
    with pytest.raises(StudyError, match="has 20,000,000 rows, and can have"):
        mv.Study.load(older)


def test_names_of_files_are_no_sql_and_pipes_are_not_opened(study: mv.Study, older: Path) -> None:
    evil = "x\" AS SELECT 1; COPY (SELECT 1) TO 'gone'; CREATE VIEW \"y"
    (older / f"{evil}.parquet").write_bytes((older / "heads.parquet").read_bytes())
    seal(older / "study.json", json.loads((older / "study.json").read_text()))
    os.mkfifo(older / "pipe.parquet")
    assert mv.Study.load(older)._database.tables == study._database.tables
    assert not Path("gone").exists() and not (older / "gone").exists()


def test_what_cannot_be_converted_is_told(study: mv.Study, tmp_path: Path, bert: Any) -> None:
    begun = as_older(study, tmp_path / "begun", finished=False)
    with pytest.raises(StudyError, match="unfinished: make it anew"):
        mv.Study.load(begun)
    with pytest.raises(StudyError, match="earlier version"):
        mv.study(bert, "sample", begun, sample=11)
    (begun / "study.json").write_bytes(b"[" * 9_000_000)
    with pytest.raises(StudyError, match=r"study\.json"):
        mv.Study.load(begun)
