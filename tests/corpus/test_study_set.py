"""Studies of several models over the same texts."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

import mha_viz as mv
from mha_viz.corpus.run.study_set import StudySet, formed
from mha_viz.errors import ArgumentError
from mha_viz.reports.induction import induction_scores

TEXTS = [f"The old dog saw {number} cats, and then it ran." for number in range(11)]
SHIPPED = Path(__file__).parents[2] / "models" / "tiny-gpt2"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training run of three checkpoints: the weights are 0, 3/10 and all of a trained model's."""
    folder = tmp_path_factory.mktemp("run")
    weights = load_file(SHIPPED / "model.safetensors")
    for step in (10, 0, 3):
        place = folder / f"step-{step}"
        place.mkdir()
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(SHIPPED / name, place)
        scaled = {name: of * (step / 10 if of.ndim > 1 else 1) for name, of in weights.items()}
        save_file(scaled, place / "model.safetensors", metadata={"format": "pt"})
    (folder / "step-notes.txt").touch()
    return folder


@pytest.fixture(scope="module")
def training(run: Path, tmp_path_factory: pytest.TempPathFactory) -> StudySet:
    """Return the studies of that run."""
    return mv.studies(run, TEXTS, tmp_path_factory.mktemp("training") / "set")


def test_the_table_over_steps_is_that_of_each_checkpoint(run: Path, training: StudySet) -> None:
    found = training
    steps = found.over_steps()
    assert list(steps.columns) == "step layer head name mean low high holds".split()
    for name, one in found.studies.items():
        own = steps[steps["step"] == int(name.removeprefix("step-"))].reset_index(drop=True)
        heads, labels = one.heads, one.sql("SELECT * FROM labels")
        for end in ("mean", "low", "high"):
            measured = own[end][: len(heads)]
            assert measured.to_numpy() == pytest.approx(heads[end].to_numpy(), nan_ok=True)
        rest = own[len(heads) : len(heads) + len(labels)].reset_index(drop=True)
        assert rest["name"].tolist() == [f"label_{key}" for key in labels["label"]]
        assert rest["mean"].to_numpy() == pytest.approx(labels["share_of_texts"].to_numpy())
        assert rest["holds"].tolist() == labels["earned"].tolist()
        probed = induction_scores(mv.load(str(run / name)))
        last = own[own["name"] == "induction"]
        assert last["mean"].to_numpy() == pytest.approx(probed.mean.numpy().ravel())
        assert len(own) == len(heads) + len(labels) + len(last)

    first = formed(steps, "induction")  # of the trained model, whose weights the last one has
    assert first is not None and first["step"] == 10 and first["low"] >= 0.4
    last = steps[(steps["name"] == "induction") & (steps["step"] == 10)]
    assert last.loc[last["mean"].idxmax(), ["layer", "head"]].tolist() == [
        first["layer"],
        first["head"],
    ]
    assert formed(steps, "label_separator") is None

    figure = found.figure("induction", (3, 5))
    drawn = {trace.name: trace.y for trace in figure.draw().data if trace.name}
    assert len(drawn) == 5 and "L3 H5" in drawn and f"L{first['layer']} H{first['head']}" in drawn
    own = steps[(steps["name"] == "induction") & (steps["layer"] == 3) & (steps["head"] == 5)]
    assert drawn["L3 H5"] == pytest.approx(own["mean"].to_numpy())
    assert "random tokens, repeated, in place of these texts" in figure.caption
    with pytest.raises(ArgumentError, match="'charm'"):
        found.figure("charm")


def test_a_stop_in_the_second_costs_the_first_nothing(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    calls = []

    def stop(progress) -> None:
        calls.append(progress)
        if (tmp_path / "set" / "tiny-llama").exists():
            raise Stop

    models = ["tiny-bert", "tiny-llama"]
    with pytest.raises(Stop):
        mv.studies(models, TEXTS, tmp_path / "set", on_progress=stop)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "set" / "tiny-bert").rglob("*.duckdb")}
    again = mv.studies(models, TEXTS, tmp_path / "set")
    assert before and {path: path.stat().st_mtime_ns for path in before} == before
    assert [one.n_texts for one in again.studies.values()] == [11, 11]
    _check_tables(again)


def _check_tables(found: StudySet) -> None:
    """Check that the tables of models that are no training run stand below each other."""
    with pytest.raises(ArgumentError, match=r"step-0.*tiny"):
        found.over_steps()
    assert list(found.studies) == ["tiny-bert", "tiny-llama"]
    for table in ("heads", "labels"):
        rows = getattr(found, table)
        assert "step" not in rows and rows["model"].drop_duplicates().tolist() == list(
            found.studies
        )
        for name, one in found.studies.items():
            own = rows[rows["model"] == name].drop(columns="model").reset_index(drop=True)
            alone = getattr(one, table).reset_index(drop=True)
            pd.testing.assert_frame_equal(own, alone, check_exact=True)


@pytest.mark.parametrize("models", [[], ["tiny-bert", str(SHIPPED.parent / "tiny-bert")]])
def test_models_need_names_of_their_own(models: list[str], tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"models.*(none|tiny-bert, t)"):
        mv.studies(models, TEXTS, tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_a_folder_without_checkpoints_is_refused(tmp_path: Path) -> None:
    (tmp_path / "step-one").mkdir()
    with pytest.raises(ArgumentError, match="step-0"):
        mv.studies(tmp_path, TEXTS, tmp_path / "set")
