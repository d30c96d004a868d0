"""The studies that lie beside the shipped models: small, theirs, and what a live run finds."""

import shutil
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import mha_viz as mv
from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.corpus.run.sample_study import (
    FOLDER,
    STEPS,
    sample_study,
    shipped_steps,
    training_steps,
)
from mha_viz.corpus.run.study_set import formed
from mha_viz.corpus.treebank.trees import SAMPLE
from mha_viz.ui.run.studies import _OF_SAMPLE
from mha_viz.ui.run.study_job import StudyJob
from models.recipe import RECIPES, build
from models.store_sample_studies import made
from models.store_training_steps import made as steps_of
from models.train import KEPT_STEPS

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
