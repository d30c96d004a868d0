"""What an actor of a cluster does, called in this process."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.checkpoints.untrained_copy import disassemble
from mha_viz.corpus.measure.shard import Settings
from mha_viz.corpus.run.worker import Plan, Task, Worker
from mha_viz.corpus.sources.source import open_source, shards
from mha_viz.corpus.store.manifest import versions
from mha_viz.corpus.store.storage import read_manifest, read_shard
from tests.corpus.small_studies import TEXTS, files_of


@pytest.fixture(scope="module")
def task() -> Task:
    ((number, items),) = shards(open_source(TEXTS))
    return Task(number, items)


@pytest.fixture
def plan(bert: Any, tmp_path: Path) -> Plan:
    """Of a study whose one shard is not there."""
    folder = mv.study(bert, TEXTS, tmp_path / "study").folder
    shutil.rmtree(folder / "parts")
    weights = read_manifest(folder)["model"]["weights_sha256"]
    return Plan(folder, None, disassemble(bert), None, weights, "cpu", Settings(), versions())


def told(plan: Plan, task: Task) -> Any:
    return json.loads(json.dumps(Worker(plan).result(task)))  # as it is sent


def test_an_actor_that_was_taken_for_dead_comes_too_late(plan: Plan, task: Task) -> None:
    told(plan, task)
    before = files_of(plan.folder)
    assert told(plan, task)["summary"] == read_shard(plan.folder, 0)
    assert files_of(plan.folder) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"folder": Path("/not/shared")}, r"does not see the study /not/shared: give a folder"),
        ({"weights_sha256": "0" * 64}, "did not arrive whole"),
        (
            {"versions": {**versions(), "torch": "2.0"}},
            r"has torch 2\.\d+.* 2\.0: install the same",
        ),
        ({"address": "nowhere://bucket/study"}, "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_machine_is_told(
    plan: Plan, task: Task, change: dict[str, Any], said: str
) -> None:
    kind, message = told(replace(plan, **change), task)["error"]
    assert kind == "StudyError"
    with pytest.raises(mv.errors.StudyError, match=said):
        raise mv.errors.StudyError(message)
