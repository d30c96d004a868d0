"""Studies on a cluster of three machines (all of them this one): the bits of one machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.corpus.run.progress import Progress
from mha_viz.errors import StudyError
from tests.corpus.random_moments import PER_SHARD
from tests.corpus.ray_cluster import head_of, ray_cluster
from tests.corpus.small_studies import TEXTS, Stopped, tables_of

# Ray starts a dozen processes
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_shards")]

LINES = [f"{text} Number {i}." for i in range(5) for text in TEXTS]  # 35 texts, 9 shards of 4
N_SHARDS = 9


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_cluster(2) as made:
        yield made


def _begun(model: Any, out: Path) -> None:
    """A study that was stopped on one machine, after two of its shards."""

    def stop(now: Progress) -> None:
        if now.n_texts > 2 * PER_SHARD:
            raise Stopped

    with pytest.raises(Stopped):
        mv.study(model, LINES, out, on_progress=stop)


def test_an_address_is_filled_by_a_cluster_and_read_from_a_copy(
    whole: mv.Study, bert: Any, cluster: Any, tmp_path: Path
) -> None:
    _begun(bert, tmp_path / "study")
    address = f"file://{tmp_path}/study"
    told: list[Progress] = []
    made = mv.study(bert, LINES, address, cluster=head_of(cluster), on_progress=told.append)
    assert told[0].n_texts == 2 * PER_SHARD  # what was there
    assert told[-1].n_texts == told[-1].n_total == len(LINES) and len(told) == N_SHARDS
    assert tables_of(tmp_path / "study") == tables_of(whole.folder)
    assert made.folder != tmp_path / "study" and made.heads.equals(whole.heads)
    told.clear()
    again = mv.study(bert, LINES, address, cluster=head_of(cluster), on_progress=told.append)
    assert again.n_texts == len(LINES) and not told
    with pytest.raises(StudyError, match=f"{address}.* source"):
        mv.study(bert, TEXTS, address, cluster=head_of(cluster))


def test_a_machine_that_dies_in_the_middle_changes_no_bit(
    whole: mv.Study, bert: Any, cluster: Any, tmp_path: Path
) -> None:
    """Begun on one machine, gone on with on three, two of which are left, ended on one."""
    _begun(bert, tmp_path / "study")
    told: list[int] = []

    def kill(now: Progress) -> None:
        told.append(now.n_texts)
        if len(told) == 3:  # the first one that the cluster has made
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        if len(told) == N_SHARDS - 1:
            raise Stopped

    with pytest.raises(Stopped):
        mv.study(bert, LINES, tmp_path / "study", cluster=head_of(cluster), on_progress=kill)
    assert told == sorted(told)
    mv.study(bert, LINES, tmp_path / "study")
    assert tables_of(tmp_path / "study") == tables_of(whole.folder)


def test_no_cluster_at_that_address(bert: Any, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"127\.0\.0\.1:9"):
        mv.study(bert, LINES, tmp_path / "study", cluster="127.0.0.1:9")
    assert not (tmp_path / "study").exists()
