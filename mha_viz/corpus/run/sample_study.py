"""The studies of the sample that lie beside the shipped models, made beforehand."""

from pathlib import PurePath

from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.corpus.measure.scores import own_scores
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.store.manifest import model_identity
from mha_viz.corpus.store.storage import MANIFEST
from mha_viz.engine.model import AttentionModel

FOLDER = "sample_study"  # in the model's


def sample_study(model: AttentionModel) -> Study | None:
    """Return the study that was made of a model beforehand, by all metrics; None if none was."""
    folder = shipped_folder() / PurePath(model.name).name / FOLDER
    if own_scores() or not (folder / MANIFEST).is_file():
        return None
    found = Study.load(folder)
    return found if found.manifest["model"] == model_identity(model) else None
