"""The plan of a study for workers on other machines."""

from functools import partial
from pathlib import Path
from typing import Any

import mha_viz as mv
from mha_viz.corpus.measure.shard import Settings
from mha_viz.corpus.run.worker import Plan, Work
from tests.corpus.small_studies import TEXTS


def test_plan_has_untrained_weights_only_where_the_study_compares_with_them(
    bert: Any, tmp_path: Path
) -> None:
    folder = mv.study(bert, TEXTS, tmp_path / "study").folder
    for untrained in (None, bert):
        work = Work(bert, partial(next, iter([untrained])), iter(()), Settings())
        plan = Plan.of(folder, work)
        assert (plan.untrained is None) == (untrained is None)
        assert plan.folder == folder and plan.settings == work.settings
