"""The plan of a study for workers on other machines."""

from functools import partial
from typing import Any

from mha_viz.corpus.measure.shard import Settings
from mha_viz.corpus.run.worker import Plan, Work


def test_plan_has_untrained_weights_only_where_the_study_compares_with_them(
    bert: Any,
) -> None:
    for untrained in (None, bert):
        work = Work(bert, partial(next, iter([untrained])), iter(()), Settings())
        plan = Plan.of(work)
        assert (plan.untrained is None) == (untrained is None)
        assert plan.settings == work.settings
