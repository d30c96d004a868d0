"""The stored first run equals the live one, and never stands in for other weights."""

import shutil
from pathlib import Path

import pytest
import torch

from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.core.record.file import TENSORS
from mha_viz.reports import stored_run
from mha_viz.reports.report import report
from mha_viz.reports.stored_run import StoredRun
from mha_viz.ui.state.views import DEFAULT
from models.store_first_run import first_run
from tests.making.comparing import ROUNDING, near

AGAIN = "run `python -m models.store_first_run` again"


@pytest.fixture(scope="module")
def stored() -> StoredRun:
    found = stored_run.read(DEFAULT.model)
    assert found is not None, f"the files of {DEFAULT.model} are not those that were run: {AGAIN}"
    return found


@pytest.fixture(scope="module")
def live() -> StoredRun:
    return first_run()


def same(a: torch.Tensor | None, b: torch.Tensor | None) -> None:
    assert (a is None) == (b is None)
    if a is not None and b is not None:
        near_enough = dict(atol=ROUNDING, rtol=ROUNDING, equal_nan=True)
        torch.testing.assert_close(a, b, **near_enough, msg=lambda m: f"{m}\n{AGAIN}")


def test_it_is_the_first_sentence_on_the_first_model(stored):
    assert stored.is_of(DEFAULT.part, DEFAULT.text, None)
    assert not stored.is_of(DEFAULT.part, DEFAULT.text + " ", None)
    assert not stored.is_of(DEFAULT.part, DEFAULT.text, "And another one.")
    assert stored.model.name == DEFAULT.model


def test_the_record_is_the_live_one(stored, live):
    assert stored.record.describe() == live.record.describe()
    for name in TENSORS:
        same(getattr(stored.record, name), getattr(live.record, name))
    assert len(stored.record.W_O) == len(live.record.W_O) == 4
    assert all(map(torch.equal, stored.record.W_O, live.record.W_O))
    assert stored.model == live.model


def test_the_report_is_the_live_one(stored, live):
    made, wanted = (
        report(run.record, induction=run.induction, random_scores=run.random_scores)
        for run in (stored, live)
    )
    assert made.scores.keys() == wanted.scores.keys() >= {"entropy", "induction", "output_share"}
    for key in wanted.scores:
        same(made.scores[key], wanted.scores[key])
        for name in ("uniform", "offset", "random", "random_low", "random_high"):
            ours, theirs = (getattr(one.baselines.get(key), name, None) for one in (made, wanted))
            assert ours == (theirs if theirs is None else near(theirs)), key
    titles = [
        [[earned.label.title for earned in head] for row in one.labels for head in row]
        for one in (made, wanted)
    ]
    assert titles[0] == titles[1] and any(titles[0])
    for name in ("mean", "low", "high"):
        same(getattr(stored.induction, name), getattr(live.induction, name))
    assert made.notes == wanted.notes


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model in a folder where it may be changed."""
    folder = tmp_path / DEFAULT.model
    shutil.copytree(shipped_folder() / DEFAULT.model, folder)
    monkeypatch.setattr(stored_run, "shipped_folder", lambda: tmp_path)
    assert stored_run.read(DEFAULT.model) is not None
    return folder


@pytest.mark.parametrize("name", stored_run.SOURCES)
def test_it_stands_in_for_no_other_files(copied: Path, name: str):
    with (copied / name).open("ab") as file:
        file.write(b" ")
    assert stored_run.read(DEFAULT.model) is None


@pytest.mark.parametrize("name", [stored_run.RECORD, stored_run.BESIDE])
@pytest.mark.parametrize("damage", ["gone", "cut", "foreign"])
def test_a_damaged_one_is_left_alone(copied: Path, name: str, damage: str):
    path = copied / stored_run.FOLDER / name
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:1000])
    else:
        shutil.copy(copied / "model.safetensors", path)
    assert stored_run.read(DEFAULT.model) is None


@pytest.mark.parametrize("name", ["tiny-gpt2", "", "..", "owner/name", "../models/tiny-bert"])
def test_other_models_bring_none(name: str):
    assert stored_run.read(name) is None


def test_what_is_written_is_read(copied: Path, stored: StoredRun):
    shutil.rmtree(copied / stored_run.FOLDER)
    stored_run.write(copied, stored)
    again = stored_run.read(DEFAULT.model)
    assert again is not None and again.record == stored.record and again.model == stored.model
    assert again.induction.uniform == stored.induction.uniform
    for key, scores in stored.random_scores.items():
        same(again.random_scores[key], scores)
