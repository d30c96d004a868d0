"""Work of a study's worker, called in this process."""

import pickle
from dataclasses import replace
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import disassemble
from mha_viz.corpus.measure.shard import Settings, Shard
from mha_viz.corpus.run.worker import Plan, Task, Worker, checked
from mha_viz.corpus.sources.source import open_source, shards
from mha_viz.corpus.store.manifest import versions, weights_hash
from tests.corpus.small_studies import TEXTS


@pytest.fixture(scope="module")
def task() -> Task:
    ((number, items),) = shards(open_source(TEXTS))
    return Task(number, items)


@pytest.fixture(scope="module")
def plan(bert: Any) -> Plan:
    weights = weights_hash(bert.network)
    return Plan(disassemble(bert), None, weights, "cpu", Settings(), versions())


def sent(plan: Plan, task: Task) -> Shard:
    return checked(pickle.loads(pickle.dumps(Worker(plan).measure(task))))


def test_measure_gives_the_tables_of_a_shard(plan: Plan, task: Task) -> None:
    shard = sent(plan, task)
    assert shard.counts["n_texts"] == len(TEXTS) == len(shard.tables["sentences"])
    assert {"texts", "edges", "profile", "pairs"} <= shard.tables.keys() and not shard.skipped


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weights_sha256": "0" * 64}, "did not arrive whole"),
        (
            {"versions": {**versions(), "torch": "2.0"}},
            r"has torch 2\.\d+.* 2\.0: install the same",
        ),
    ],
)
def test_what_is_wrong_with_a_machine_is_told(
    plan: Plan, task: Task, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(mv.errors.StudyError, match=said):
        sent(replace(plan, **change), task)


def test_plan_has_untrained_weights_only_where_the_study_compares_with_them(
    bert: Any,
) -> None:
    for baselines in (False, True):
        settings = Settings(baselines=baselines)
        plan = Plan.of(bert, settings)
        assert (plan.untrained is not None) == baselines
        assert plan.settings == settings
