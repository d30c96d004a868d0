"""Studies from strangers, damaged or forged: answered, or refused in one sentence."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import mha_viz as mv
from mha_viz.corpus.query.study_tables import AXES
from mha_viz.corpus.store.integrity import HASHES, sealed, with_hashes
from mha_viz.corpus.treebank.trees import sample_lines
from mha_viz.errors import MhaVizError, StudyError
from tests.corpus.small_studies import resealed
from tests.making.checkpoints import bounded
from tests.strangers.files.damage import as_json, changed, damaged, forged
from tests.strangers.fuzzing import LONG, fuzzed

pytestmark = pytest.mark.slow
BOMBS = (
    *("heads.parquet", "parts/00000/texts.parquet", "edges.parquet", "profile.parquet"),
    *("pairs.parquet", "labels.parquet", "relations.parquet", "coreference.parquet"),
    *("parts/00000/sentences.parquet", "parts/00000/words.parquet"),
)


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


@pytest.mark.parametrize("name", BOMBS if LONG else BOMBS[:2])
def test_very_many_equal_rows_are_not_read(folder: Path, tmp_path: Path, name: str) -> None:
    """Twenty million of them take less room than a page of text has, and gigabytes once read."""
    row = parquet.read_table(folder / name).slice(0, 1)
    rows = row.take(pa.array(np.zeros(100_000, dtype=np.int64)))
    place = changed(folder, tmp_path, name, b"")
    with parquet.ParquetWriter(place / name, rows.schema, compression="zstd") as file:
        for _ in range(200):
            file.write_table(rows)
    refusals = told(resealed(place))
    assert any("has 20,000,000 rows, and can have" in refusal for refusal in refusals)


def test_names_of_files_are_no_sql(folder: Path, tmp_path: Path) -> None:
    place = changed(folder, tmp_path, "study.json", (folder / "study.json").read_bytes())
    table = (folder / "heads.parquet").read_bytes()
    evil = "x\" AS SELECT 1; COPY (SELECT 1) TO 'gone'; CREATE VIEW \"y"
    (place / f"{evil}.parquet").write_bytes(table)
    (place / "parts/00000" / f"{evil}.parquet").write_bytes(table)
    os.mkfifo(place / "pipe.parquet")
    assert not told(place)
    assert not Path("gone").exists() and not (place / "gone").exists()


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
    content = json.loads((folder / "study.json").read_text("utf-8"))
    content[part][name] = value
    sealed = as_json(with_hashes(content, folder / "study.json"))
    place = changed(folder, tmp_path, "study.json", sealed)
    with pytest.raises(StudyError, match="study\\.json was changed"):
        mv.Study.load(place)


# -- its files -------------------------------------------------------------------------------------


def files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


@given(data=st.data())
@fuzzed(daily=25, long=1_000)
def test_damaged_files(folder: Path, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(files(folder)))
    content = data.draw(damaged((folder / name).read_bytes()))
    place = changed(folder, tmp_path, name, content)
    told(resealed(place) if name.suffix == ".parquet" else place)  # strangers know hashes, too


@given(data=st.data())
@fuzzed(daily=25, long=1_000)
def test_values_of_another_kind(folder: Path, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([path for path in files(folder) if path.suffix == ".json"]))
    value = data.draw(forged(json.loads((folder / name).read_text("utf-8"))))
    if isinstance(value, dict) and isinstance(value.get(HASHES), dict):
        value = sealed(value, name.name)
    told(changed(folder, tmp_path, name, as_json(value)))


def test_a_pipe_and_a_flood_in_place_of_what_a_study_says_of_itself(
    folder: Path, tmp_path: Path
) -> None:
    place = changed(folder, tmp_path, Path("study.json"), b"[" * 9_000_000)
    (refusal,) = told(place)
    assert "study.json" in refusal
    (place / "study.json").unlink()
    os.mkfifo(place / "study.json")
    with pytest.raises(StudyError):
        mv.Study.load(place)
