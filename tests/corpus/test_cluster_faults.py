"""Faults of a Ray cluster: killed workers, late machines, a small store. No bit may change."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import mha_viz as mv
from mha_viz.corpus.run.progress import Progress
from mha_viz.errors import StudyError
from tests.corpus.plain_study import TEXTS
from tests.corpus.ray_cluster import add_machine, head_of, ray_cluster, workers_of
from tests.corpus.small_studies import files_of
from tests.waiting import PATIENCE, wait_for

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


@pytest.mark.parametrize("n_killed", [1, 2])
def test_a_worker_that_is_killed_in_the_middle_of_a_shard_changes_no_bit(
    n_killed: int, whole: mv.Study, bert: Any, pair: Any, tmp_path: Path
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
        for process in workers[:n_killed]:
            process.kill()
            killed.append(process.pid)
        for process in workers[n_killed:]:
            process.resume()

    mv.study(bert, LINES, out, cluster=head_of(pair), on_progress=kill)
    assert len(killed) == n_killed
    assert files_of(out) == files_of(whole.folder)


def test_workers_that_are_always_killed_end_the_study_in_a_sentence(
    whole: mv.Study, bert: Any, pair: Any, tmp_path: Path
) -> None:
    """It goes on from there: on one process, with the same bits."""
    out = tmp_path / "study"
    ended = threading.Event()
    killed: set[int] = set()

    def kill() -> None:
        while not ended.wait(0.05):
            for process in [one for node in pair.worker_nodes for one in workers_of(node)]:
                try:
                    process.kill()
                    killed.add(process.pid)
                except psutil.NoSuchProcess:
                    continue

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        with pytest.raises(StudyError, match=r"The cluster gave up 3 times .*goes on from there"):
            mv.study(bert, LINES, out, cluster=head_of(pair))
    finally:
        ended.set()
        thread.join(PATIENCE)
    assert len(killed) > 2
    mv.study(bert, LINES, out)
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


def test_texts_that_are_more_than_rays_store_holds(bert: Any, tmp_path: Path) -> None:
    """Ninety megabytes of text, for stores of eighty: they are handed on in portions."""
    unknown = "x" * 900_000  # one word, which is one unknown token
    texts = [f"{text} Number {i}. {unknown}" for i in range(15) for text in TEXTS]
    plain = mv.study(bert, texts, tmp_path / "plain")
    with ray_cluster(1, object_store_memory=80 * 2**20) as cluster:
        mv.study(bert, texts, tmp_path / "study", cluster=head_of(cluster))
    assert files_of(tmp_path / "study") == files_of(plain.folder)
