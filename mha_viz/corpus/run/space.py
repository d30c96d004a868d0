"""Estimate of the space that a study of very many texts takes, with its texts and without."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from mha_viz.core.amounts import of_bytes
from mha_viz.corpus.statistics.intervals import N_UNITS
from mha_viz.corpus.statistics.totals import ROWS, UNITS
from mha_viz.corpus.store.storage import read_manifest, read_shard, shard_folder

MANY = 1_000_000  # texts, above which their rows take more room than most disks have to spare


def space_note(folder: Path, n_texts: int | None) -> str | None:
    """Suggest to keep no texts, where they are very many; "" where they are not.

    Args:
        folder: of a study that is being made with its texts.
        n_texts: in its source; if None, it is estimated from the first part and the files' sizes.

    Returns:
        A sentence; None before the first part is written, by which the space is estimated.
    """
    first = read_shard(folder, 0)
    if first is None:
        return None
    n = first["n_texts"]
    many = _estimated(folder, n) if n_texts is None else n_texts
    if n == 0 or many <= MANY:
        return ""
    files: Mapping[str, int] = {Path(name).stem: size for name, size in first["files"].items()}
    rows = sum(files.get(name, 0) for name in ROWS)
    at_end, meanwhile = (size * many / n for size in (rows, sum(files.values()) + rows))
    sums = {name: size for name, size in files.items() if name not in ROWS}
    alone = sum(sums.values()) + sums[UNITS] * (N_UNITS / min(n, N_UNITS) - 1)
    return (
        f"of about {many:,} texts this study will take {of_bytes(at_end)} of disk "
        f"({of_bytes(meanwhile)} while it is made); with --no-texts, which "
        f"keeps no examples and no search, about {of_bytes(2 * alone)}"
    )


def _estimated(folder: Path, n: int) -> int:
    """Estimate the number of texts by the mean length of those in the first part."""
    files: list[dict[str, Any]] = read_manifest(folder)["source"]["files"]
    texts = pq.read_table(shard_folder(folder, 0) / "sentences.parquet", columns=["text"])["text"]
    length = (pc.sum(pc.binary_length(texts)).as_py() or 0) + n  # and the ends of lines
    return round(sum(file["size"] for file in files) * n / max(length, 1))
