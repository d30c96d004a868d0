"""The plan of a study for workers on other machines."""

from typing import Any

from mha_viz.corpus.measure.shard import Settings
from mha_viz.corpus.run.worker import Plan


def test_plan_has_untrained_weights_only_where_the_study_compares_with_them(
    bert: Any,
) -> None:
    for baselines in (False, True):
        settings = Settings(baselines=baselines)
        plan = Plan.of(bert, settings)
        assert (plan.untrained is not None) == baselines
        assert plan.settings == settings
