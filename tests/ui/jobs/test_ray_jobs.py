"""Heavy jobs on a cluster: the same results, progress, Stop and errors as in a process here."""

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import mha_viz as mv
from mha_viz.errors import JobError, SettingsError, StudyError, TextError
from mha_viz.interventions.importance import head_importance
from mha_viz.ui.jobs.calls import Call, Cancelled, CancelToken
from mha_viz.ui.jobs.jobs import Jobs
from mha_viz.ui.jobs.process import RemoteFault
from mha_viz.ui.operating.settings import Settings
from mha_viz.ui.run import heavy
from tests.making.comparing import close
from tests.ui.jobs import calls_for_tests as ours
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.extended]  # Ray starts a dozen processes
GPT2 = ("tiny-gpt2", "cpu", "float32")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that has no processor to give, and one machine that has two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.getcwd())
        import ray
        from ray.cluster_utils import Cluster

        made = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        try:
            made.add_node(num_cpus=2, memory=4 * 2**30)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


@pytest.fixture
def workers(cluster: Any) -> Iterator[Any]:
    made = Jobs(Settings(cluster=f"127.0.0.1:{cluster.address.rpartition(chr(58))[2]}")).workers
    yield made
    made.put_away()


def test_run_of_a_models_importance_equals_that_of_this_process(workers: Any) -> None:
    texts, told = ("A dog ran home.", "Birds sing."), []
    call = Call(partial(head_importance, heavy.model_of(GPT2), texts), "on_progress")
    found = workers.run(call, CancelToken(), lambda *news: told.append(news))
    close(found.values, head_importance(mv.load("tiny-gpt2"), texts).values, atol=1e-5)


def test_run_tells_progress_and_ends_when_it_is_stopped(workers: Any) -> None:
    stop, told = CancelToken(), []

    def on_progress(*news: Any) -> None:
        told.append(news)
        stop.set()

    with pytest.raises(Cancelled):
        workers.run(Call(partial(ours.goes_on), "on_progress"), stop, on_progress)
    assert told
    wait_for(lambda: not workers._actors, "the actor to be ended")


def test_errors_are_those_of_a_process_here(workers: Any) -> None:
    with pytest.raises(TextError, match="The text is empty"):
        workers.run(Call(partial(ours.refuses)), CancelToken(), lambda *_: None)
    with pytest.raises(RemoteFault, match="ZeroDivisionError"):
        workers.run(Call(partial(ours.fails)), CancelToken(), lambda *_: None)
    with pytest.raises(JobError, match="has gone"):
        workers.run(Call(partial(ours.is_killed)), CancelToken(), lambda *_: None)


def test_a_cluster_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    nowhere = Jobs(Settings(cluster="127.0.0.1:1")).workers
    with pytest.raises(StudyError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        nowhere.run(Call(partial(ours.refuses)), CancelToken(), lambda *_: None)


def test_jobs_without_ray_name_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "mha_viz.ui.jobs.ray_jobs", raising=False)
    monkeypatch.delitem(sys.modules, "mha_viz.corpus.run.cluster", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingsError, match=r"cluster = auto needs Ray: pip install"):
        Jobs(Settings(cluster="auto"))
