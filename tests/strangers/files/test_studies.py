"""Studies from strangers: one that answers, or one sentence of ours."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mha_viz as mv
from mha_viz.corpus.store.integrity import HASHES, sealed
from mha_viz.errors import MhaVizError, StudyError
from tests.corpus.small_studies import resealed
from tests.making.checkpoints import bounded
from tests.strangers.files.damage import as_json, changed, damaged, forged
from tests.strangers.fuzzing import fuzzed

pytestmark = pytest.mark.slow
TEXTS = ["The old dog slept.", "A young cat watched two birds on the roof."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whole") / "study"
    asked(mv.study(mv.load("tiny-bert"), TEXTS, place))
    return place


def asked(study: mv.Study) -> None:
    """Whatever a page asks of a study."""
    assert repr(study)
    for table in (study.heads, study.labels, study.profile):
        assert len(table.columns) > 1
    study.sql("select * from texts")
    study.examples(1, 2)
    study.search(query="cat")


def opened(folder: Path) -> str:
    """The sentence that refuses a study; "" of one that answers."""
    with bounded(seconds=1):
        try:
            asked(mv.Study.load(folder))
        except MhaVizError as error:
            said = str(error)
            assert 0 < len(said) < 2_000 and "Traceback" not in said, said
            return said
    return ""


def files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


@given(data=st.data())
@fuzzed(daily=25, long=1_000)
def test_damaged_files(folder: Path, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(files(folder)))
    content = data.draw(damaged((folder / name).read_bytes()))
    place = changed(folder, tmp_path, name, content)
    opened(resealed(place) if name.suffix == ".parquet" else place)  # strangers know hashes, too


@given(data=st.data())
@fuzzed(daily=25, long=1_000)
def test_values_of_another_kind(folder: Path, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([one for one in files(folder) if one.suffix == ".json"]))
    value = data.draw(forged(json.loads((folder / name).read_text("utf-8"))))
    if isinstance(value, dict) and isinstance(value.get(HASHES), dict):
        value = sealed(value, name.name)
    opened(changed(folder, tmp_path, name, as_json(value)))


def test_a_pipe_and_a_flood_in_place_of_what_a_study_says_of_itself(
    folder: Path, tmp_path: Path
) -> None:
    place = changed(folder, tmp_path, Path("study.json"), b"[" * 9_000_000)
    assert "study.json" in opened(place)
    (place / "study.json").unlink()
    os.mkfifo(place / "study.json")
    with pytest.raises(StudyError):
        mv.Study.load(place)
