"""The studies of the sample that lie beside the shipped models, made beforehand."""

from pathlib import PurePath

import pandas as pd

from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.corpus.measure.scores import own_scores
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.store.database import Database, trust
from mha_viz.corpus.store.manifest import model_identity
from mha_viz.corpus.store.study_file import FILE
from mha_viz.engine.model import AttentionModel

FOLDER = "sample_study"  # in the model's
STEPS = "training_steps.parquet"  # there, of a model that was trained anew by the same recipe


def sample_study(model: AttentionModel) -> Study | None:
    """Return the study that was made of a model beforehand, by all metrics; None if none was."""
    folder = shipped_folder() / PurePath(model.name).name / FOLDER
    if own_scores() or not (folder / FILE).is_file():
        return None
    trust(folder / FILE)  # it comes with the package
    study = Study.load(folder)
    return study if study.manifest["model"] == model_identity(model) else None


def training_steps(study: Study) -> pd.DataFrame | None:
    """Return `shipped_steps` of the model of a study; None if none are shipped."""
    name = PurePath(study.manifest["model"]["name"]).name
    steps = shipped_steps(name)
    if steps is None:
        return None
    trust(shipped_folder() / name / FOLDER / FILE)
    sample = Database(shipped_folder() / name / FOLDER)
    return steps if sample.manifest["model"] == study.manifest["model"] else None


def shipped_steps(name: str) -> pd.DataFrame | None:
    """Return `StudySet.over_steps` of a run of a shipped model's recipe; None if there is none."""
    file = shipped_folder() / name / STEPS
    return pd.read_parquet(file) if file.is_file() else None
