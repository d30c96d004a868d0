"""Studies from strangers, damaged or forged: answered, or refused in one sentence."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mha_viz as mv
from mha_viz.corpus.query.study_tables import AXES
from mha_viz.corpus.store.study_file import FILE
from mha_viz.corpus.treebank.trees import sample_lines
from mha_viz.errors import MhaVizError, StudyError
from tests.corpus.small_studies import changed
from tests.making.checkpoints import bounded
from tests.strangers.files.damage import as_json, damaged, forged
from tests.strangers.files.damage import changed as replaced
from tests.strangers.fuzzing import LONG, fuzzed

pytestmark = pytest.mark.slow
BOMBS = "heads texts edge_rows profile pairs labels relations coreference sentences words".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of five sentences with their trees."""
    place = tmp_path_factory.mktemp("whole")
    sentences = "\n".join(sample_lines()).split("\n\n")[:5]
    (place / "a.conllu").write_text("\n\n".join(sentences), "utf-8")
    mv.study(mv.load("tiny-bert"), place / "a.conllu", place / "study")
    assert not told(place / "study")  # what is asked once is nobody's growth
    return place / "study"


def questions(study: mv.Study) -> Iterator[Callable[[], Any]]:
    """All that a study can be asked."""
    for name in ("heads", "labels", "relations", "parts_of_speech", "trees", "coreference", "cut"):
        yield lambda name=name: getattr(study, name)
    for axis in AXES:
        yield lambda axis=axis: study.profile_by(axis)
    yield lambda: study.pairs()
    yield lambda: study.pairs("cka", "std")
    yield lambda: study.sentence(0)
    yield lambda: study.examples(1, 2)
    yield lambda: study.search(query="the")
    yield lambda: study.search(relation="nsubj")
    yield lambda: study.search(query_upos="VERB", key="*", previous=True)
    yield lambda: study.sql("select * from heads limit 9")


def told(folder: Path) -> list[str]:
    """The sentences that refuse a study, or answers; none of one that is whole."""
    found = []
    with bounded(seconds=1):
        try:
            study = mv.Study.load(folder)
        except MhaVizError as error:
            return [said(error)]
        for ask in questions(study):
            try:
                ask()
            except MhaVizError as error:
                found.append(said(error))
    return found


def said(error: MhaVizError) -> str:
    sentence = str(error)
    assert 0 < len(sentence) < 1_000 and "Traceback" not in sentence, sentence
    return sentence


