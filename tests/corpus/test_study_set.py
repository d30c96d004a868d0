"""Studies of several models over the same texts."""

import shutil
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

import mha_viz as mv
from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.corpus.run.sample_study import (
    FOLDER,
    STEPS,
    sample_study,
    shipped_steps,
    training_steps,
)
from mha_viz.corpus.run.study_set import StudySet, formed
from mha_viz.corpus.treebank.trees import SAMPLE
from mha_viz.errors import ArgumentError
from mha_viz.reports.induction import induction_scores
from mha_viz.ui.run.studies import _OF_SAMPLE
from mha_viz.ui.run.study_job import StudyJob
from models.recipe import RECIPES, build
from models.store_sample_studies import made
from models.store_training_steps import made as steps_of
from models.train import KEPT_STEPS

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


NAMES = ["tiny-bert", "tiny-gpt2", "tiny-llama"]
AGAIN = "run `python -m models.store_sample_studies` again"
MOST_BYTES = 2 * 2**20  # packed, as a wheel and git have it


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_model_has_one_that_is_small_and_begun_with_at_once(name: str, tmp_path) -> None:
    folder = shipped_folder() / name / FOLDER
    assert sum(len(zlib.compress(path.read_bytes())) for path in folder.rglob("*")) <= MOST_BYTES
    model = mv.load(name, device="cpu")

    job = StudyJob(tmp_path, _OF_SAMPLE, None, None, lambda job, number: None)
    job.begin(model)
    assert job.study is not None, AGAIN
    assert job.study.folder == folder and not job.runs and not any(tmp_path.iterdir())
    assert job.study.search("cat", limit=1) is not None


def test_other_weights_of_that_name_have_none() -> None:
    model = mv.load("tiny-bert", device="cpu")
    assert sample_study(model) is not None
    with torch.no_grad():
        next(model.network.parameters()).flatten()[0] += 1
    assert sample_study(model) is None


def test_a_metric_of_ones_own_is_measured_anew() -> None:
    model = mv.load("tiny-bert", device="cpu")
    before = dict(mv.METRICS)
    try:

        @mv.register_metric
        def mean_of_all(pattern):
            return pattern.mean((-2, -1))

        assert sample_study(model) is None
    finally:
        mv.METRICS.clear()
        mv.METRICS.update(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.extended) for name in NAMES[1:])]
)
def test_a_live_run_finds_the_same(name: str, tmp_path: Path) -> None:
    live, stored = made(name, tmp_path / "live"), mv.Study.load(shipped_folder() / name / FOLDER)
    assert SAMPLE.name == stored.manifest["source_name"]
    for part in ("model", "source", "settings", "counts", "unit"):
        assert live.manifest[part] == stored.manifest[part], AGAIN
    for table in ("heads", "labels", "relations", "trees", "coreference", "parts_of_speech"):
        ours, theirs = (getattr(one, table) for one in (live, stored))
        assert list(ours.columns) == list(theirs.columns) and len(ours) == len(theirs), AGAIN
        for column in ours:
            assert alike(ours[column], theirs[column]) >= 0.99, (AGAIN, table, column)


@pytest.mark.extended
@pytest.mark.slow
def test_a_run_of_the_recipe_begins_with_its_random_weights(tmp_path: Path) -> None:
    stored = shipped_steps("tiny-gpt2")
    assert stored is not None and shipped_steps("tiny-bert") is None
    assert (shipped_folder() / "tiny-gpt2" / STEPS).stat().st_size < 200_000
    assert training_steps(mv.Study.load(shipped_folder() / "tiny-bert" / FOLDER)) is None
    theirs = training_steps(mv.Study.load(shipped_folder() / "tiny-gpt2" / FOLDER))
    pd.testing.assert_frame_equal(theirs, stored)
    assert stored["step"].drop_duplicates().tolist() == sorted(KEPT_STEPS)

    shutil.copytree(shipped_folder() / "tiny-gpt2", tmp_path / "step-0")
    build(RECIPES["gpt2"]).half().save_pretrained(tmp_path / "step-0")
    live, again = (
        steps_of(tmp_path, tmp_path / "out"),
        "run `python -m models.store_training_steps`",
    )
    begun = stored[stored["step"] == 0].reset_index(drop=True)
    assert live["name"].tolist() == begun["name"].tolist(), again
    for column in live:
        assert alike(live[column], begun[column]) >= 0.99, (again, column)


def test_the_heads_of_that_run_form_as_the_lab_says() -> None:
    steps = shipped_steps("tiny-gpt2")
    assert steps is not None
    previous, induction = (formed(steps, name) for name in ("label_previous_token", "induction"))
    assert previous is not None and induction is not None
    assert previous["layer"] == 0 < induction["layer"] and previous["step"] <= induction["step"]
    most = steps.groupby(["name", "step"])["mean"].max()
    for name in ("previous_token", "induction"):
        assert most[name].iloc[0] < 0.3 and most[name].iloc[-1] > 0.85


def alike(ours: pd.Series, theirs: pd.Series) -> float:
    """The share of cells that are the same; processors break a few ties of weights otherwise."""
    if not pd.api.types.is_float_dtype(ours.dtype):
        return float((ours == theirs).mean())
    numbers = ours.to_numpy(), theirs.to_numpy()
    return float(np.isclose(*numbers, atol=1e-4, rtol=1e-3, equal_nan=True).mean())
