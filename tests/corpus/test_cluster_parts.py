"""The work of the machine that asks a cluster: portions, room for actors, second tries."""

from collections.abc import Iterator
from typing import Any

import pytest
from ray.exceptions import RayActorError, RayTaskError

from mha_viz.corpus.measure.shard import Shard
from mha_viz.corpus.run import cluster as clusters
from mha_viz.corpus.run.cluster import _Actor, _Pool, _room, _windows
from mha_viz.corpus.run.worker import Task, Worker
from mha_viz.corpus.sources.source import Item
from mha_viz.errors import StudyError

TASKS = [Task(number, [Item(number, "x" * 800, f"a:{number}")]) for number in range(7)]


def measured(task: Task) -> Shard:
    return Shard(dict, [], {"n_texts": task.number})


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> _Pool:
    """One without a cluster; a test says what comes of a run."""
    monkeypatch.setattr(_Pool, "__init__", lambda _: None)
    return _Pool()  # type: ignore[call-arg]


def test_texts_wait_in_portions_and_are_read_no_further() -> None:
    """Three shards of 1000 bytes, with what belongs to them."""
    read: list[int] = []

    def reading() -> Iterator[Task]:
        for task in TASKS:
            read.append(task.number)
            yield task

    windows = _windows(reading(), 3000)
    assert [task.number for task in next(windows)] == read == [0, 1, 2]
    assert [[task.number for task in window] for window in windows] == [[3, 4, 5], [6]]
    assert not list(_windows(iter(()), 3000))


def machine(alive: bool = True, **has: float) -> dict[str, Any]:
    return {"Alive": alive, "Resources": {"memory": 64 * 2**30, **has}}


@pytest.mark.parametrize(
    ("machines", "needs", "expected"),
    [
        ([machine(CPU=2)], {"num_cpus": 1}, 2),  # reading needs none: both may be taken
        ([machine(), machine(CPU=7), machine(CPU=3), machine(False, CPU=8)], {"num_cpus": 2}, 4),
        ([machine(CPU=99)], {"num_cpus": 1, "memory": 30 * 2**30}, 2),
        ([machine(CPU=8, GPU=2), machine(CPU=8)], {"num_cpus": 1, "num_gpus": 1}, 2),
    ],
)
def test_as_many_actors_as_machines_have_room_for(
    monkeypatch: pytest.MonkeyPatch, machines: list[Any], needs: dict[str, Any], expected: int
) -> None:
    monkeypatch.setattr(clusters.ray, "nodes", lambda: machines)
    assert _room({"memory": 2**30, "num_gpus": 0, **needs}) == expected


def test_no_room_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters.ray, "nodes", lambda: [machine(CPU=4), machine(CPU=4)])
    with pytest.raises(StudyError, match=r"8 CPUs.* GPU .*3 GB"):
        _room({"num_cpus": 8, "memory": 3 * 10**9, "num_gpus": 1})


def test_what_ray_gives_up_is_tried_again_as_long_as_it_gets_on(
    pool: _Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def run(tasks: list[Task]) -> Iterator[Shard]:
        asked.append(len(tasks))
        yield measured(tasks[0])
        raise RayActorError

    monkeypatch.setattr(pool, "_run", run)
    found = list(pool.measured(TASKS))
    assert [shard.counts["n_texts"] for shard in found] == [0, 1, 2, 3, 4, 5, 6]
    assert asked == [7, 6, 5, 4, 3, 2, 1]


def test_a_cluster_that_gets_nowhere_is_told(pool: _Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def run(tasks: list[Task]) -> Iterator[Shard]:
        asked.append(len(tasks))
        raise RayActorError
        yield measured(TASKS[0])

    monkeypatch.setattr(pool, "_run", run)
    with pytest.raises(StudyError, match=r" 3 .*The actor .* this task"):
        list(pool.measured(TASKS))
    assert asked == [7, 7, 7]


def test_errors_of_an_actor_are_those_of_one_machine(
    pool: _Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_run", lambda _: iter([StudyError("The weights are lost.")]))
    with pytest.raises(StudyError, match=r"^The weights are lost\.$"):
        list(pool.measured(TASKS))

    def run(_: Any) -> Iterator[Shard]:
        raise RayTaskError("measure", "a trace", ZeroDivisionError("by zero"))
        yield measured(TASKS[0])

    monkeypatch.setattr(pool, "_run", run)
    with pytest.raises(RayTaskError, match="a trace"):  # no error of ours: not tried again
        list(pool.measured(TASKS))


def test_an_actor_prepares_the_plan_that_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[str] = []
    monkeypatch.setattr(clusters.ray, "get", lambda sent: f"the {sent}")
    monkeypatch.setattr(Worker, "__init__", lambda _, plan: plans.append(plan))
    _Actor(["plan"])
    assert plans == ["the plan"]