@pytest.mark.parametrize("table", BOMBS if LONG else BOMBS[:2])
def test_very_many_equal_rows_are_not_read(folder: Path, tmp_path: Path, table: str) -> None:
    """Twenty million of them take a few kilobytes, and gigabytes once they are read."""
    place = shutil.copytree(folder, tmp_path / "study")
    many = f"INSERT INTO {table} SELECT one.* FROM (FROM {table} LIMIT 1) AS one, range(20_000_000)"
    refusals = told(changed(place, many))
    assert any("has 20,0" in refusal and " rows, " in refusal for refusal in refusals)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW evil AS SELECT * FROM read_text('/etc/hostname')",
        "DROP TABLE heads; CREATE VIEW heads AS SELECT * FROM read_text('/etc/hostname')",
        "CREATE MACRO lower(word) AS 'gone'",
        "CREATE MACRO of_files() AS TABLE FROM glob('/*')",
        "CREATE SEQUENCE numbers",
        "CREATE TYPE mood AS ENUM ('good')",
        "CREATE SCHEMA other; CREATE TABLE other.heads (layer SMALLINT)",
        "CREATE TABLE others (layer SMALLINT)",
        "CREATE INDEX evil ON heads (layer)",
        "ALTER TABLE heads ADD COLUMN evil VARCHAR",
        "ALTER TABLE texts ADD COLUMN evil VARCHAR",
        "ALTER TABLE heads ALTER COLUMN mean TYPE VARCHAR",
        "ALTER TABLE heads ALTER COLUMN mean SET DEFAULT random()",
        "ALTER TABLE heads ALTER COLUMN mean SET NOT NULL",
        "CREATE OR REPLACE TABLE arcs (text_id BIGINT, dependent_token INTEGER, head_token INTEGER,"
        " relation VARCHAR, dependent_upos VARCHAR, head_upos VARCHAR AS (getvariable('a')))",
        "CREATE OR REPLACE TABLE arcs (text_id BIGINT CHECK (text_id > random()), dependent_token "
        "INTEGER, head_token INTEGER, relation VARCHAR, dependent_upos VARCHAR, head_upos VARCHAR)",
        "INSERT INTO names SELECT * FROM names",
        "DROP TABLE manifest",
    ],
)
def test_what_no_study_has_is_refused(folder: Path, tmp_path: Path, statement: str) -> None:
    place = shutil.copytree(folder, tmp_path / "study")
    refusals = told(changed(place, *statement.split("; ")))
    assert refusals and all("damaged: study.duckdb cannot be read" in one for one in refusals)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        *(("model", "n_heads", value) for value in (-1, 10**6, float("nan"), 10**400)),
        *(("counts", "n_texts", value) for value in (0, 10**12)),
        ("counts", "n_truncated", "many"),
        ("model", "name", "\ud800"),
    ],
)
def test_what_a_study_says_of_itself_is_held_against_what_can_be(
    folder: Path, tmp_path: Path, part: str, name: str, value: Any
) -> None:
    content = mv.Study.load(folder).manifest
    content = {**content, part: {**content[part], name: value}}
    place = shutil.copytree(folder, tmp_path / "study")
    with pytest.raises(StudyError, match="says of itself was changed"):
        mv.Study.load(with_manifest(place, content))


def with_manifest(place: Path, content: Any) -> Path:
    said = as_json(content).decode().replace("'", "''")
    return changed(place, f"UPDATE manifest SET content = '{said}'")


BLOCK, HEADER = 65_536, 4_096  # bytes


def resealed(content: bytes) -> bytes:
    """The same file with the checksums that its blocks have now: strangers know these, too."""
    whole, starts = bytearray(content), [0, HEADER, 2 * HEADER]
    for at in (*starts, *range(3 * HEADER, len(content), BLOCK)):
        block = whole[at : at + (HEADER if at in starts else BLOCK)]
        words = np.frombuffer(bytes(block[8 : len(block) // 8 * 8]), dtype="<u8")
        with np.errstate(over="ignore"):
            found = int(np.bitwise_xor.reduce(words * np.uint64(0xBF58476D1CE4E5B9), initial=0))
        whole[at : at + 8] = (found ^ 5381).to_bytes(8, "little")
    return bytes(whole)


def test_resealed_leaves_a_file_as_it_is(folder: Path) -> None:
    content = (folder / FILE).read_bytes()
    assert resealed(content) == content


@given(data=st.data())
@fuzzed(daily=7, long=500)
def test_damaged_files(folder: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Some of these end the process that reads them: a trial, not this one."""
    content = data.draw(damaged((folder / FILE).read_bytes()))
    if data.draw(st.booleans()):
        content = resealed(content)
    told(replaced(folder, tmp_path, FILE, content))


@given(data=st.data())
@fuzzed(daily=11, long=500)
def test_values_of_another_kind(folder: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = data.draw(forged(mv.Study.load(folder).manifest))
    place = replaced(folder, tmp_path, "note.txt", b"")
    told(with_manifest(place, content))


def test_a_pipe_and_an_empty_file_in_place_of_a_study(folder: Path, tmp_path: Path) -> None:
    place = replaced(folder, tmp_path, FILE, b"")
    (refusal,) = told(place)
    assert FILE in refusal
    (place / FILE).unlink()
    os.mkfifo(place / FILE)
    with pytest.raises(StudyError):
        mv.Study.load(place)
