"""Run the app's first sentence through its model, and store what that left behind beside it.

    python -m models.store_first_run

To be called again whenever the model, the sentence or a metric changes; a test says when.
"""

from mha_viz.checkpoints.catalog import find_model
from mha_viz.checkpoints.loading import load
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.reports import stored_run
from mha_viz.reports.induction import induction_scores
from mha_viz.reports.report import scores_of_random
from mha_viz.reports.stored_run import ModelFacts, StoredRun
from mha_viz.ui.state.views import DEFAULT

KEEP = ("pattern", "z", "query", "key", "value")


def first_run() -> StoredRun:
    """Compute what the app's first page shows by the model itself."""
    model = load(DEFAULT.model, device="cpu")
    record = model.trace(DEFAULT.text, keep=KEEP)
    random = untrained_copy(model)
    scores = scores_of_random(record, random, induction_scores(random))
    assert scores is not None  # no tokens were left out
    return StoredRun(ModelFacts.of(model), record, induction_scores(model), scores)


def main() -> None:
    stored_run.write(find_model(DEFAULT.model).path, first_run())


if __name__ == "__main__":
    main()
