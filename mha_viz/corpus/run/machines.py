"""The machines or devices that a study runs on, where it is more than the model's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mha_viz.corpus.run.devices import Devices
from mha_viz.corpus.store.address import is_address
from mha_viz.errors import ArgumentError, StudyError

if TYPE_CHECKING:
    from mha_viz.corpus.run.cluster import Cluster


def machines_of(
    cluster: str | None, devices: Sequence[str] | str | None, out: str | Path, keep_texts: bool
) -> Cluster | Devices | None:
    """Make the cluster or the devices, where they are given."""
    if cluster is not None and devices is not None:
        raise ArgumentError(
            "Give cluster or devices, not both: a cluster shares out its own cards."
        )
    if cluster is None:
        if is_address(out):
            raise StudyError(
                f"{out} is an address, which takes a cluster (cluster=...): give a folder of this "
                "machine."
            )
        return None if devices is None else Devices(devices, out)
    if is_address(out) and not keep_texts:
        raise StudyError(
            f"A study without its texts is added up where it lies, and {out} is an address: give a "
            "folder that all machines share, or keep the texts."
        )
    from mha_viz.corpus.run.cluster import Cluster  # Ray comes with the extra `cluster`

    return Cluster(cluster, out)
