"""Study the sample with each checkpoint of a run of tiny-gpt2's recipe, and store it as a table.

    python -m models.train gpt2 --text DIR --cache DIR --work DIR --checkpoints STEPS \
        --max-steps 4096
    python -m models.store_training_steps STEPS

To be called again whenever the sample, a metric or a label changes; a slow test says when.
"""

import argparse
import tempfile
from pathlib import Path

import pandas as pd

from mha_viz.checkpoints.catalog import shipped_folder
from mha_viz.corpus.run.sample_study import STEPS
from mha_viz.corpus.run.study_set import studies
from mha_viz.corpus.treebank.trees import SAMPLE
from mha_viz.ui.run.page_lock import one_thread
from mha_viz.ui.run.study_job import BATCH_TOKENS


def made(run: Path, folder: Path) -> pd.DataFrame:
    """Study the sample with every checkpoint."""
    with one_thread():
        found = studies(run, SAMPLE, folder, device="cpu", batch_tokens=BATCH_TOKENS)
    return found.over_steps()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="folder of the checkpoints")
    run = parser.parse_args().run
    with tempfile.TemporaryDirectory() as folder:
        table = made(run, Path(folder))
    table.to_parquet(shipped_folder() / "tiny-gpt2" / STEPS, compression="zstd", index=False)


if __name__ == "__main__":
    main()
