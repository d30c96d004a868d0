"""Faults of a Ray cluster: killed workers, late machines, a small store. No bit may change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.run.progress import Progress
from tests.corpus.ray_cluster import add_machine, head_of, ray_cluster, workers_of
from tests.corpus.small_studies import TEXTS, files_of
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.extended,
    pytest.mark.usefixtures("small_shards"),
    pytest.mark.timeout(1800),
]

LINES = [f"{text} Number {i}." for i in range(23) for text in TEXTS]  # 161 texts, 41 shards of 4
N_SHARDS = 41


@pytest.fixture
def pair() -> Iterator[Any]:
    with ray_cluster(2) as made:
        yield made


def n_done(out: Path) -> int:
    return len(list((out / "shards").iterdir()))


def test_workers_killed_in_the_middle_of_a_shard_change_no_bit(
    whole: mv.Study, bert: Any, pair: Any, tmp_path: Path
) -> None:
    out = tmp_path / "study"
    killed: list[int] = []

    def kill(_: Progress) -> None:
        if killed or not n_done(out):
            return
        workers = [process for one in pair.worker_nodes for process in workers_of(one)]
        for process in workers:
            process.suspend()
        assert len(workers) == 2 and n_done(out) < N_SHARDS  # both have shards that are not done
        for process in workers:
            process.kill()
            killed.append(process.pid)

    mv.study(bert, LINES, out, cluster=head_of(pair), on_progress=kill)
    assert len(killed) == 2
    assert files_of(out) == files_of(whole.folder)


def test_a_machine_that_joins_late_takes_its_share(
    whole: mv.Study, bert: Any, tmp_path: Path
) -> None:
    """The first one is held up until the late one has finished a shard."""
    out = tmp_path / "study"
    late: list[Any] = []
    with ray_cluster(1) as cluster:

        def join(_: Progress) -> None:
            if late or not n_done(out):
                return
            [first] = [one for machine in cluster.worker_nodes for one in workers_of(machine)]
            first.suspend()
            before = n_done(out)
            late.append(add_machine(cluster))
            wait_for(lambda: workers_of(late[0]), "a worker of the machine that joined")
            wait_for(lambda: n_done(out) > before, "a shard that it makes")
            first.resume()

        mv.study(bert, LINES, out, cluster=head_of(cluster), on_progress=join)
    assert late
    assert files_of(out) == files_of(whole.folder)
