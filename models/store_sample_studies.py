"""Study the sample with each shipped model, as the page Many texts does, beside the model.

    python -m models.store_sample_studies

To be called again whenever a model, the sample, a metric or a table changes; a slow test says when.
"""

import shutil
from pathlib import Path

from mha_viz.checkpoints.catalog import list_models
from mha_viz.checkpoints.loading import load
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.sample_study import FOLDER
from mha_viz.corpus.run.study_builder import study
from mha_viz.corpus.store.lock import LOCK
from mha_viz.corpus.treebank.trees import SAMPLE
from mha_viz.ui.run.page_lock import one_thread
from mha_viz.ui.run.study_job import BATCH_TOKENS


def made(name: str, folder: Path) -> Study:
    """Study the sample with a shipped model."""
    with one_thread():
        return study(load(name, device="cpu"), SAMPLE, folder, batch_tokens=BATCH_TOKENS)


def main() -> None:
    for model in list_models():
        if model.source == "shipped":
            folder = model.path / FOLDER
            shutil.rmtree(folder, ignore_errors=True)
            made(model.name, folder)
            (folder / LOCK).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
