"""Clusters of Ray whose machines are all this one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def ray_cluster(n_machines: int, **head: Any) -> Iterator[Any]:
    """A head that has no processor to give, and so many machines of one each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_health_check_period_ms", "1000")  # of 3000: sooner seen to be dead
        patch.setenv("PYTHONPATH", os.getcwd())
        from ray.cluster_utils import Cluster

        about = {"num_cpus": 0, "include_dashboard": False, **head}
        made = Cluster(initialize_head=True, head_node_args=about)
        try:
            for _ in range(n_machines):
                add_machine(made)
            yield made
        finally:
            made.shutdown()


def add_machine(cluster: Any) -> Any:
    """A further machine with one processor."""
    return cluster.add_node(num_cpus=1, memory=4 * 2**30)


def head_of(cluster: Any) -> str:
    """Return the address of its head; tests may reach this machine by no other name."""
    return f"127.0.0.1:{cluster.address.rpartition(':')[2]}"
